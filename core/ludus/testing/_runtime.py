"""A league in one process under a clock of its own: the real workers and no waiting."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import asdict, define, evolve, field

from ludus._config.run_config import parse_config
from ludus._league.coordinator import Coordinator
from ludus._learning.learner import Learner
from ludus._messaging.in_process import InprocEndpoint
from ludus._plugins.manager import load_plugins
from ludus._run.context import RunContext
from ludus._run.coordinator_factory import make_coordinator
from ludus._run.worker_factory import make_worker
from ludus._run.worker_plan import plan_workers
from ludus._sampling.sampler import Sampler
from ludus._store.store import Store
from ludus.errors import WireError
from ludus.launcher import COORDINATOR, Worker, WorkerContext, learner_name
from ludus.wire import Message, message_of

if TYPE_CHECKING:
    from ludus._config.sections import RunConfig

__all__ = ["LeagueRunner", "league_runner"]


@define
class LeagueRunner:
    """The workers of a league, driven round by round.

    Attributes:
        config: What is run.
        coordinator: Commits for real.
        now_s: What every clock shows; a round takes 10 ms.
        sent: Every message that left, as (sender, receiver, message).
        asleep: Workers that neither hear nor work for the moment.
        lost: Receiver and message → whether the message is lost on its way.
    """

    config: RunConfig
    run_dir: Path
    store: Store
    now_s: float = field(init=False, default=0.0)
    sent: list[tuple[str, str, Any]] = field(init=False, factory=list)
    asleep: set[str] = field(init=False, factory=set)
    lost: Callable[[str, Any], bool] = field(init=False, default=lambda _receiver, _message: False)
    coordinator: Coordinator = field(init=False)
    _network: InprocEndpoint = field(init=False)
    _center: InprocEndpoint = field(init=False)
    _workers: dict[str, tuple[Worker, InprocEndpoint]] = field(init=False, factory=dict)
    _sessions: Iterator[int] = field(init=False, factory=itertools.count)

    def __attrs_post_init__(self) -> None:
        self._network = InprocEndpoint(COORDINATOR)
        self._center = self._endpoint(COORDINATOR)
        run = self._context()
        self.coordinator = make_coordinator(run, self.store, link=self._center, clock=self.clock)
        try:
            for spec in plan_workers(run.config, cores=1):
                self.start(spec.name)
        except BaseException:
            self.close()
            raise

    def _context(self) -> RunContext:
        config = evolve(self.config, run=evolve(self.config.run, workers=0))  # one process
        return RunContext(config=config, plugins=load_plugins(), run_dir=self.run_dir, session=next(self._sessions))

    def clock(self) -> float:
        """Return the time that everybody sees."""
        return self.now_s

    def learner(self, player: str) -> Learner:
        """Return the learner of a player."""
        worker, _ = self._workers[learner_name(player)]
        assert isinstance(worker, Learner)
        return worker

    def sampler(self, name: str = "sampler-0") -> Sampler:
        """Return a sampler or evaluator."""
        worker, _ = self._workers[name]
        assert isinstance(worker, Sampler)
        return worker

    def start(self, name: str) -> None:
        """Start a worker, in place of the one of that name if there is one: that one is gone without a word."""
        if name in self._workers:
            worker, old = self._workers.pop(name)
            old.close()
            worker.close()
        link = self._endpoint(name)
        made = make_worker(self._context(), name, WorkerContext(link=link, clock=self.clock))
        self._workers[name] = (made, link)
        made.start()

    def _endpoint(self, name: str) -> InprocEndpoint:
        endpoint = self._network.endpoint(name)
        send = endpoint.send

        def note(peer: str, message: Any) -> bool:
            taken = send(peer, _carried(message))  # as between processes
            if taken:
                self.sent.append((name, peer, message))
            return taken

        endpoint.send = note  # type: ignore[method-assign]
        return endpoint

    def round(self) -> None:
        """Let everybody take their messages and work once; 10 ms pass."""
        self.now_s += 0.01
        for peer, message in self._center.receive(0.0):
            self.coordinator.handle(peer, message)
        self.coordinator.flush()
        for name, (worker, link) in self._workers.items():
            if name in self.asleep:
                continue
            for peer, message in link.receive(0.0):
                if not self.lost(name, message):
                    worker.handle(peer, message)
            worker.work()

    def until(self, condition: Callable[[], object], *, rounds: int = 20_000) -> None:
        """Run rounds until the condition holds.

        Raises:
            TimeoutError: It did not within so many rounds.
        """
        for _ in range(rounds):
            if condition():
                return
            self.round()
        raise TimeoutError(f"not reached within {rounds} rounds")

    def train(self, decisions: int) -> None:
        """Run until the players have learned from so many decisions together."""
        self.until(lambda: self.coordinator.decisions >= decisions)

    def finish(self) -> None:
        """Stop all workers and wait until everything they said is committed."""
        self.coordinator.stop(list(self._workers))
        self.until(lambda: all(worker.stopped and worker.drained for worker, _ in self._workers.values()))
        self.round()

    def messages(self, kind: type, *, sender: str = "") -> list[Any]:
        """Return the messages of a kind that were sent, oldest first; those of one sender if it is named."""
        return [m for who, _, m in self.sent if isinstance(m, kind) and sender in ("", who)]

    def close(self) -> None:
        """Free environments."""
        for worker, link in self._workers.values():
            worker.close()
            link.close()


def _carried(message: Message) -> Message:
    """Return a message as it arrives: its fields checked, its arrays not to be written to."""
    fields = asdict(message)
    for value in fields.values():
        if isinstance(value, dict):
            value.update({name: _arrived(part) for name, part in value.items() if isinstance(part, np.ndarray)})
    return message_of(type(message), fields)


def _arrived(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise WireError(f"arrays of dtype {array.dtype.str} do not travel")
    seen = array.view()
    seen.setflags(write=False)
    return seen


@contextmanager
def league_runner(data: Mapping[str, Any], run_dir: Path) -> Iterator[LeagueRunner]:
    """Run a league for a test, from a new folder or from one that such a league has left.

    Args:
        data: The tables of a run's TOML file.
        run_dir: The run folder.
    """
    config = parse_config(data, source="test", plugins=load_plugins())
    store = Store.open(run_dir) if run_dir.exists() else Store.create(run_dir, {"seed": config.run.seed})
    with store:
        runner = LeagueRunner(config, run_dir, store)
        try:
            yield runner
        finally:
            runner.close()
