"""The sampler: plays fixtures, reports results to the coordinator and sends segments to learners.

A worker is an object with two methods. ``handle(peer, message)`` processes one message. ``work()`` does one small unit
of work and returns whether there was any. Worker processes with a ZeroMQ link and the single-process runner with an
in-process link call them in the same way. Evaluators are samplers without live players.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field

from ludus._league.participants import parse
from ludus._messaging.messages import Credit, DamagedModel, Fixtures, Hello, MetricsReport, ResultsAck, Stop
from ludus._messaging.permissions import check_owner
from ludus._replays.recorder import ReplayRecorder
from ludus._sampling.actors import LiveActor, PolicyActor
from ludus._sampling.channels import FixtureRequests, LearnerChannel, ResultReports, SamplerMetrics
from ludus._sampling.fixture_checks import check_fixture
from ludus._sampling.match_engine import MatchEngine
from ludus._sampling.opponents import ActorCache
from ludus._sampling.seats import Actor
from ludus.environment import Environment
from ludus.errors import DamagedFileError, ModelError
from ludus.launcher import COORDINATOR, Link, SharedMemory
from ludus.records import Fixture


@define
class Sampler:
    """Plays fixtures.

    Args:
        name: Worker name, unique in the run.
        kind: ``"train"`` or ``"eval"``, the kind of fixtures that it requests.
        environment: The batch of matches.
        live: Live actor of each player; empty for evaluators.
        frozen: Actors of frozen models and anchors.
        link: Link for messages.
        clock: Seconds, for timeouts and rates.
        matches_per_lane: Number of matches that play one fixture together.
        memory: Memory shared with learners, or None.
        opponents_learn: Whether live opponents learn too, besides the player that a fixture was made for.
        replays: Records the matches; None: they are not recorded.
    """

    name: str
    kind: str
    environment: Environment
    live: Mapping[str, LiveActor]
    frozen: ActorCache
    link: Link
    clock: Callable[[], float]
    matches_per_lane: int
    memory: SharedMemory | None
    opponents_learn: bool
    replays: ReplayRecorder | None = None
    stopped: bool = field(init=False, default=False)
    engine: MatchEngine = field(init=False)
    channels: dict[str, LearnerChannel] = field(init=False)
    requests: FixtureRequests = field(init=False)
    reports: ResultReports = field(init=False)
    _metrics: SamplerMetrics = field(init=False)
    _unrecorded: dict[str, PolicyActor] = field(init=False, factory=dict)  # live policies as opponents

    def __attrs_post_init__(self) -> None:
        self.channels = {player: LearnerChannel(actor, self.link, self.memory) for player, actor in self.live.items()}
        if not self.opponents_learn:
            self._unrecorded = {player: actor.without_recording() for player, actor in self.live.items()}
        self._metrics = SamplerMetrics(self.kind, sends_returns=self.environment.spec.compares_returns)
        self.reports = ResultReports(self.link, self.clock, self._metrics)
        self.engine = MatchEngine(
            environment=self.environment,
            resolve=self._resolve_seat,
            on_results=self.reports.add,
            matches_per_lane=self.matches_per_lane,
            observers=[actor for actor in self.live.values() if actor.recorder.layout.opponent_fields],
            players=self.live,
            skip_damaged=True,
            replays=self.replays,
        )
        self.requests = FixtureRequests(self.kind, self.engine, self.link)

    def start(self) -> None:
        """Send hello to the coordinator and the learners."""
        self.link.send(COORDINATOR, Hello(pid=os.getpid()))
        for channel in self.channels.values():
            channel.send_hello()

    def handle(self, peer: str, message: Any) -> None:
        """Process one message.

        Raises:
            WireError: A learner sends what is not of its player, or the coordinator a fixture that cannot be played.
        """
        check_owner(peer, self.name, message)
        match message:
            case Fixtures():
                for fixture in message.fixtures:
                    check_fixture(fixture, self.environment.spec, players=self.live)
                self.requests.receive(message.fixtures)
            case Credit() if message.player in self.channels:
                self.channels[message.player].receive_credit(message)
            case ResultsAck():
                self.reports.acknowledge(message.report)
            case Stop():
                self.stopped = True
                self.reports.flush()
                if self.replays is not None:
                    self.replays.flush()

    def work(self) -> bool:
        """Play one tick, unless blocks wait for credits or weights are missing; return whether a tick was played."""
        now = self.clock()
        self.reports.send(now)
        if self.stopped:
            return False
        if self.replays is not None:
            self.replays.poll(now)
        self.requests.send(now)
        ready = all(channel.ready for channel in self.channels.values())
        if self._metrics.is_due(now):
            self._report_metrics(now, waiting=not ready)
        if not ready:
            for channel in self.channels.values():
                channel.repeat_hello(now)
            return False
        played = self.engine.step()
        self.requests.waited |= self.engine.waits_for_fixtures
        for channel in self.channels.values():
            if channel.actor.blocks:
                channel.send_blocks()
        return played

    @property
    def count(self) -> int:
        """Return the number of decisions so far, which heartbeats report."""
        return self.engine.decisions

    @property
    def drained(self) -> bool:
        """Return whether the coordinator has committed all results."""
        return self.reports.drained

    def _report_metrics(self, now: float, *, waiting: bool) -> None:
        values = self._metrics.report(now, ticks=self.engine.ticks, decisions=self.engine.decisions, waiting=waiting)
        if values:
            self.link.send(COORDINATOR, MetricsReport(values=values))

    def _resolve_seat(self, fixture: Fixture, seat: int) -> tuple[Actor, int]:
        """Return the actor and the slot of a seat of a fixture, and report a model that is damaged.

        Raises:
            DamagedFileError: The file of the model is missing or damaged.
            ModelError: The model of an anchor is.
        """
        name = parse(fixture.participants[seat])
        if name.live:
            learns = self.opponents_learn or name.player == fixture.player
            return (self.live if learns else self._unrecorded)[name.player], 0
        try:
            return self.frozen.resolve(fixture, seat, self.environment.spec, slots_in_use=self.engine.slots_in_use)
        except DamagedFileError as error:
            digest = fixture.models.get(fixture.participants[seat])
            if digest is None:  # an anchor is not replaced
                raise ModelError(str(error)) from error
            self.link.send(COORDINATOR, DamagedModel(hash=digest))
            raise

    def close(self) -> None:
        """Close the environment."""
        self.engine.close()
