"""The coordinator as a receiver, behind the worker pool of a launcher that accepts other hosts."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from attrs import define, evolve, field
from ludus._league.coordinator import Coordinator
from ludus._run.coordinator_factory import make_coordinator
from ludus._store.store import Store
from ludus._store.verification import verify_store
from ludus.errors import LudusError
from ludus.launcher import COORDINATOR, Session, WorkerSpec, worker_kind
from ludus.wire import FixtureRequest, RefusedMessage
from ludus_hosts.launcher import HostsWorkerPool
from ludus_hosts.wire import GATEWAY, HostList
from ludus_local import codec
from ludus_local.process import LocalProcess, WorkerCommand, launch
from ludus_local.supervisor import Supervisor

from fuzz.endpoint import FrameEndpoint
from fuzz.league import Trained
from fuzz.stage import Stage

_TICK_S = 0.02  # that pass per message
_MEMBERS = ("sampler-0", "evaluator-0", "learner-main", "learner-other", "helper-1-main", GATEWAY)
_PLAYERS_OF_MATCHES = ("sampler-0", "sampler-box-0", "evaluator-0")
_OPEN = 4  # fixtures that each of these has open before a batch
#: A process that only waits, for as long as the fuzzer lives.
_WAIT = "import os, time\nparent = os.getppid()\nwhile os.getppid() == parent:\n    time.sleep(0.5)\n"


def launch_idle(command: WorkerCommand) -> LocalProcess:
    """Start a process that waits instead of a worker: the fuzzer sends the messages of the workers."""
    return launch(evolve(command, argv=[sys.executable, "-S", "-c", _WAIT]))


@define(eq=False, slots=False)
class CoordinatorReceiver:
    """The coordinator of the league, whose state only the owners of its parts may change.

    Args:
        trained: The league.
        folder: Folder of the copy of its run.
    """

    trained: Trained
    folder: Path
    forgives: tuple[type[Exception], ...] = field(init=False, default=(LudusError,))
    coordinator: Coordinator = field(init=False)
    _pool: HostsWorkerPool = field(init=False)
    _endpoint: FrameEndpoint = field(init=False)
    _store: Store = field(init=False)
    _now_s: float = field(init=False, default=0.0)

    def __attrs_post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        session = Session(
            run_dir=self.folder / "processes", number=1, stall_s=60.0, restarts=3, print_line=lambda _line: None
        )
        session.run_dir.mkdir()
        self._pool = HostsWorkerPool(session, {})
        self._pool._endpoint.close()
        self._pool._endpoint = self._endpoint = FrameEndpoint(COORDINATOR)
        self._pool._supervisor = Supervisor(session=session, sockets=self._pool._sockets, launch=launch_idle)
        self._pool._supervisor.start([WorkerSpec(name, 1) for name in _MEMBERS])
        self._open()

    def _open(self) -> None:
        run_dir = self.folder / "run"
        context = self.trained.copy(run_dir)
        self._store = Store.open(run_dir)
        self.coordinator = make_coordinator(
            context, self._store, link=self._pool, clock=lambda: self._now_s, print_line=lambda _line: None
        )
        self.coordinator.start()
        self.settle()

    def deliver(self, sender: str, receiver: str, frames: list[bytes]) -> Stage:  # noqa: ARG002 - this worker
        """Pass a message through the worker pool to the coordinator."""
        self._now_s += _TICK_S
        unread, undecoded = self._refused()
        self._endpoint.put(sender, frames)
        received = self._receive()
        now = self._refused()
        stage = Stage.HANDLED
        if now != (unread, undecoded):
            stage = Stage.UNREAD if now[0] > unread else Stage.UNDECODED
        before = self.coordinator.refusals.total
        for peer, message in received:
            self.coordinator.handle(peer, message)
            is_refused = self.coordinator.refusals.total > before and not isinstance(message, RefusedMessage)
            stage = Stage.REFUSED if is_refused else stage
        return stage

    def _receive(self) -> Sequence[tuple[str, object]]:
        self._pool._received_s = -math.inf  # it waits 20 ms between two calls otherwise
        return self._pool.receive(0.0)

    def _refused(self) -> tuple[int, int]:
        drops = self._endpoint.drops
        return drops["refused"] + drops["oversized"] + drops["unnamed"], drops["undecodable"]

    def owned(self, sender: str) -> object:
        """Return what a sender must not change: the failure of the run, and models, pools and decisions of players."""
        league, kind = self.coordinator.league, worker_kind(sender)
        own = sender.partition("-")[2] if kind == "learner" else ""
        players = [
            (name, view.decisions, view.frozen_decisions, view.generation, view.share, view.num_frozen)
            for name, view in league.players.items()
            if name != own
        ]
        models = [name for name, model in league.models.items() if model.player != own]
        quarantined = sorted(league.roster.quarantined)
        failure = self.coordinator.membership.failure if sender == "stranger-1" else ""
        pools = () if own else {name: tuple(members) for name, members in league.pools.items()}
        return (players, models, quarantined, failure, pools, self.coordinator.membership.stopping)

    def settle(self) -> None:
        """Cut off peers, as a session does, commit and send answers; then assign fixtures for the next batch."""
        for peer, problem in self.coordinator.refusals.take_cut_off().items():
            if peer not in self._pool._supervisor.pids:  # members would be restarted
                self._pool.cut_off(peer, problem)
                self._endpoint.readmit(peer)  # so that its next messages reach the handler
        self.coordinator.quarantine.take_news()
        self.coordinator.membership.failure = ""
        self.coordinator.flush()
        self._endpoint.put(GATEWAY, codec.encode(HostList(hosts={"box": 2})))  # type: ignore[arg-type]
        for peer, message in self._receive():
            self.coordinator.handle(peer, message)
        for worker in _PLAYERS_OF_MATCHES:
            missing = _OPEN - len(self._opened(worker))
            if missing > 0:
                kind = "eval" if worker.startswith("evaluator") else "train"
                self.coordinator.handle(worker, FixtureRequest(kind=kind, count=missing))
        self.coordinator.flush()

    def _opened(self, worker: str) -> list[int]:
        fixtures = self.coordinator.assignments._workers.get(worker)
        return [] if fixtures is None else list(fixtures.opened)

    def open_fixtures(self) -> list[int]:
        """Return the fixtures that each sampler has open, in turn."""
        opened = [self._opened(worker) for worker in _PLAYERS_OF_MATCHES]
        return [ids[i] for i in range(_OPEN) for ids in opened if i < len(ids)]

    def restart(self) -> None:
        """Do nothing: a session goes on after an error until its learners have saved."""

    def verify(self) -> list[str]:
        """Verify the store of this copy of the league, and begin with a new copy."""
        self.coordinator.flush()
        self.coordinator.commit()
        self._store.close()
        with Store.open(self.folder / "run") as store:
            problems = list(verify_store(store).problems)
        self._open()
        return problems

    def close(self) -> None:
        """Close the store and the pool."""
        self._store.close()
        self._pool.close()
        shutil.rmtree(self.folder, ignore_errors=True)
