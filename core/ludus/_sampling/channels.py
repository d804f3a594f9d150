"""Messages of a sampler: fixture requests, results and metrics to the coordinator, and blocks to learners."""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Sequence

import numpy as np
from attrs import define, field

from ludus._messaging.messages import Credit, FixtureRequest, Hello, Results, Segments
from ludus._sampling.actors import LiveActor
from ludus._sampling.match_engine import MatchEngine, reported_results
from ludus.launcher import COORDINATOR, Link, SharedMemory, learner_name
from ludus.records import Fixture

_REPORT_INTERVAL_S = 1.0


@define
class SamplerMetrics:
    """Collects metrics between two reports.

    Args:
        kind: ``"train"`` or ``"eval"``, the kind of matches.
        sends_returns: Whether the coordinator reads the returns of all seats.
    """

    kind: str
    sends_returns: bool = False

    _reported_s: float = field(init=False, default=-1.0)  # -1: never
    _reported_ticks: int = field(init=False, default=0)
    _reported_decisions: int = field(init=False, default=0)
    _matches: int = field(init=False, default=0)
    _return_sum: float = field(init=False, default=0.0)  # of means over the seats of a match
    _tick_sum: int = field(init=False, default=0)
    _sums: defaultdict[str, float] = field(init=False, factory=lambda: defaultdict(float))  # by metric
    _player_returns: defaultdict[str, float] = field(init=False, factory=lambda: defaultdict(float))
    _player_matches: defaultdict[str, int] = field(init=False, factory=lambda: defaultdict(int))

    def add_results(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Add the results of matches and return the arrays that the coordinator reads."""
        returns = arrays["returns"]
        self._matches += returns.shape[0]
        self._return_sum += float(returns.mean(axis=1).sum())
        self._tick_sum += int(arrays["ticks"].sum())
        for name, values in arrays.items():
            if name.startswith("part/"):
                self._sums[f"return/{name.removeprefix('part/')}"] += float(values.sum())
            elif name.startswith("player/"):
                self._add_player(name.removeprefix("player/"), values[~np.isnan(values)])
            elif name.startswith("statistic/"):
                self._sums[name] += float(values.mean(axis=1).sum())
        return reported_results(arrays, kind=self.kind, with_returns=self.sends_returns)

    def _add_player(self, player: str, returns: np.ndarray) -> None:
        self._player_returns[player] += float(returns.sum())
        self._player_matches[player] += returns.size

    def is_due(self, now: float) -> bool:
        """Return whether the last report is at least a second ago."""
        return now - self._reported_s >= _REPORT_INTERVAL_S

    def report(self, now: float, *, ticks: int, decisions: int, waiting: bool) -> dict[str, float]:
        """Return the metrics since the last report, and start the next one; empty on the first call.

        Args:
            now: Present time in seconds.
            ticks: Number of ticks so far.
            decisions: Number of decisions so far.
            waiting: Whether the sampler waits for a learner.
        """
        values: dict[str, float] = {}
        if self._reported_s >= 0:
            elapsed_s = now - self._reported_s
            values = {
                "ticks_per_s": (ticks - self._reported_ticks) / elapsed_s,
                "decisions_per_s": (decisions - self._reported_decisions) / elapsed_s,
                "waiting": float(waiting),
            }
            if self._matches:
                values |= {
                    "return_mean": self._return_sum / self._matches,
                    "match_ticks": self._tick_sum / self._matches,
                    **{name: total / self._matches for name, total in self._sums.items()},
                }
                values |= {
                    f"return_mean/{player}": self._player_returns[player] / count
                    for player, count in self._player_matches.items()
                    if count
                }
        self._reported_s, self._reported_ticks, self._reported_decisions = now, ticks, decisions
        self._matches, self._return_sum, self._tick_sum = 0, 0.0, 0
        self._sums.clear()
        self._player_returns.clear()
        self._player_matches.clear()
        return values


def retry_interval_s(attempts: int, *, first: float) -> float:
    """Return how long to wait for an answer after so many attempts: twice as long each time, up to a minute.

    Thousands of samplers that retry at a fixed interval would keep an overloaded coordinator overloaded.

    Args:
        attempts: Number of messages sent; 0: return 0.
        first: Interval after the first message.
    """
    return min(first * 2.0 ** (attempts - 1), 60.0) if attempts else 0.0


#: Calls of `FixtureRequests.send` between two requests of a sampler, and after an answer without fixtures. Idle workers
#: call it every 20 ms. A count instead of a time makes runs in one process reproducible, however fast they are.
REQUEST_INTERVAL = 50

_MAX_SPARE = 32  # in fixtures; more would make fixtures old before they are played
_ANSWERS_PER_REDUCTION = 8  # answers without waiting matches before the reserve is reduced by one


@define
class FixtureRequests:
    """Requests fixtures for an engine.

    Args:
        kind: ``"train"`` or ``"eval"``, the kind of fixtures.
        engine: The engine that plays them.
        link: Link to the coordinator.

    Attributes:
        attempts: Number of requests since the last answer.
        spare: Fixtures in reserve, for coordinators that answer later than matches end.
        waited: Whether a match index waited for a fixture since the last answer.
    """

    kind: str
    engine: MatchEngine
    link: Link
    attempts: int = field(init=False, default=0)
    spare: int = field(init=False, default=0)
    waited: bool = field(init=False, default=False)
    _delay: int = field(init=False, default=0)  # calls of `send` before the next request is allowed
    _sent_s: float = field(init=False, default=-1e9)
    _calls: int = field(init=False, default=REQUEST_INTERVAL)  # of `send` since the last request
    _started_fixtures: int = field(init=False, default=0)  # at the last request
    _answers: int = field(init=False, default=0)  # since a match index waited

    def receive(self, fixtures: Sequence[Fixture]) -> None:
        """Add fixtures to the engine's queue and adapt the reserve."""
        self.attempts, self._delay = 0, 0 if fixtures else REQUEST_INTERVAL
        self._adapt_reserve()
        for fixture in fixtures:
            self.engine.add_fixture(fixture)

    def _adapt_reserve(self) -> None:
        """Double the reserve if match indices waited for the answer; reduce it from time to time otherwise."""
        self._answers = 0 if self.waited else self._answers + 1
        if self.waited and self.kind == "train":  # the coordinator may have nothing to rate
            self.spare = min(max(1, 2 * self.spare), _MAX_SPARE)
        elif self._answers % _ANSWERS_PER_REDUCTION == 0:
            self.spare = max(0, self.spare - 1)
        self.waited = False

    def send(self, now: float) -> None:
        """Send a request if fixtures are needed and the last request is answered or old enough."""
        self._delay = max(0, self._delay - 1)
        self._calls += 1
        recent = 0
        if self.kind == "train":  # few requests for several fixtures: each answer costs the coordinator a transaction
            if self._calls <= REQUEST_INTERVAL and not self.engine.waits_for_fixtures:
                return
            recent = min(self.engine.num_started_fixtures - self._started_fixtures, _MAX_SPARE)
        count = self.engine.num_wanted_fixtures(self.spare + recent)
        if count and not self._delay and now - self._sent_s >= retry_interval_s(self.attempts, first=1.0):
            self.attempts, self._sent_s = self.attempts + 1, now
            self._calls, self._started_fixtures = 0, self.engine.num_started_fixtures
            self.link.send(COORDINATOR, FixtureRequest(kind=self.kind, count=count))


# Results of short matches are collected longer: each report costs the coordinator a transaction, and each fixture in
# it some queries. Intervals are counted in calls, see `REQUEST_INTERVAL`.
_INTERVAL = 50
_LONG_INTERVAL = 200
_FEW_MATCHES = 512  # up to here the short interval applies
_MAX_MATCHES = 2048  # so many are sent at once


@define
class _UnackedReport:
    message: Results
    sent_s: float
    attempts: int = 1


@define
class ResultReports:
    """Collects the results of matches and sends them to the coordinator.

    Args:
        link: Link to the coordinator.
        clock: Seconds, for retries.
        metrics: Metrics of the matches.
    """

    link: Link
    clock: Callable[[], float]
    metrics: SamplerMetrics
    _collected: list[dict[str, np.ndarray]] = field(init=False, factory=list)  # by tick
    _num_collected: int = field(init=False, default=0)  # matches
    _unacked: dict[int, _UnackedReport] = field(init=False, factory=dict)
    _number: int = field(init=False, factory=lambda: os.getpid() << 32)  # differs from those of an earlier process
    _calls: int = field(init=False, default=0)  # of `send` since the last report

    def add(self, arrays: dict[str, np.ndarray]) -> None:
        """Add the results of a tick, see `MatchEngine.on_results`."""
        self._collected.append(arrays)
        self._num_collected += arrays["number"].size

    def send(self, now: float) -> None:
        """Send the collected results if there are many or the last report is old; repeat reports without an ack."""
        self._calls += 1
        interval = _INTERVAL if self._num_collected < _FEW_MATCHES else _LONG_INTERVAL
        if self._calls >= interval or self._num_collected >= _MAX_MATCHES:
            self.flush()
        for report in self._unacked.values():
            if now - report.sent_s >= retry_interval_s(report.attempts, first=5.0):
                report.sent_s, report.attempts = now, report.attempts + 1
                self.link.send(COORDINATOR, report.message)

    def flush(self) -> None:
        """Send the collected results."""
        self._calls = 0
        if not self._collected:
            return
        names = self._collected[-1]  # reward parts may have appeared for the first time
        arrays = {name: np.concatenate([one[name] for one in self._collected if name in one]) for name in names}
        self._collected.clear()
        self._num_collected = 0
        message = Results(report=self._number + 1, arrays=self.metrics.add_results(arrays))
        self._number += 1
        self._unacked[self._number] = _UnackedReport(message, self.clock())
        self.link.send(COORDINATOR, message)

    def acknowledge(self, report: int) -> None:
        """Drop a report that the coordinator has committed."""
        self._unacked.pop(report, None)

    @property
    def drained(self) -> bool:
        """Return whether the coordinator has committed all results."""
        return not self._unacked and not self._collected


_HELLO_INTERVAL_S = 2.0


@define
class LearnerChannel:
    """Sends the blocks of a live actor, one credit per block, and loads the weights that the learner sends.

    Args:
        actor: The live actor.
        link: Link to the learner.
        memory: Memory shared with the learner; None if weights and blocks travel in messages.

    Attributes:
        ready: Whether weights are loaded and a credit for the block that is being recorded is left.
        sent: Number of the last block sent.
        acked: Number of the last block that the learner received.
        outbox: Blocks that wait for a credit.
    """

    actor: LiveActor
    link: Link
    memory: SharedMemory | None
    ready: bool = field(init=False, default=False)
    sent: int = field(init=False, default=0)
    acked: int = field(init=False, default=0)
    outbox: deque[Segments] = field(init=False, factory=deque)
    _credits: int = field(init=False, default=0)
    _pending_weights: Credit | None = field(init=False, default=None)
    _hello_s: float = field(init=False, default=-1e9)

    @property
    def learner(self) -> str:
        """Return the worker name of the learner."""
        return learner_name(self.actor.player)

    def send_hello(self) -> None:
        """Send the learner the number of the last block."""
        self.link.send(self.learner, Hello(pid=os.getpid(), block=self.sent))

    def repeat_hello(self, now: float) -> None:
        """Send another hello from time to time while there are no weights or credits: the learner may be a new one."""
        if not self.ready and now - self._hello_s > _HELLO_INTERVAL_S:
            self._hello_s = now
            self.send_hello()

    def receive_credit(self, credit: Credit) -> None:
        """Update the credits. Weights are loaded later if a block is being recorded with the present ones."""
        if credit.pid == os.getpid():  # an earlier process of this name counted other blocks
            self.acked = max(min(credit.acked, self.sent), self.acked)
        self._credits = credit.credits
        self.actor.set_progress(credit.progress)
        if credit.weights:
            self._pending_weights = credit
        self._send_outbox()
        if not self.ready:
            self._prepare_block()

    def send_blocks(self) -> None:
        """Send the blocks that the actor has recorded, as far as there are credits; then prepare the next block."""
        while self.actor.blocks:
            number, arrays = self.sent + len(self.outbox) + 1, self.actor.blocks.popleft().arrays()
            self.outbox.append(Segments(player=self.actor.player, block=number, pid=os.getpid(), arrays=arrays))
        self._send_outbox()
        self._prepare_block()

    def _prepare_block(self) -> None:
        """Load the newest weights for the next block if there is a credit for it."""
        self.ready = not self.outbox and self.sent - self.acked < self._credits
        if not self.ready:
            return
        if self._pending_weights is not None:
            self.actor.load(self._pending_weights.weights, self._pending_weights.version)
            self._pending_weights = None
        if self.memory is not None:
            self.memory.refresh(self.learner, self.actor.version, self.actor.load)
        self.ready = self.actor.version >= 0

    def _send_outbox(self) -> None:
        while self.outbox and self.sent - self.acked < self._credits:
            if not self.link.send(self.learner, self.outbox[0]):
                return
            self.outbox.popleft()
            self.sent += 1
