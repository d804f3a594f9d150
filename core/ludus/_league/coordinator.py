"""The coordinator: the only process that writes the league; and how a new or resumed run builds it.

`Coordinator.handle` takes messages and queues answers; `Coordinator.flush` commits once and then sends them. So nothing
leaves the coordinator before the change it confirms is durable. A worker that gets no answer repeats its message, and
repeated messages change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import define, field

from ludus._config.sections import RunConfig
from ludus._league.changes import FreezeRequests, ModelRegistry, RuleRunner
from ludus._league.fixtures import EvaluationFixtures, ShareScheduler, TrainingFixtures
from ludus._league.league import League
from ludus._league.matchmaking_state import MatchmakingState
from ludus._league.membership import Membership
from ludus._league.outbox import Outbox
from ludus._league.results import MatchCounts, ResultRecorder
from ludus._messaging.messages import (
    Checkpoint,
    Failure,
    FixtureRequest,
    Fixtures,
    Heartbeat,
    Hello,
    MetricsReport,
    ModelFrozen,
    Results,
)
from ludus._plugins.manager import Plugins
from ludus._seeding import generator
from ludus.environment import EnvironmentSpec
from ludus.launcher import Link, learner_name
from ludus.matchmaker import Matchmaker
from ludus.rule import Rule

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
        results: Records results.
        counts: Counts of finished matches.
        models: Adds frozen models.
        rule_runner: Applies rules.
        membership: The workers.
        outbox: Queue of answers and events.
        plugins: Receive events.
        link: Sends messages to workers.
        clock: Seconds.
    """

    config: RunConfig
    league: League
    rng: np.random.Generator
    training: TrainingFixtures
    evaluation: EvaluationFixtures
    results: ResultRecorder
    counts: MatchCounts
    models: ModelRegistry
    rule_runner: RuleRunner
    membership: Membership
    outbox: Outbox
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

    def handle(self, worker: str, message: Any) -> None:
        """Process one message of a worker; `flush` sends the answers.

        Raises:
            LudusError: Plugin code failed, or the disk did.
        """
        self.membership.last_seen_s[worker] = self.clock()
        match message:
            case Hello():
                self.membership.welcome(worker)
            case FixtureRequest():
                self._assign_fixtures(worker, message)
            case Results():
                self.results.record(worker, message)
                if not self.membership.stopping:
                    self.rule_runner.apply_due(self.counts.training)
            case ModelFrozen():
                self.models.register(worker, message)
            case Checkpoint():
                self.membership.save_checkpoint(worker, message)
            case MetricsReport():
                self.membership.report_metrics(worker, message)
            case Heartbeat():
                self.membership.heartbeat(worker, message)
            case Failure():
                self.membership.fail(worker, message)

    def _assign_fixtures(self, worker: str, request: FixtureRequest) -> None:
        fixtures = []
        for _ in range(min(request.count, _MAX_FIXTURES_PER_REQUEST)):
            if request.kind == "train":
                fixtures.append(self.training.create())
            else:
                fixtures += self.evaluation.assign(
                    worker, training_matches=self.counts.training, rating_matches=self.counts.rating
                )
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
        if self.outbox.needs_commit:
            self.commit()
        self.outbox.flush(self.link, self.plugins)

    def commit(self) -> None:
        """Commit all changes, together with the state that a resumed coordinator continues from.

        Raises:
            StoreError: The disk failed.
        """
        store = self.league.store
        self._matchmaking_state().save(store)
        store.set_counter("elapsed_s", self.league.elapsed_s)
        store.set_counter("matches", self.counts.training)
        store.set_counter("rating_matches", self.counts.rating)
        store.commit()
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
            rules=frozenset(rule.name for rule in self.config.league.rules),
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


def open_coordinator(
    config: RunConfig,
    *,
    spec: EnvironmentSpec,
    league: League,
    matchmakers: Mapping[str, Matchmaker],
    evaluation: Matchmaker | None,
    rules: Mapping[str, Rule],
    plugins: Plugins,
    link: Link,
    clock: Callable[[], float],
) -> Coordinator:
    """Build a coordinator that continues from the last commit of its league.

    Args:
        config: The run's configuration.
        spec: The environment's description.
        league: The league, open for writing.
        matchmakers: Matchmaker by player.
        evaluation: Chooses rating matches; None: there are none.
        rules: Rules of the league by name, in the order in which they are called.
        plugins: Receive events.
        link: Sends messages to workers.
        clock: Seconds.

    Raises:
        sqlite3.DatabaseError: The stored state is malformed.
        LudusError: A matchmaker failed to admit a model that had missed its pools.
    """
    state, counters = MatchmakingState.load(league.store), league.store.counters()
    rng = generator(config.run.seed, "matchmaking")
    state.restore_rng(rng)
    outbox = Outbox()
    scheduler = ShareScheduler(
        assigned={name: state.assigned.get(name, 0.0) for name in config.players}, match_ticks=dict(state.match_ticks)
    )
    training = TrainingFixtures(
        league=league,
        spec=spec,
        matchmakers=matchmakers,
        scheduler=scheduler,
        seat_turns={name: state.seat_turns.get(name, 0) for name in config.players},
        rng=rng,
        run_seed=config.run.seed,
        num_matches=config.sampling.matches_per_fixture,
    )
    ratings = EvaluationFixtures(
        league=league,
        spec=spec,
        matchmaker=evaluation,
        rng=rng,
        run_seed=config.run.seed,
        num_matches=config.evaluation.fixture_matches,
        budget=config.evaluation.share,
    )
    counts = MatchCounts(int(counters.get("matches", 0)), int(counters.get("rating_matches", 0)))
    requests = FreezeRequests(league, outbox)
    coordinator = Coordinator(
        config=config,
        league=league,
        rng=rng,
        training=training,
        evaluation=ratings,
        results=ResultRecorder(league, counts, scheduler, ratings, outbox),
        counts=counts,
        models=ModelRegistry(league, matchmakers, requests, outbox),
        rule_runner=RuleRunner(
            rules=rules,
            league=league,
            training=training,
            requests=requests,
            outbox=outbox,
            rng=rng,
            every_matches=config.league.every_matches,
            applied_at=state.rules_applied_at,
        ),
        membership=Membership(
            {learner_name(player): player for player in config.players}, league, ratings, requests, outbox
        ),
        outbox=outbox,
        plugins=plugins,
        link=link,
        clock=clock,
    )
    _restore_shares(config, state, training)
    _restore_fixtures(league, ratings, outbox)
    coordinator.models.admit_missed()
    return coordinator


def _restore_shares(config: RunConfig, state: MatchmakingState, training: TrainingFixtures) -> None:
    """Restore the shares that rules have set, unless one of these rules is gone or another share is configured."""
    has_all_rules = state.rules <= {rule.name for rule in config.league.rules}
    for name, player in config.players.items():
        is_kept = has_all_rules and state.configured_shares.get(name, player.share) == player.share
        training.set_share(name, state.shares.get(name, player.share) if is_kept else player.share)


def _restore_fixtures(league: League, evaluation: EvaluationFixtures, outbox: Outbox) -> None:
    """Continue unfinished rating fixtures and close training fixtures: their live weights have changed."""
    for fixture in league.open_fixtures():
        if fixture.kind == "eval":
            evaluation.add_unfinished(fixture)
        else:
            league.store.fixtures.close(fixture.id)
            outbox.needs_commit = True
