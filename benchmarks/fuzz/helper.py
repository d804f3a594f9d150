"""A helper of a learner as a receiver; it is a member of a group without other processes."""

from __future__ import annotations

import shutil
from pathlib import Path

from attrs import define, field
from ludus._learning.data_parallel import HelperWorker
from ludus._run.worker_factories import make_worker
from ludus.errors import LudusError
from ludus.group import Alone
from ludus.launcher import WorkerContext
from ludus_local.group import LocalRendezvous
from ludus_local.link import HostLink
from ludus_local.memory import SharedFolder, remove

from fuzz.endpoint import FrameEndpoint
from fuzz.league import Trained, helper_context
from fuzz.stage import Stage

_TICK_S = 0.02
_GROUP = 1  # that the messages of the learner name


class _Lone(Alone):
    """A group of this process alone."""

    def close(self) -> None:
        """Leave the group."""


@define(eq=False, slots=False)
class HelperReceiver:
    """A helper of ``learner-main``, whose player learns by PPO.

    Args:
        trained: The league.
        folder: Folder for sockets and shared memory.
    """

    trained: Trained
    folder: Path
    forgives: tuple[type[Exception], ...] = field(init=False, default=(LudusError,))
    worker: HelperWorker = field(init=False)
    _now_s: float = field(init=False, default=0.0)

    def __attrs_post_init__(self) -> None:
        shared = self.folder / "shared"
        shared.mkdir(mode=0o700, parents=True)
        self._endpoint = FrameEndpoint("helper-1-main")
        self._memory = SharedFolder(shared, "helper-1-main")
        self._link = HostLink(self._endpoint, self._memory)
        self._context = helper_context(self.folder / "run")
        self.restart()

    def restart(self) -> None:
        """Make the helper."""
        rendezvous = LocalRendezvous(self.folder, self._memory)
        context = WorkerContext(link=self._link, clock=lambda: self._now_s, rendezvous=rendezvous)
        worker = make_worker(self._context, "helper-1-main", context)
        assert isinstance(worker, HelperWorker)
        self.worker = worker
        self.worker.start()
        self.settle()

    def deliver(self, sender: str, receiver: str, frames: list[bytes]) -> Stage:  # noqa: ARG002 - this worker
        """Pass a message through the link to the helper, and let it work once."""
        self._now_s += _TICK_S
        drops = self._endpoint.drops.copy()
        self._endpoint.put(sender, frames)
        for peer, message in self._link.receive(0.0):
            self.worker.handle(peer, message)
        self.worker.work()
        if self._endpoint.drops == drops:
            return Stage.HANDLED
        return Stage.UNDECODED if self._endpoint.drops["undecodable"] > drops["undecodable"] else Stage.UNREAD

    def owned(self, sender: str) -> object:
        """Return whether it stops, which its coordinator decides."""
        return sender == "coordinator" or self.worker.stopped

    def settle(self) -> None:
        """Join the group of this process alone again, if the helper has left it."""
        self.worker.stopped = False
        if self.worker._group is None:
            self.worker._group, self.worker._group_id = _Lone(), _GROUP

    def open_fixtures(self) -> list[int]:
        """Return none: only the coordinator receives results."""
        return []

    def verify(self) -> list[str]:
        """Return nothing: a helper stores nothing."""
        return []

    def close(self) -> None:
        """Close the helper."""
        self.worker.close()
        self._endpoint.close()
        remove(self._memory.path)
        shutil.rmtree(self.folder, ignore_errors=True)
