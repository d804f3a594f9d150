"""Requests for fixtures, early enough that no match index waits for one."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from ludus._messaging.messages import FixtureRequest
from ludus._sampling.match_engine import MatchEngine
from ludus._sampling.retry import retry_interval_s
from ludus.launcher import COORDINATOR, Link
from ludus.records import Fixture

__all__ = ["REQUEST_INTERVAL", "FixtureRequests"]

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
