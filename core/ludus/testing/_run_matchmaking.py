"""Check matchmakers, rules and the rating of a run on small synthetic leagues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice, product
from typing import TYPE_CHECKING

import numpy as np
from attrs import evolve

from ludus._league.validation import (
    checked_changes,
    checked_evaluation,
    checked_pairing,
    checked_pool_changes,
    checked_rating,
    wrap_answer_errors,
)
from ludus._run.factories import make, make_evaluation_matchmaker, make_matchmaker
from ludus._seeding import generator, match_seeds
from ludus.testing._matchmaker import FakeLeague, fake_player
from ludus.testing._run_participants import NUM_MATCHES

if TYPE_CHECKING:
    from ludus._run.context import RunContext
    from ludus.environment import Environment, Scenario
    from ludus.matchmaker import Matchmaker

__all__ = ["check_matchmaking"]

_FIXTURES = 200  # enough to draw a scenario of probability 0.05 almost certainly


def check_matchmaking(context: RunContext, environment: Environment) -> Iterator[str]:
    """Check all matchmakers, rules and the rating, and yield lines about them.

    Raises:
        LudusError: One of them breaks its contract.
    """
    leagues = _make_leagues(context)
    rng = generator(context.config.run.seed, "check", "matchmaking")
    yield from _check_matchmakers(context, environment, leagues, rng)
    _check_evaluation(context, leagues, rng)
    yield from _check_rules(context, leagues, rng)
    yield _check_rating(context, environment, leagues[0])


def _make_leagues(context: RunContext) -> list[FakeLeague]:
    """Return the league before the first match, then one league for every player, in which that player only loses."""
    leagues = [_make_league(context, num_models=0)]
    league = _make_league(context, num_models=1)
    for loser in league.players.values():
        winners = [name for view in league.players.values() if view is not loser for name in (*view.models, view.live)]
        losses = dict.fromkeys(product((*loser.models, loser.live), winners), (0.0, 0.0, 1000.0))
        leagues.append(evolve(league, results=losses))
    return leagues


def _make_league(context: RunContext, *, num_models: int) -> FakeLeague:
    """Return a league without results."""
    members, configured = context.league_members(), context.config.players
    players = [
        evolve(fake_player(name, num_models, role=role, team=team), share=configured[name].share)
        for name, (role, team) in members["players"].items()
    ]
    return FakeLeague(num_teams=context.spec.num_teams, players=players, anchors=members["anchors"])


def _check_matchmakers(
    context: RunContext, environment: Environment, leagues: Sequence[FakeLeague], rng: np.random.Generator
) -> Iterator[str]:
    """Check fixtures, scenarios and pool changes of every player's matchmaker."""
    spec, seed = environment.spec, context.config.run.seed
    scenario_rng = generator(seed, "check", "fixtures")
    for name, player in context.config.players.items():
        matchmaker = make_matchmaker(context.plugins, player)
        with wrap_answer_errors(f"matchmaker of player {name!r}"):
            pairing = checked_pairing(matchmaker.next_fixture(leagues[0], name, rng), leagues[0], spec)
            scenarios = (
                checked_pairing(matchmaker.next_fixture(league, name, scenario_rng), league, spec).scenario
                for league in leagues
                for _ in range(_FIXTURES)
            )
            _check_scenarios(scenarios, environment, seed)
            for league in leagues[1:]:
                _check_pool_changes(matchmaker, name, league)
        yield f"{name} would first play {', '.join(pairing.opponents) or 'alone'} ({pairing.reason})"


def _check_scenarios(scenarios: Iterable[Scenario], environment: Environment, seed: int) -> None:
    """Start matches in some scenarios of each name and set of parameters."""
    groups: dict[tuple[str, ...], list[Scenario]] = {}
    for scenario in scenarios:
        groups.setdefault((scenario.name, *sorted(scenario.parameters)), []).append(scenario)
    for key, group in groups.items():
        if key != ("default",):
            seeds = match_seeds(seed, np.arange(NUM_MATCHES))
            environment.reset(seeds, scenarios=list(islice(cycle(group), NUM_MATCHES)))


def _check_pool_changes(matchmaker: Matchmaker, player: str, league: FakeLeague) -> None:
    """Check the changes after the first model of a player, which is in no pool yet."""
    pools = {name: () if name == player else view.models for name, view in league.players.items()}
    changes = matchmaker.on_model_frozen(evolve(league, pools=pools), player, league.players[player].models[-1])
    checked_pool_changes(changes, league)


def _check_evaluation(context: RunContext, leagues: Sequence[FakeLeague], rng: np.random.Generator) -> None:
    matchmaker = make_evaluation_matchmaker(context.plugins, context.config)
    if matchmaker is None:
        return
    with wrap_answer_errors("matchmaker of the evaluation"):
        for league in leagues:
            checked_evaluation(matchmaker.next_evaluation(league, rng), league)


def _check_rules(context: RunContext, leagues: Sequence[FakeLeague], rng: np.random.Generator) -> Iterator[str]:
    for chosen in context.config.league.rules:
        rule = make(chosen)
        with wrap_answer_errors(f"rule {chosen.name!r}"):
            first, *_ = [checked_changes(rule.decide(league, rng), league) for league in leagues]
        yield f"rule {chosen.name} would first change {', '.join(map(str, first)) or 'nothing'}"


def _check_rating(context: RunContext, environment: Environment, league: FakeLeague) -> str:
    chosen = context.config.league.rating
    table = make(chosen, anchors=league.anchors, seats=environment.spec.seats)
    with wrap_answer_errors(f"rating {chosen.name!r}"):
        rating = checked_rating(table.rating(""))
    return f"rating {chosen.name}: participants start at {rating.mean:.0f} ± {rating.deviation:.0f}"
