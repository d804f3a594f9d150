"""`check_run`: test every part of a run in seconds, as ``ludus check`` does.

Each step is a generator of lines; an exception of plugin code ends the step and becomes a failed finding.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, cycle, islice, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from attrs import evolve

from ludus._config.run_config import find_unused_schedules, load_config
from ludus._league.participants import parse
from ludus._league.validation import (
    checked_changes,
    checked_evaluation,
    checked_pairing,
    checked_pool_changes,
    checked_rating,
    wrap_answer_errors,
)
from ludus._plugins.error_wrapping import close_environment, format_error
from ludus._plugins.manager import Plugins, load_plugins
from ludus._run.check import check_options
from ludus._run.context import RunContext
from ludus._run.factories import make, make_environment, make_evaluation_matchmaker, make_matchmaker
from ludus._seeding import generator, match_seeds
from ludus.errors import ConfigError, LudusError, ModelError
from ludus.rule import Reset
from ludus.testing._finding import Finding
from ludus.testing._league import FakeLeague, fake_player
from ludus.testing._run_environment import check_run_environment
from ludus.testing._run_participants import NUM_MATCHES, check_anchor, check_player, check_transfer

if TYPE_CHECKING:
    from ludus._config.sections import RunConfig
    from ludus._run.context import RunContext
    from ludus.environment import Environment, Scenario
    from ludus.matchmaker import Matchmaker


_FIXTURES = 200  # enough to draw a scenario of probability 0.05 almost certainly
_LATER_S, _LATER_DECISIONS = 1e9, 10**15  # after which all periods of matchmakers and rules are over


def check_run(path: str | Path, *, overrides: Sequence[str] = (), plugins: Plugins | None = None) -> Iterator[Finding]:
    """Check the run of a TOML file and yield findings as they are made; steps that need a failed step are skipped.

    Args:
        path: TOML file.
        overrides: Texts ``key.path=value``.
        plugins: Plugins to use; None: all installed plugins.
    """
    plugins = load_plugins() if plugins is None else plugins
    yield from _check_plugins(plugins)
    try:
        config = load_config(path, overrides=overrides, plugins=plugins)
    except ConfigError as error:
        yield from _failures("configuration", error, error.problems)
        return
    yield Finding("ok", "configuration", f"{_count(config.players, 'player')}, {_count(config.anchors, 'anchor')}")
    if problem := find_unused_schedules(config):
        yield Finding("warn", "configuration", problem)
    subject = f"environment {config.environment.name}"
    try:
        environment = make_environment(config.environment, min(NUM_MATCHES, config.sampling.matches))
    except LudusError as error:
        yield from _failures(subject, error, [str(error)])
        return
    try:
        yield from _findings(subject, check_run_environment(environment, config.run.seed))
        context = RunContext(config=config, plugins=plugins, run_dir=Path(), known_spec=environment.spec)
        yield from _check_components(context, environment)
    finally:
        close_environment(environment)


def _check_components(context: RunContext, environment: Environment) -> Iterator[Finding]:
    """Check everything but the environment; nothing is written into the run folder."""
    config = context.config
    try:
        check_options(context)
    except LudusError as error:
        yield from _failures("configuration", error, str(error).splitlines())
        return
    for player in config.players.values():
        yield from _findings(f"player {player.name}", check_player(player, environment, context))
    for anchor in config.anchors.values():
        yield from _findings(f"anchor {anchor.name}", check_anchor(anchor, environment, config.run.seed))
    yield from _findings("matchmaking", check_matchmaking(context, environment))
    yield from _findings("processes", _check_processes(config))


def _count(items: Mapping[str, object], noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"


def _findings(subject: str, lines: Iterator[str] | Iterator[str | Finding]) -> Iterator[Finding]:
    """Convert the lines of a step into passed findings, and its exception into a failed one."""
    try:
        for line in lines:
            yield Finding("ok", subject, line) if isinstance(line, str) else line
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - plugins raise errors of any kind
        yield from _failures(subject, error, [format_error(error)])


def _failures(subject: str, error: BaseException, problems: Sequence[str]) -> Iterator[Finding]:
    """Yield a failed finding for each problem; raise the error itself if LUDUS_DEBUG is set."""
    if os.environ.get("LUDUS_DEBUG"):
        raise error
    yield from (Finding("fail", subject, problem) for problem in problems)


def _check_plugins(plugins: Plugins) -> Iterator[Finding]:
    loaded = [report.name for report in plugins.reports if report.status == "ok"]
    yield Finding("ok", "plugins", ", ".join(loaded) or "none")
    for report in plugins.reports:
        if report.status != "blocked":
            yield from (Finding("warn", f"plugin {report.name}", problem) for problem in report.problems)
    yield from (Finding("warn", "plugins", line) for line in plugins.unmatched_names())


def _check_processes(config: RunConfig) -> Iterator[str]:
    """Import the launcher and the metric sinks without starting them."""
    components = (*config.metrics.sinks, *filter(None, [config.launcher]))
    for chosen in components:
        chosen.component.load_factory()
    yield ", ".join(f"{chosen.kind} {chosen.name}" for chosen in components) or "none"


def check_matchmaking(context: RunContext, environment: Environment) -> Iterator[str | Finding]:
    """Check all matchmakers, rules and the rating, and yield lines about them.

    Raises:
        LudusError: One of them breaks its contract.
    """
    leagues = _make_leagues(context)
    rng = generator(context.config.run.seed, "check", "matchmaking")
    yield from _check_matchmakers(context, environment, leagues, rng)
    _check_evaluation(context, leagues, rng)
    yield from _check_rules(context, leagues, rng)
    yield from _find_idle_rules(context)
    yield _check_rating(context, environment, leagues[0])


def _make_leagues(context: RunContext) -> list[FakeLeague]:
    """Return the league before the first match, then one league for every player, in which that player only loses."""
    leagues = [_make_league(context, num_models=0)]
    league = _make_league(context, num_models=1)
    for loser in league.players.values():
        winners = [name for view in league.players.values() if view is not loser for name in (*view.models, view.live)]
        losses = dict.fromkeys(product((*loser.models, loser.live), winners), (0.0, 0.0, 1000.0))
        players = [evolve(view, decisions=_LATER_DECISIONS) for view in league.players.values()]
        leagues.append(evolve(league, players=players, results=losses, elapsed_s=_LATER_S))
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
            seeds = match_seeds(seed, np.arange(environment.num_matches))
            environment.reset(seeds, scenarios=list(islice(cycle(group), environment.num_matches)))


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


def _check_rules(
    context: RunContext, leagues: Sequence[FakeLeague], rng: np.random.Generator
) -> Iterator[str | Finding]:
    """Check the changes of all rules, and that players can start from the models that these name."""
    starts: dict[tuple[str, str], None] = {}  # player and player of the model
    for chosen in context.config.league.rules:
        rule = make(chosen)
        with wrap_answer_errors(f"rule {chosen.name!r}"):
            first, *later = [checked_changes(rule.decide(league, rng), league) for league in leagues]
        yield f"rule {chosen.name} would first change {', '.join(map(str, first)) or 'nothing'}"
        resets = (change for change in chain(*later) if isinstance(change, Reset) and change.init)
        starts |= {(reset.player, parse(reset.init).player): None for reset in resets}
    for player, source in starts:
        if player != source:
            yield _check_transfer(context, player, source)


def _find_idle_rules(context: RunContext) -> Iterator[Finding]:
    """Yield a warning for every rule in a game of one team."""
    if context.spec.num_teams == 1:
        text = "a game of one team has no wins, so a rule that reads win rates changes nothing; expected none"
        yield from (Finding("warn", f"rule {rule.name}", text) for rule in context.config.league.rules)


def _check_transfer(context: RunContext, player: str, source: str) -> Finding:
    """Return whether a player can restart from the weights of another one, as a rule requests."""
    try:
        transferred = check_transfer(context, player, source)
    except ModelError as error:
        return Finding("fail", f"player {player}", f"cannot restart from the weights of {source}: {error}")
    text = f"restarts from the weights of {source}: {transferred.describe()}"
    return Finding("warn" if transferred.misfits else "ok", f"player {player}", text)


def _check_rating(context: RunContext, environment: Environment, league: FakeLeague) -> str:
    chosen = context.config.league.rating
    table = make(chosen, anchors=league.rated_anchors, seats=environment.spec.seats, sides={})
    with wrap_answer_errors(f"rating {chosen.name!r}"):
        rating = checked_rating(table.rating(""))
    return f"rating {chosen.name}: participants start at {rating.mean:.0f} ± {rating.deviation:.0f}"
