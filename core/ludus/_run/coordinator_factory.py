"""Make the coordinator of a new or resumed run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ludus._config.sections import RunConfig
from ludus._league.assignments import Assignments
from ludus._league.change_requests import ChangeRequests
from ludus._league.changes import FreezeRequests, ModelRegistry, RuleRunner
from ludus._league.coordinator import Coordinator
from ludus._league.damage import DamageContainment
from ludus._league.fixtures import EvaluationFixtures, ShareScheduler, TrainingFixtures
from ludus._league.host_quarantine import HostQuarantine
from ludus._league.league import League
from ludus._league.matchmaking_state import MatchmakingState
from ludus._league.membership import Membership
from ludus._league.model_scan import ModelInspector
from ludus._league.outbox import Outbox
from ludus._league.results import MatchCounts, ResultRecorder
from ludus._league.retention import Retention
from ludus._messaging.refusals import Refusals
from ludus._run.context import RunContext
from ludus._run.factories import make, make_evaluation_matchmaker, make_matchmaker
from ludus._run.return_baseline import stored_return_outcome
from ludus._seeding import generator
from ludus._store.store import Store
from ludus.launcher import Link, learner_name

_log = logging.getLogger(__name__)


def make_coordinator(
    run: RunContext,
    store: Store,
    *,
    link: Link,
    clock: Callable[[], float],
    print_line: Callable[[str], None] = _log.warning,
) -> Coordinator:
    """Make a coordinator that continues from the last commit of its league.

    Args:
        run: The run.
        store: Its store, open for writing.
        link: Sends messages to workers.
        clock: Seconds.
        print_line: Prints one line for the user.

    Raises:
        sqlite3.DatabaseError: The stored state is malformed.
        LudusError: A component could not be made, or failed to admit a model that had missed its pools.
    """
    config, spec = run.config, run.spec
    league = League(store, **run.league_members(), ratings=partial(make, config.league.rating), budget=run.budget)
    league.return_outcome = stored_return_outcome(spec, store)
    matchmakers = {name: make_matchmaker(run.plugins, player) for name, player in config.players.items()}
    state, counters = MatchmakingState.load(store), store.counters()
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
        matchmaker=make_evaluation_matchmaker(run.plugins, config),
        rng=rng,
        run_seed=config.run.seed,
        num_matches=config.evaluation.fixture_matches,
        budget=config.evaluation.share,
    )
    counts = MatchCounts(int(counters.get("matches", 0)), int(counters.get("rating_matches", 0)))
    assignments = Assignments(num_matches=max(config.sampling.matches, config.evaluation_matches), clock=clock)
    quarantine = HostQuarantine(
        store=store,
        seats=spec.seats,
        players=tuple(config.players),
        share=config.league.paired_share,
        repeat=training.repeat,
        clock=clock,
    )
    requests = FreezeRequests(league, outbox)
    damage = DamageContainment(league, print_line)
    coordinator = Coordinator(
        config=config,
        league=league,
        rng=rng,
        training=training,
        evaluation=ratings,
        assignments=assignments,
        quarantine=quarantine,
        results=ResultRecorder(league, counts, scheduler, ratings, assignments, quarantine, outbox),
        counts=counts,
        models=ModelRegistry(league, matchmakers, requests, outbox),
        rule_runner=RuleRunner(
            rules={rule.name: make(rule) for rule in config.league.rules},
            league=league,
            training=training,
            requests=requests,
            outbox=outbox,
            rng=rng,
            every_matches=config.league.every_matches,
            applied_at=state.rules_applied_at,
        ),
        change_requests=ChangeRequests(league, training.set_share),
        membership=Membership(
            {learner_name(player): player for player in config.players},
            league,
            ratings,
            assignments,
            requests,
            outbox,
            damage,
        ),
        inspector=ModelInspector(containment=damage, evaluation=ratings, requests=requests, outbox=outbox, clock=clock),
        retention=Retention(policies=config.league.retention, league=league, requests=requests, clock=clock),
        outbox=outbox,
        refusals=Refusals(clock),
        plugins=run.plugins,
        link=link,
        clock=clock,
    )
    _restore_shares(config, state, training)
    _restore_fixtures(league, ratings, outbox)
    coordinator.models.admit_missed()
    return coordinator


def _restore_shares(config: RunConfig, state: MatchmakingState, training: TrainingFixtures) -> None:
    """Restore the shares that rules have set, unless one of these rules is gone or another share is configured."""
    has_all_rules = {rule.name for rule in config.league.rules} >= set(state.rules)
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
