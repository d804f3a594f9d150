"""The sampler: plays fixtures, reports results to the coordinator and ships segments to learners.

A worker is a plain object with two methods, used the same way by a process around a ZeroMQ endpoint and by the
single-process runner around an in-process one: ``handle(peer, message)`` takes one message, ``work()`` does one small
piece of work and says whether there was any. Evaluators are samplers without live players.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import define, field

from ludus._league.participants import parse
from ludus._messaging.messages import (
    Credit,
    FixtureRequest,
    Fixtures,
    Hello,
    MetricsReport,
    Results,
    ResultsAck,
    Segments,
    Stop,
)
from ludus._sampling.actors import LiveActor, PolicyActor
from ludus._sampling.engine import Actor, Play
from ludus._sampling.opponents import ActorCache
from ludus.environment import Environment
from ludus.launcher import COORDINATOR, Link, SharedMemory, learner_name
from ludus.records import Fixture

#: Calls of `work` (idle ones come every 20 ms) between two questions for work where there was none, and before few
#: results leave. Counted, not timed: equal seeds give equal runs in one process, however fast it is.
_POLL_INTERVAL = 50

# Where matches end by the hundreds, their results wait for more, four times as long at most: each report costs the
# coordinator a transaction, and every fixture in it some queries.
_FEW_MATCHES = 512
_REPORTED_MATCHES = 2048
_MOST_SPARE = 32  # fixtures; a fixture is the older when it is played the more there are
_CALM_ANSWERS = 8  # so many without a row that waited, and one less is kept in reserve


@define
class _Lane:
    """The way from one live actor to its learner: blocks leave against credits."""

    actor: LiveActor
    open: bool = False  # there are weights to play with, and a credit for the block that this fills
    sent: int = 0
    acked: int = 0
    credits: int = 0
    outbox: deque[Segments] = field(factory=deque)
    newest: Credit | None = None  # with weights that were not loaded yet
    asked_s: float = -1e9


@define
class Sampler:
    """Plays fixtures.

    Args:
        name: Worker name, unique in the run.
        kind: ``"train"`` or ``"eval"``: which fixtures it asks for.
        environment: The batch it plays on.
        live: Live actor of every player (empty for evaluators).
        frozen: Actors of frozen models and anchors.
        link: Where messages go.
        clock: Seconds; only for timeouts and rates.
        rows_per_fixture: Rows that play one fixture together.
        memory: Shared with learners; None without.
        opponents_learn: Whether live opponents learn too, besides the player that a fixture was made for.
    """

    name: str
    kind: str
    environment: Environment
    live: Mapping[str, LiveActor]
    frozen: ActorCache
    link: Link
    clock: Callable[[], float]
    rows_per_fixture: int
    memory: SharedMemory | None
    opponents_learn: bool
    stopped: bool = field(init=False, default=False)
    _lanes: dict[str, _Lane] = field(init=False)
    _quiet: dict[str, PolicyActor] = field(init=False, factory=dict)
    _play: Play = field(init=False)
    _requests: int = field(init=False, default=0)  # since the last answer
    _patience: int = field(init=False, default=0)  # calls of `work` before it asks again for fixtures
    _requested_s: float = field(init=False, default=-1e9)
    _calls: int = field(init=False, default=_POLL_INTERVAL)  # of `work` since it asked
    _begun: int = field(init=False, default=0)  # fixtures when it asked
    _spare: int = field(init=False, default=0)  # fixtures in reserve, where answers come later than matches end
    _starved: bool = field(init=False, default=False)  # since the last answer
    _calm: int = field(init=False, default=0)  # answers since it starved
    _results: list[dict[str, np.ndarray]] = field(init=False, factory=list)  # by tick, not sent yet
    _num_results: int = field(init=False, default=0)  # matches in them
    _unacked: dict[int, tuple[float, int, Results]] = field(init=False, factory=dict)  # when, how often, what was said
    _report: int = field(init=False, default=0)
    _held: int = field(init=False, default=0)  # calls of `work` since results were sent
    _metered: tuple[float, int, int] = field(init=False, default=(-1.0, 0, 0))
    _ended: int = field(init=False, default=0)  # matches since the last metrics
    _sums: defaultdict[str, float] = field(init=False, factory=lambda: defaultdict(float))  # over them, by metric

    def __attrs_post_init__(self) -> None:
        self._lanes = {player: _Lane(actor) for player, actor in self.live.items()}
        if not self.opponents_learn:
            self._quiet = {player: actor.quiet() for player, actor in self.live.items()}
        self._play = Play(
            environment=self.environment,
            resolve=self._resolve,
            on_results=self._take_results,
            rows_per_fixture=self.rows_per_fixture,
            readers=[actor for actor in self.live.values() if actor.reads],
        )
        self._report = os.getpid() << 32  # a restarted worker must not take acknowledgements of its predecessor

    def start(self) -> None:
        """Introduce the worker to its peers."""
        self.link.send(COORDINATOR, Hello(pid=os.getpid()))
        for lane in self._lanes.values():
            self._greet(lane)

    def _greet(self, lane: _Lane) -> None:
        hello = Hello(pid=os.getpid(), block=lane.sent)
        self.link.send(learner_name(lane.actor.player), hello)

    # -- messages ----------------------------------------------------------------------------------------------

    def handle(self, peer: str, message: Any) -> None:  # noqa: ARG002
        """Take one message."""
        match message:
            case Fixtures():
                self._requests, self._patience = 0, 0 if message.fixtures else _POLL_INTERVAL
                self._keep_in_reserve()
                for fixture in message.fixtures:
                    self._play.add(fixture)
            case Credit():
                self._credit(self._lanes[message.player], message)
            case ResultsAck():
                self._unacked.pop(message.report, None)
            case Stop():
                self.stopped = True
                self._flush_results()

    def _credit(self, lane: _Lane, credit: Credit) -> None:
        if credit.pid == os.getpid():  # what a predecessor of this process sent is no credit
            lane.acked = max(min(credit.acked, lane.sent), lane.acked)
        lane.credits = credit.credits
        lane.actor.set_progress(credit.progress)
        if credit.weights:
            lane.newest = credit
        self._drain(lane)
        if not lane.open:  # what is being played is finished with the weights that began it
            self._open(lane)

    def _open(self, lane: _Lane) -> None:
        """Go on with the newest weights, between segments, if there is a credit."""
        lane.open = not lane.outbox and lane.sent - lane.acked < lane.credits
        if not lane.open:
            return
        if lane.newest is not None:
            lane.actor.load(lane.newest.weights, lane.newest.version)
            lane.newest = None
        if self.memory is not None:
            self.memory.refresh(learner_name(lane.actor.player), lane.actor.version, lane.actor.load)
        lane.open = lane.actor.version >= 0

    def _drain(self, lane: _Lane) -> None:
        while lane.outbox and lane.sent - lane.acked < lane.credits:
            block = lane.outbox[0]
            if not self.link.send(learner_name(block.player), block):
                return
            lane.outbox.popleft()
            lane.sent += 1

    # -- work --------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Play one tick, unless a learner has not taken enough of the last blocks yet."""
        now = self.clock()
        self._report_results(now)
        if self.stopped:
            return False
        self._ask(now)
        self._meter(now)
        if not all(lane.open for lane in self._lanes.values()):
            self._ask_learners(now)
            return False
        played = self._play.step()
        self._starved |= self._play.starves
        for player, lane in self._lanes.items():
            if lane.actor.blocks:
                self._ship(player, lane)
        return played

    def _ship(self, player: str, lane: _Lane) -> None:
        while lane.actor.blocks:
            number, arrays = lane.sent + len(lane.outbox) + 1, lane.actor.blocks.popleft().arrays()
            block = Segments(player=player, block=number, pid=os.getpid(), arrays=arrays)
            lane.outbox.append(block)
        self._drain(lane)
        self._open(lane)

    def _ask(self, now: float) -> None:
        self._patience = max(0, self._patience - 1)
        self._calls += 1
        recently = 0
        if self.kind == "train":  # now and then, for as many as will be begun until then: each answer is a transaction
            if self._calls <= _POLL_INTERVAL and not self._play.starves:
                return
            recently = min(self._play.fixtures - self._begun, _MOST_SPARE)
        wanted = self._play.wanted(self._spare + recently)
        if wanted and not self._patience and now - self._requested_s >= _wait_s(self._requests, first=1.0):
            self._requests, self._requested_s = self._requests + 1, now
            self._calls, self._begun = 0, self._play.fixtures
            self.link.send(COORDINATOR, FixtureRequest(kind=self.kind, count=wanted))

    def _keep_in_reserve(self) -> None:
        """Ask for twice as many fixtures as before if rows waited for an answer, and for fewer after a while."""
        self._calm = 0 if self._starved else self._calm + 1
        if self._starved and self.kind == "train":  # ratings may have nothing to do
            self._spare = min(max(1, 2 * self._spare), _MOST_SPARE)
        elif self._calm % _CALM_ANSWERS == 0:
            self._spare = max(0, self._spare - 1)
        self._starved = False

    def _ask_learners(self, now: float) -> None:
        """Say hello again to learners that owe credits or weights; one of them may have been restarted."""
        for lane in self._lanes.values():
            if not lane.open and now - lane.asked_s > 2.0:
                lane.asked_s = now
                self._greet(lane)

    def _report_results(self, now: float) -> None:
        self._held += 1
        patience = _POLL_INTERVAL if self._num_results < _FEW_MATCHES else 4 * _POLL_INTERVAL
        if self._held >= patience or self._num_results >= _REPORTED_MATCHES:
            self._flush_results()
        for report, (sent_s, times, message) in list(self._unacked.items()):
            if now - sent_s >= _wait_s(times, first=5.0):
                self._unacked[report] = (now, times + 1, message)
                self.link.send(COORDINATOR, message)

    def _take_results(self, arrays: dict[str, np.ndarray]) -> None:
        self._results.append(arrays)
        self._num_results += arrays["number"].size

    def _flush_results(self) -> None:
        self._held = 0
        if not self._results:
            return
        names = self._results[-1]  # parts of rewards may have been named for the first time
        arrays = {name: np.concatenate([one[name] for one in self._results if name in one]) for name in names}
        self._results.clear()
        self._num_results = 0
        self._count(arrays)
        self._report += 1
        message = Results(report=self._report, arrays=arrays)
        self._unacked[self._report] = (self.clock(), 1, message)
        self.link.send(COORDINATOR, message)

    def _count(self, arrays: dict[str, np.ndarray]) -> None:
        """Count results for the metrics and take out what is only of use there."""
        returns = arrays.pop("returns")
        for name in [name for name in arrays if name.startswith("part/")]:
            self._sums[f"return/{name.removeprefix('part/')}"] += float(arrays.pop(name).sum())
        self._ended += returns.shape[0]
        self._sums["return_mean"] += float(returns.mean(axis=1).sum())
        self._sums["match_ticks"] += int(arrays["ticks"].sum())

    @property
    def count(self) -> int:
        """Return how many decisions were made; grows while the worker is of use."""
        return self._play.decisions

    @property
    def drained(self) -> bool:
        """Return whether the coordinator has committed every result sent."""
        return not self._unacked and not self._results

    def _meter(self, now: float) -> None:
        since, ticks, decisions = self._metered
        if now - since < 1.0:
            return
        if since >= 0:
            values = {
                "ticks_per_s": (self._play.ticks - ticks) / (now - since),
                "decisions_per_s": (self._play.decisions - decisions) / (now - since),
                "waiting": float(not all(lane.open for lane in self._lanes.values())),
            }
            values |= {name: total / self._ended for name, total in self._sums.items()}
            self.link.send(COORDINATOR, MetricsReport(values=values))
        self._metered = (now, self._play.ticks, self._play.decisions)
        self._ended = 0
        self._sums.clear()

    def _resolve(self, fixture: Fixture, seat: int) -> tuple[Actor, int]:
        name = parse(fixture.participants[seat])
        if name.live:
            learns = self.opponents_learn or name.player == fixture.player
            return (self.live if learns else self._quiet)[name.player], 0
        return self.frozen.seated(fixture, seat, self.environment.spec, in_use=self._play.slots_in_use)

    def close(self) -> None:
        """Free the environment."""
        self._play.close()


def _wait_s(times: int, *, first: float) -> float:
    """Return how long to wait for an answer to what was said so many times, twice as long every time up to a minute.

    Thousands of samplers that repeat themselves at a fixed pace would keep an overloaded coordinator overloaded.
    """
    return min(first * 2.0 ** (times - 1), 60.0) if times else 0.0
