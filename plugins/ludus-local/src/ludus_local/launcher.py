"""The launcher ``local``: workers are processes of this machine that communicate through sockets and shared memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ludus.launcher import COORDINATOR, Session, WorkerSpec
from ludus.wire import Activity, CheckpointAck, Heartbeat, ResultsAck, Stop

from ludus_local.memory import remove, shared_path
from ludus_local.process import available_cores
from ludus_local.supervisor import Supervisor, check_memory, serves
from ludus_local.transport import ZmqEndpoint, ipc_address, private_ipc_dir

_RECEIVE_INTERVAL_S = 0.02


class LocalLauncher:
    """Starts workers on this machine."""

    def __init__(self, config: None = None) -> None:
        del config  # there are no options

    @property
    def cores(self) -> float:
        """Return how many cores this process and its children may use together."""
        return available_cores()

    def check(self, workers: int) -> None:
        """Check that this machine has memory for so many workers; see `ludus.launcher.Launcher.check`.

        Raises:
            WorkerError: It has not.
        """
        check_memory(workers)

    def launch(self, session: Session, workers: Sequence[WorkerSpec]) -> LocalWorkerPool:
        """Start workers; see `ludus.launcher.Launcher.launch`.

        Raises:
            WorkerError: A worker could not be started.
            LinkError: There is no folder for sockets.
        """
        pool = LocalWorkerPool(session)
        pool.start(workers)
        return pool


class LocalWorkerPool:
    """Worker processes and the coordinator's endpoint; see `ludus.launcher.WorkerPool`.

    Args:
        session: Session of the run.
        modules: See `ludus_local.supervisor.Supervisor`.
    """

    def __init__(self, session: Session, modules: Mapping[str, Sequence[str]] | None = None) -> None:
        self._sockets = private_ipc_dir()
        self._endpoint = ZmqEndpoint(COORDINATOR)
        self._supervisor = Supervisor(session=session, sockets=self._sockets, modules=modules or {})
        self._received_s = -_RECEIVE_INTERVAL_S

    def start(self, workers: Sequence[WorkerSpec]) -> None:
        """Bind the endpoint and start the workers; close the pool if that fails.

        Raises:
            WorkerError: A worker could not be started.
        """
        try:
            self._endpoint.bind(ipc_address(self._sockets, COORDINATOR))
            self._supervisor.start(workers)
        except BaseException:
            self.close()
            raise

    def send(self, peer: str, message: Any) -> bool:
        """Send to a worker without blocking."""
        if isinstance(message, CheckpointAck | ResultsAck):  # acknowledged work is committed
            self._supervisor.record_progress(peer)
        elif isinstance(message, Stop):
            self._supervisor.expect_exit(peer)
        return self._endpoint.send(peer, message)

    def receive(self, timeout_s: float) -> list[tuple[str, Any]]:
        """Return messages of workers, waiting up to `timeout_s` for the first.

        Two calls are at least 20 ms apart, so that messages share one commit of the league.
        """
        if (early_s := self._received_s + _RECEIVE_INTERVAL_S - time.monotonic()) > 0:
            time.sleep(early_s)
        messages = self._endpoint.receive(timeout_s)
        self._received_s = time.monotonic()
        for peer, message in messages:
            if isinstance(message, Heartbeat) and message.count and serves(peer):
                self._supervisor.record_progress(peer)
            elif isinstance(message, Activity):
                self._supervisor.record_activity(peer, message)
        return [(peer, message) for peer, message in messages if not isinstance(message, Activity)]

    def check(self, *, last_seen_s: Mapping[str, float], errors: dict[str, str]) -> None:
        """Restart workers that ended or hang.

        Raises:
            WorkerError: A worker fails repeatedly.
        """
        self._supervisor.check(last_seen_s=last_seen_s, errors=errors)

    def cut_off(self, worker: str, reason: str) -> None:
        """Restart a worker that breaks the protocol; drop all messages of a peer that is none of the workers.

        Args:
            worker: Worker name.
            reason: Why its last message was refused.

        Raises:
            WorkerError: The worker fails repeatedly.
        """
        if worker not in self._supervisor.pids:
            self._endpoint.cut_off(worker)
        elif worker in self.alive:
            self._supervisor.replace(worker, f"too many of its messages were refused; the last: {reason}")

    def quarantine(self, hosts: Mapping[str, str]) -> None:
        """Do nothing: all workers run on this host."""

    @property
    def alive(self) -> list[str]:
        """Return the names of the running workers."""
        return self._supervisor.alive

    def finish(self, *, timeout_s: float, poll: Callable[[], None]) -> list[str]:
        """Wait for all workers to exit, then kill the rest; returns the names of killed workers."""
        return self._supervisor.finish(timeout_s=timeout_s, poll=poll)

    def close(self) -> None:
        """Kill the workers that still run, and remove sockets and shared memory."""
        self._supervisor.finish(timeout_s=0.0, poll=lambda: None)
        self._endpoint.close()
        for folder in (self._sockets, shared_path(self._sockets)):
            remove(folder)
