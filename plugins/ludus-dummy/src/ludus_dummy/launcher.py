"""The launcher ``dummy-threads``: every worker is a thread of the coordinator's process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from ludus import WorkerError
from ludus.launcher import COORDINATOR, Session, WorkerContext, WorkerEnv, WorkerSpec
from ludus.wire import Failure
from ludus.workers import make_worker

__all__ = ["ThreadPool", "Threads"]

_IDLE_S = 0.005


class Threads:
    """Starts every worker as a thread. Other launchers restart workers that fail; this one gives up."""

    def __init__(self, config: None = None) -> None:
        del config

    @property
    def cores(self) -> float:
        """Return 1: threads of Python take turns."""
        return 1.0

    def check(self, workers: int) -> None:
        """Refuse nothing: a thread takes little memory."""

    def launch(self, session: Session, workers: Sequence[WorkerSpec]) -> ThreadPool:
        """Start the workers."""
        return ThreadPool(session, workers)


class Desk:
    """Where the messages of one name leave and arrive.

    Args:
        name: Whose.
        boxes: Of everybody, by name.
    """

    def __init__(self, name: str, boxes: Mapping[str, SimpleQueue[tuple[str, Any]]]) -> None:
        self._name, self._boxes = name, boxes

    def send(self, peer: str, message: Any) -> bool:
        """Put a message into the box of a peer."""
        self._boxes[peer].put((self._name, message))
        return True

    def receive(self, timeout_s: float) -> list[tuple[str, Any]]:
        """Return the next message, if one comes in time."""
        try:
            return [self._boxes[self._name].get(timeout=timeout_s)]
        except Empty:
            return []


class ThreadPool(Desk):
    """The threads, and the coordinator's desk.

    Args:
        session: Whose.
        workers: To start.
    """

    def __init__(self, session: Session, workers: Sequence[WorkerSpec]) -> None:
        names = [COORDINATOR, *(spec.name for spec in workers)]
        self._end = threading.Event()
        super().__init__(COORDINATOR, {name: SimpleQueue() for name in names})
        place = WorkerEnv(run_dir=session.run_dir, session=session.number)
        self._threads = [
            threading.Thread(target=self._run, args=(spec, place), name=spec.name, daemon=True) for spec in workers
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, spec: WorkerSpec, place: WorkerEnv) -> None:
        desk = Desk(spec.name, self._boxes)
        try:
            worker = make_worker(spec, place, WorkerContext(link=desk, clock=time.monotonic))
            worker.start()
            while not (self._end.is_set() or (worker.stopped and worker.drained)):
                idle_s = 0.0 if worker.work() else _IDLE_S
                for peer, message in desk.receive(idle_s):
                    worker.handle(peer, message)
            worker.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, the coordinator tells it
            desk.send(COORDINATOR, Failure(error=str(error), fatal=True))

    def check(self, *, last_seen_s: Mapping[str, float], errors: dict[str, str]) -> None:  # noqa: ARG002
        """Raise where a worker has ended.

        Raises:
            WorkerError: One has.
        """
        for thread in self._threads:
            if not thread.is_alive() and self._boxes[COORDINATOR].empty():
                raise WorkerError(f"{thread.name}: {errors.get(thread.name, 'ended by itself')}")

    @property
    def alive(self) -> list[str]:
        """Return the names of the running threads."""
        return [thread.name for thread in self._threads if thread.is_alive()]

    def finish(self, *, timeout_s: float, poll: Callable[[], None]) -> list[str]:
        """Wait for all workers to end by themselves, then end the rest; returns who had to be ended."""
        deadline = time.monotonic() + timeout_s
        while self.alive and time.monotonic() < deadline:
            poll()
        left = self.alive
        self.close()
        return left

    def close(self) -> None:
        """End whoever is left."""
        self._end.set()
        for thread in self._threads:
            thread.join(10.0)
