"""The coordinator: the only process that writes the league.

`Coordinator.handle` takes messages and queues answers; `Coordinator.flush` commits once and then sends them. So nothing
leaves the coordinator before the change it confirms is durable. A worker that gets no answer repeats its message, and
repeated messages change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define, field

from ludus._config.sections import RunConfig
from ludus._league.assignments import Assignments
from ludus._league.change_requests import ChangeRequests
from ludus._league.changes import ModelRegistry, RuleRunner
from ludus._league.fixtures import EvaluationFixtures, TrainingFixtures
from ludus._league.host_quarantine import HostQuarantine
from ludus._league.league import League
from ludus._league.matchmaking_state import MatchmakingState
from ludus._league.membership import Membership
from ludus._league.model_scan import ModelInspector
from ludus._league.outbox import Outbox
from ludus._league.results import MatchCounts, ResultRecorder
from ludus._league.retention import Retention
from ludus._messaging.messages import (
    Checkpoint,
    DamagedModel,
    Failure,
    FixtureRequest,
    Fixtures,
    Heartbeat,
    Hello,
    MetricsReport,
    ModelFrozen,
    PeerRefused,
    Results,
)
from ludus._messaging.permissions import check_owner
from ludus._messaging.refusals import Refusals, RefusedMessage
from ludus._plugins.manager import Plugins
from ludus.errors import WireError
from ludus.launcher import COORDINATOR, Link

_MAX_FIXTURES_PER_REQUEST = 64
_FIXTURES_PER_MESSAGE = 8  # a message's header is bounded, and fixtures of many seats and parameters are large


@define(kw_only=True)
class Coordinator:
    """Dispatches messages to the parts of the league, commits, and sends answers.

    Args:
        config: The run's configuration.
        league: The league, open for writing.
        rng: The random generator that the parts share.
        training: Creates training fixtures.
        evaluation: Creates rating fixtures.
        assignments: Fixtures that are assigned to workers.
        quarantine: Other hosts that may not take part.
        results: Records results.
        counts: Counts of finished matches.
        models: Adds frozen models.
        rule_runner: Applies rules.
        change_requests: Applies changes of pools and shares that other processes request.
        membership: The workers.
        inspector: Quarantines damaged models.
        retention: Retires models.
        outbox: Queue of answers and events.
        refusals: Counts the refused messages of workers.
        plugins: Receive events.
        link: Sends messages to workers.
        clock: Seconds.
    """

    config: RunConfig
    league: League
    rng: np.random.Generator
    training: TrainingFixtures
    evaluation: EvaluationFixtures
    assignments: Assignments
    quarantine: HostQuarantine
    results: ResultRecorder
    counts: MatchCounts
    models: ModelRegistry
    rule_runner: RuleRunner
    change_requests: ChangeRequests
    membership: Membership
    inspector: ModelInspector
    retention: Retention
    outbox: Outbox
    refusals: Refusals
    plugins: Plugins
    link: Link
    clock: Callable[[], float]
    _flushed_s: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._flushed_s = self.clock()

    def dry_run(self) -> None:
        """Call every rule and matchmaker once and drop the answers, so that mistakes show at the start of the run.

        Raises:
            LudusError: One of them failed, or its answer is invalid.
        """
        rng = np.random.default_rng(0)
        for rule in self.rule_runner.rules:
            self.rule_runner.decide(rule, rng)
        for player, view in self.league.players.items():
            if view.share:
                self.training.pairing(player, rng)
        self.evaluation.pair(rng)

    def start(self) -> None:
        """Let the rules set the shares of a new run before its first match, and start to check the model files.

        Raises:
            LudusError: A rule failed, or its answer is invalid.
        """
        if not self.counts.training:
            self.rule_runner.apply_initial_shares()
        self.inspector.start()
        self.retention.start()

    def handle(self, worker: str, message: Any) -> None:
        """Process one message of a worker; `flush` sends the answers. A message that it must not send is counted.

        Raises:
            LudusError: Plugin code failed, or the disk did.
        """
        if isinstance(message, RefusedMessage):
            self.refusals.add(worker, message.problem)
            return
        try:
            check_owner(worker, COORDINATOR, message)
            self._dispatch(worker, message)
        except WireError as error:
            self.refusals.add(worker, str(error))

    def _dispatch(self, worker: str, message: Any) -> None:
        """Process one message.

        Raises:
            WireError: The worker must not send it.
        """
        self.membership.last_seen_s[worker] = self.clock()
        match message:
            case Hello():
                self.membership.welcome(worker)
            case FixtureRequest():
                self._assign_fixtures(worker, message)
            case Results():
                self._record_results(worker, message)
            case ModelFrozen():
                self.models.register(worker, message)
                self.retention.apply()
            case DamagedModel():
                self.inspector.handle_report(worker, message.hash)
            case _:
                self._handle_status(worker, message)

    def _handle_status(self, worker: str, message: Any) -> None:
        match message:
            case Checkpoint():
                self.membership.save_checkpoint(worker, message)
            case MetricsReport():
                self.membership.report_metrics(worker, message)
            case Heartbeat():
                self.membership.heartbeat(worker, message)
            case Failure():
                self.membership.fail(worker, message)
            case PeerRefused():
                self.refusals.cut_off(message.peer, message.problem)

    def _record_results(self, worker: str, message: Results) -> None:
        self.results.record(worker, message)
        if not self.membership.stopping:
            self.rule_runner.apply_due(self.counts.training)

    def _assign_fixtures(self, worker: str, request: FixtureRequest) -> None:
        fixtures = []
        room = 0 if self.quarantine.is_quarantined(worker) else self.assignments.room(worker)
        for _ in range(min(request.count, _MAX_FIXTURES_PER_REQUEST, room)):
            if request.kind == "train":
                fixtures.append(self.quarantine.next_fixture(worker) or self.training.create())
                self.quarantine.assigned(worker, fixtures[-1])
            else:
                fixtures += self.evaluation.assign(
                    worker, training_matches=self.counts.training, rating_matches=self.counts.rating
                )
        for fixture in fixtures:
            self.assignments.add(worker, fixture.id)
        for first in range(0, max(len(fixtures), 1), _FIXTURES_PER_MESSAGE):
            part = tuple(fixtures[first : first + _FIXTURES_PER_MESSAGE])
            self.outbox.send(worker, Fixtures(fixtures=part))
        self.outbox.needs_commit |= bool(fixtures)

    def flush(self) -> None:
        """Commit changes, if there are any, then send the queued answers and call the event hooks.

        Raises:
            StoreError: The disk failed; nothing was sent.
        """
        now = self.clock()
        self.league.elapsed_s += now - self._flushed_s
        self._flushed_s = now
        self.inspector.poll()
        self.outbox.needs_commit |= self.quarantine.apply_requests(now)
        if self.outbox.needs_commit or self.change_requests.is_due(now):
            self.commit()
        self.outbox.flush(self.link, self.plugins)

    def commit(self) -> None:
        """Commit all changes, requested ones included, with the state that a resumed coordinator continues from.

        Raises:
            StoreError: The disk failed.
        """
        store = self.league.store
        self.change_requests.apply()
        self._matchmaking_state().save(store)
        store.set_counter("elapsed_s", self.league.elapsed_s)
        store.set_counter("matches", self.counts.training)
        store.set_counter("rating_matches", self.counts.rating)
        store.commit()
        self.change_requests.acknowledge()
        self.retention.delete_files()
        self.outbox.needs_commit = False

    def _matchmaking_state(self) -> MatchmakingState:
        return MatchmakingState(
            rng=self.rng.bit_generator.state,
            assigned=self.training.scheduler.assigned,
            match_ticks=self.training.scheduler.match_ticks,
            seat_turns=self.training.seat_turns,
            rules_applied_at=self.rule_runner.applied_at,
            shares={name: view.share for name, view in self.league.players.items()},
            configured_shares={name: player.share for name, player in self.config.players.items()},
            rules=tuple(rule.name for rule in self.config.league.rules),
        )

    @property
    def stop_reason(self) -> str:
        """Return why the run should stop now; empty while it should continue."""
        league = self.league
        limit = league.budget.exhausted(decisions=league.decisions, elapsed_s=league.elapsed_s)
        return self.membership.failure or limit

    def stop(self, workers: list[str]) -> None:
        """Ask workers to stop; workers that connect later are asked when they do."""
        self.membership.stop(workers, reason=self.stop_reason)
