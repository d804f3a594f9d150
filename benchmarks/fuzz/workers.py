"""Learner, helper, sampler and evaluator as receivers, behind the link of a launcher."""

from __future__ import annotations

import shutil
from pathlib import Path

from attrs import define, field
from ludus._learning.learner import Learner
from ludus._run.context import RunContext
from ludus._run.worker_factories import make_worker
from ludus._sampling.sampler import Sampler
from ludus.errors import LudusError
from ludus.launcher import COORDINATOR, Worker, WorkerContext, learner_name
from ludus.wire import RefusedMessage
from ludus_local import codec
from ludus_local.link import HostLink
from ludus_local.memory import SharedFolder, remove

from fuzz.endpoint import FrameEndpoint
from fuzz.examples import welcome_of
from fuzz.league import Trained
from fuzz.stage import Stage

_TICK_S = 0.02


@define(eq=False, slots=False)
class WorkerReceiver:
    """One worker of the league.

    Args:
        trained: The league.
        folder: Folder of the copy of its run.
        name: Worker name.
    """

    trained: Trained
    folder: Path
    name: str
    forgives: tuple[type[Exception], ...] = field(init=False, default=(LudusError,))
    worker: Worker = field(init=False)
    _context: RunContext = field(init=False)
    _link: HostLink = field(init=False)
    _endpoint: FrameEndpoint = field(init=False)
    _shared: SharedFolder = field(init=False)
    _now_s: float = field(init=False, default=0.0)
    _refused: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        path = self.folder / "shared"
        path.mkdir(mode=0o700, parents=True)
        self._context = self.trained.copy(self.folder / "run")
        self._endpoint = FrameEndpoint(self.name)
        self._shared = SharedFolder(path, self.name)
        self.restart()

    def restart(self) -> None:
        """Make the worker, and let it take part in the league."""
        address = "ipc:" if self.name.startswith("learner") else ""
        self._link = HostLink(self._endpoint, self._shared, address=address)
        if hasattr(self, "worker"):
            self.worker.close()
        context = WorkerContext(link=self._link, clock=lambda: self._now_s, memory=self._link)
        self.worker = make_worker(self._context, self.name, context)
        self.worker.start()
        for sender, message in welcome_of(self.name):
            self._endpoint.put(sender, [bytes(frame) for frame in codec.encode(message)])
        for peer, message in self._link.receive(0.0):
            self.worker.handle(peer, message)
        self.worker.work()

    def deliver(self, sender: str, receiver: str, frames: list[bytes]) -> Stage:  # noqa: ARG002 - this worker
        """Pass a message through the link to the worker, and let it work once."""
        self._now_s += _TICK_S
        drops, before = self._endpoint.drops, self._drops()
        self._endpoint.put(sender, frames)
        stage, total = Stage.HANDLED, self._total()
        for peer, message in self._link.receive(0.0):
            self.worker.handle(peer, message)
            if isinstance(message, RefusedMessage) and self._drops() == before:
                stage = Stage.REFUSED  # by the link
        if self._drops() != before:
            return Stage.UNDECODED if drops["undecodable"] > before[1] else Stage.UNREAD
        if self._total() > total:
            stage = Stage.REFUSED
        self.worker.work()
        return stage

    def _drops(self) -> tuple[int, int]:
        drops = self._endpoint.drops
        return drops["refused"] + drops["oversized"] + drops["unnamed"], drops["undecodable"]

    def _total(self) -> int:
        return self.worker.refusals.total if isinstance(self.worker, Learner) else 0

    def owned(self, sender: str) -> object:
        """Return what others than the coordinator must not change in a learner: its generation and its end.

        The number of its models is its own: it freezes some by what it has learned.

        Others than its learners must not change what a sampler's live actors play.
        """
        worker = self.worker
        if isinstance(worker, Learner) and sender != COORDINATOR:
            state = worker.state
            return (worker.stopped, state.welcomed, state.generation, state.other_decisions)
        if isinstance(worker, Sampler):
            others = {name: actor for name, actor in worker.live.items() if learner_name(name) != sender}
            versions = [(name, actor.version) for name, actor in others.items()]
            return (versions, sender == COORDINATOR or worker.stopped)
        return None

    def settle(self) -> None:
        """Start again if the worker was stopped, which is what the coordinator may do."""
        if self.worker.stopped:
            self.restart()

    def open_fixtures(self) -> list[int]:
        """Return none: only the coordinator receives results."""
        return []

    def verify(self) -> list[str]:
        """Return one line for every file that the worker has written outside of its own folders."""
        own = ("run/learners/", "run/models/", "shared/")
        before = {str(path.relative_to(self.trained.folder)) for path in self.trained.folder.rglob("*")}
        names = [str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()]
        strange = [name for name in names if not name.startswith(own) and name.removeprefix("run/") not in before]
        self._context = self.trained.copy(self.folder / "run")
        self.restart()
        return [f"{self.name} wrote {name}" for name in strange]

    def close(self) -> None:
        """Close the worker."""
        self.worker.close()
        self._endpoint.close()
        remove(self._shared.path)
        shutil.rmtree(self.folder, ignore_errors=True)
