"""The launcher ``local``: workers are processes of this machine, which talk over sockets and share memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ludus.launcher import COORDINATOR, Session, WorkerSpec
from ludus.wire import CheckpointAck, Heartbeat, ResultsAck, Stop

from ludus_local.memory import remove, shared_path
from ludus_local.process import available_cores
from ludus_local.supervisor import Supervisor, check_room, serves
from ludus_local.transport import ZmqEndpoint, ipc_address, private_ipc_dir

__all__ = ["LocalCrew", "LocalLauncher"]

_GATHER_S = 0.02


class LocalLauncher:
    """Starts workers on this machine."""

    def __init__(self, config: None = None) -> None:
        del config  # there are no options

    @property
    def cores(self) -> float:
        """Return how many cores this process and its children may use together."""
        return available_cores()

    def check(self, workers: int) -> None:
        """Find out whether this machine has memory for so many workers, see `ludus.launcher.Launcher.check`.

        Raises:
            WorkerError: It has not.
        """
        check_room(workers)

    def launch(self, session: Session, workers: Sequence[WorkerSpec]) -> LocalCrew:
        """Start workers, see `ludus.launcher.Launcher.launch`.

        Raises:
            WorkerError: One could not be started.
            LinkError: There is no place for sockets.
        """
        worker_pool = LocalCrew(session)
        worker_pool.start(workers)
        return worker_pool


class LocalCrew:
    """Worker processes and the coordinator's endpoint; see `ludus.launcher.WorkerPool`.

    Args:
        session: Whose.
        modules: See `ludus_local.supervisor.Supervisor`.
    """

    def __init__(self, session: Session, modules: Mapping[str, Sequence[str]] | None = None) -> None:
        self._sockets = private_ipc_dir()
        self._endpoint = ZmqEndpoint(COORDINATOR)
        self._supervisor = Supervisor(session=session, sockets=self._sockets, modules=modules or {})
        self._received_s = -_GATHER_S

    def start(self, workers: Sequence[WorkerSpec]) -> None:
        """Listen, and start the workers; close if that fails.

        Raises:
            WorkerError: One could not be started.
        """
        try:
            self._endpoint.bind(ipc_address(self._sockets, COORDINATOR))
            self._supervisor.start(workers)
        except BaseException:
            self.close()
            raise

    def send(self, peer: str, message: Any) -> bool:
        """Send to a worker without waiting."""
        if isinstance(message, CheckpointAck | ResultsAck):  # what is acknowledged is committed
            self._supervisor.progressed(peer)
        elif isinstance(message, Stop):
            self._supervisor.dismiss(peer)
        return self._endpoint.send(peer, message)

    def receive(self, timeout_s: float) -> list[tuple[str, Any]]:
        """Return what workers said, waiting so long for the first.

        Less often than they speak, as what is said in between then shares one commit of the league.
        """
        time.sleep(max(0.0, self._received_s + _GATHER_S - time.monotonic()))
        messages = self._endpoint.receive(timeout_s)
        self._received_s = time.monotonic()
        for peer, message in messages:
            if isinstance(message, Heartbeat) and message.count and serves(peer):
                self._supervisor.progressed(peer)
        return messages

    def check(self, *, last_seen_s: Mapping[str, float], errors: dict[str, str]) -> None:
        """Restart workers that ended or have been silent for too long.

        Raises:
            WorkerError: A worker dies again and again.
        """
        self._supervisor.check(last_seen_s=last_seen_s, errors=errors)

    @property
    def alive(self) -> list[str]:
        """Return the names of the running workers."""
        return self._supervisor.alive

    def finish(self, *, timeout_s: float, poll: Callable[[], None]) -> list[str]:
        """Wait for all workers to end by themselves, then kill the rest; returns who had to be killed."""
        return self._supervisor.finish(timeout_s=timeout_s, poll=poll)

    def close(self) -> None:
        """Kill whoever is left and remove sockets and shared memory."""
        self._supervisor.finish(timeout_s=0.0, poll=lambda: None)
        self._endpoint.close()
        for folder in (self._sockets, shared_path(self._sockets)):
            remove(folder)
