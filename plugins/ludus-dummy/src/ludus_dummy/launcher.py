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

_IDLE_S = 0.005


class Threads:
    """Starts every worker as a thread; a failed worker is not restarted."""

    def __init__(self, config: None = None) -> None:
        del config

    @property
    def cores(self) -> float:
        """Return 1: Python threads do not run in parallel."""
        return 1.0

    def check(self, workers: int) -> None:
        """Accept any number of workers."""

    def launch(self, session: Session, workers: Sequence[WorkerSpec]) -> ThreadPool:
        """Start the workers."""
        return ThreadPool(session, workers)


class ThreadLink:
    """The message queues of all workers, as one of them uses them.

    Args:
        name: Name of the worker.
        queues: Incoming messages of all workers, by name.
    """

    def __init__(self, name: str, queues: Mapping[str, SimpleQueue[tuple[str, Any]]]) -> None:
        self._name, self._queues = name, queues

    def send(self, peer: str, message: Any) -> bool:
        """Put a message into the queue of a peer."""
        self._queues[peer].put((self._name, message))
        return True

    def receive(self, timeout_s: float) -> list[tuple[str, Any]]:
        """Return the next message, or an empty list after the timeout."""
        try:
            return [self._queues[self._name].get(timeout=timeout_s)]
        except Empty:
            return []


class ThreadPool(ThreadLink):
    """The running threads, and the link of the coordinator.

    Args:
        session: The session.
        workers: Workers to start.
    """

    def __init__(self, session: Session, workers: Sequence[WorkerSpec]) -> None:
        names = [COORDINATOR, *(spec.name for spec in workers)]
        self._end = threading.Event()
        super().__init__(COORDINATOR, {name: SimpleQueue() for name in names})
        env = WorkerEnv(run_dir=session.run_dir, session=session.number)
        self._threads = [
            threading.Thread(target=self._run, args=(spec, env), name=spec.name, daemon=True) for spec in workers
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, spec: WorkerSpec, env: WorkerEnv) -> None:
        link = ThreadLink(spec.name, self._queues)
        try:
            worker = make_worker(spec, env, WorkerContext(link=link, clock=time.monotonic))
            worker.start()
            while not (self._end.is_set() or (worker.stopped and worker.drained)):
                idle_s = 0.0 if worker.work() else _IDLE_S
                for peer, message in link.receive(idle_s):
                    worker.handle(peer, message)
            worker.close()
        except Exception as error:  # noqa: BLE001 - reported by the coordinator
            link.send(COORDINATOR, Failure(error=str(error), fatal=True))

    def check(self, *, last_seen_s: Mapping[str, float], errors: dict[str, str]) -> None:  # noqa: ARG002
        """Check that all threads are alive.

        Raises:
            WorkerError: A worker has ended.
        """
        for thread in self._threads:
            if not thread.is_alive() and self._queues[COORDINATOR].empty():
                raise WorkerError(f"{thread.name}: {errors.get(thread.name, 'ended by itself')}")

    @property
    def alive(self) -> list[str]:
        """Return the names of the running threads."""
        return [thread.name for thread in self._threads if thread.is_alive()]

    def finish(self, *, timeout_s: float, poll: Callable[[], None]) -> list[str]:
        """Wait for all workers to end, then stop the rest and return their names."""
        deadline = time.monotonic() + timeout_s
        while self.alive and time.monotonic() < deadline:
            poll()
        left = self.alive
        self.close()
        return left

    def close(self) -> None:
        """Stop all threads that still run."""
        self._end.set()
        for thread in self._threads:
            thread.join(10.0)
