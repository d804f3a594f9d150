"""Run the real workers of a league in one process with a simulated clock."""

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
from ludus._run.worker_factories import make_worker
from ludus._run.worker_plan import plan_workers
from ludus._sampling.sampler import Sampler
from ludus._store.store import Store
from ludus.errors import WireError
from ludus.launcher import COORDINATOR, Worker, WorkerContext, learner_name
from ludus.wire import Message, message_of

if TYPE_CHECKING:
    from ludus._config.sections import RunConfig


@define
class LeagueRunner:
    """A league in one process, advanced round by round.

    Attributes:
        config: Configuration of the run.
        run_dir: Run folder.
        store: Store of the run.
        coordinator: Coordinator of the run.
        now_s: Time of every clock; a round takes 10 ms.
        sent: All messages as (sender, receiver, message).
        paused: Names of workers that neither receive messages nor work.
        is_lost: Function of receiver and message that returns whether the message is lost.
    """

    config: RunConfig
    run_dir: Path
    store: Store
    now_s: float = field(init=False, default=0.0)
    sent: list[tuple[str, str, Any]] = field(init=False, factory=list)
    paused: set[str] = field(init=False, factory=set)
    is_lost: Callable[[str, Any], bool] = field(init=False, default=lambda _receiver, _message: False)
    coordinator: Coordinator = field(init=False)
    _network: InprocEndpoint = field(init=False)
    _coordinator_endpoint: InprocEndpoint = field(init=False)
    _workers: dict[str, tuple[Worker, InprocEndpoint]] = field(init=False, factory=dict)
    _sessions: Iterator[int] = field(init=False, factory=itertools.count)

    def __attrs_post_init__(self) -> None:
        self._network = InprocEndpoint(COORDINATOR)
        self._coordinator_endpoint = self._endpoint(COORDINATOR)
        run = self._context()
        self.coordinator = make_coordinator(run, self.store, link=self._coordinator_endpoint, clock=self.clock)
        self.coordinator.start()
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
        """Return the time of all workers."""
        return self.now_s

    def learner(self, player: str) -> Learner:
        """Return the learner of a player."""
        worker, _ = self._workers[learner_name(player)]
        assert isinstance(worker, Learner)
        return worker

    def sampler(self, name: str = "sampler-0") -> Sampler:
        """Return a sampler or an evaluator."""
        worker, _ = self._workers[name]
        assert isinstance(worker, Sampler)
        return worker

    def start(self, name: str) -> None:
        """Start a worker; a running worker of the same name is replaced without a message, as after a crash."""
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

        def send_and_record(peer: str, message: Any) -> bool:
            accepted = send(peer, _received(message))
            if accepted:
                self.sent.append((name, peer, message))
            return accepted

        endpoint.send = send_and_record  # type: ignore[method-assign]
        return endpoint

    def round(self) -> None:
        """Deliver all messages and let every worker work once; 10 ms pass."""
        self.now_s += 0.01
        for peer, message in self._coordinator_endpoint.receive(0.0):
            self.coordinator.handle(peer, message)
        self.coordinator.flush()
        for name, (worker, link) in self._workers.items():
            if name in self.paused:
                continue
            for peer, message in link.receive(0.0):
                if not self.is_lost(name, message):
                    worker.handle(peer, message)
            worker.work()

    def until(self, condition: Callable[[], object], *, rounds: int = 20_000) -> None:
        """Run rounds until a condition holds.

        Args:
            condition: Function that returns whether to stop.
            rounds: Maximum number of rounds.

        Raises:
            TimeoutError: The condition does not hold after `rounds` rounds.
        """
        for _ in range(rounds):
            if condition():
                return
            self.round()
        raise TimeoutError(f"the condition does not hold after {rounds} rounds")

    def train(self, decisions: int) -> None:
        """Run until all players together have trained on `decisions` decisions."""
        self.until(lambda: self.coordinator.league.decisions >= decisions)

    def finish(self) -> None:
        """Stop all workers and run until all of their messages are committed."""
        self.coordinator.stop(list(self._workers))
        self.until(lambda: all(worker.stopped and worker.drained for worker, _ in self._workers.values()))
        self.round()

    def messages(self, kind: type, *, sender: str = "") -> list[Any]:
        """Return the sent messages of a type, oldest first.

        Args:
            kind: Type of the messages.
            sender: Name of the sender; empty: all.
        """
        return [message for name, _, message in self.sent if isinstance(message, kind) and sender in ("", name)]

    def close(self) -> None:
        """Close all workers and endpoints."""
        for worker, link in self._workers.values():
            worker.close()
            link.close()


def _received(message: Message) -> Message:
    """Return a message as another process receives it: with checked fields and read-only arrays."""
    fields = asdict(message)
    for value in fields.values():
        if isinstance(value, dict):
            value.update({name: _received_array(part) for name, part in value.items() if isinstance(part, np.ndarray)})
    return message_of(type(message), fields)


def _received_array(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise WireError(f"arrays of dtype {array.dtype.str} cannot be sent")
    view = array.view()
    view.setflags(write=False)
    return view


@contextmanager
def league_runner(data: Mapping[str, Any], run_dir: Path) -> Iterator[LeagueRunner]:
    """Run a league in one process for a test.

    Args:
        data: Tables of a run's TOML file.
        run_dir: Run folder; an existing run is resumed.
    """
    config = parse_config(data, source="test", plugins=load_plugins())
    store = Store.open(run_dir) if run_dir.exists() else Store.create(run_dir, {"seed": config.run.seed})
    with store:
        runner = LeagueRunner(config, run_dir, store)
        try:
            yield runner
        finally:
            runner.close()
