"""Check a run before hours are spent on it, as ``ludus check`` does: every part, for real but small.

Each step is a generator of findings; what plugin code raises in it becomes a finding too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, cycle, islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from attrs import evolve, frozen
from gymnasium import spaces

from ludus._config.run_config import find_unused_schedules, load_config
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
from ludus._run.coordinator_factory import league_members
from ludus._run.factories import (
    learned_role,
    make,
    make_agent,
    make_algorithm,
    make_environment,
    make_evaluation_matchmaker,
    make_matchmaker,
    make_networks,
    player_role,
)
from ludus._run.sampler_factory import make_live_actor
from ludus._sampling.match_engine import MatchEngine
from ludus._sampling.seats import Actor, SeatRewards, Seats
from ludus._seeding import generator, match_seeds
from ludus.algorithm import UpdateResult
from ludus.errors import ConfigError, ContractError, LudusError
from ludus.inference import Eager
from ludus.interface import Spaces
from ludus.network import RecurrentNetwork
from ludus.records import Fixture
from ludus.spaces import action_width, is_continuous, label_sizes, leaf_spaces, legal_actions
from ludus.testing._algorithm import check_decision, check_fields
from ludus.testing._errors import expect_type
from ludus.testing._interface import check_view
from ludus.testing._matchmaker import FakeLeague, fake_player
from ludus.testing._rollout import Rollout, SeededActions, TickCheck, random_action
from ludus.testing._spec_checks import check_spec
from ludus.testing._synthetic import random_leaves
from ludus.testing._tick_checks import TickChecker

if TYPE_CHECKING:
    from ludus._config.sections import AnchorConfig, PlayerConfig, RunConfig
    from ludus._sampling.actors import LiveActor
    from ludus.agent import Agent
    from ludus.algorithm import Algorithm, Decision, Policy, PolicyInput
    from ludus.environment import Environment, EnvironmentSpec, Role, Scenario
    from ludus.interface import Interface, SeatView
    from ludus.matchmaker import Matchmaker
    from ludus.segment import SegmentBatch

__all__ = ["Finding", "check_run"]

_MATCHES = 8
_TICKS = 50
_DECISIONS = 64
_FIXTURES = 200
_MOST_TICKS = 1000


@frozen
class Finding:
    """One line of the report: how `subject` fared and why."""

    status: Literal["ok", "warn", "fail"]
    subject: str
    text: str


def check_run(path: str | Path, *, overrides: Sequence[str] = (), plugins: Plugins | None = None) -> Iterator[Finding]:
    """Yield findings about a TOML file as they are made; each step that needs an earlier one ends with it.

    Args:
        path: The file.
        overrides: Texts ``key.path=value``.
        plugins: What is to be used; None for everything installed.
    """
    plugins = load_plugins() if plugins is None else plugins
    yield from _check_plugins(plugins)
    try:
        config = load_config(path, overrides=overrides, plugins=plugins)
    except ConfigError as error:
        yield from (Finding("fail", "configuration", problem) for problem in error.problems)
        return
    yield Finding("ok", "configuration", f"{_count(config.players, 'player')}, {_count(config.anchors, 'anchor')}")
    if problem := find_unused_schedules(config):
        yield Finding("warn", "configuration", problem)
    subject = f"environment {config.environment.name}"
    try:
        environment = make_environment(config.environment, _MATCHES)
    except LudusError as error:
        yield Finding("fail", subject, str(error))
        return
    try:
        yield from _guarded(subject, _check_environment(environment, config.run.seed))
        context = RunContext(config=config, plugins=plugins, run_dir=Path())  # nothing is written
        try:
            check_options(context)
        except LudusError as error:
            yield from (Finding("fail", "configuration", problem) for problem in str(error).splitlines())
            return
        for player in config.players.values():
            yield from _guarded(f"player {player.name}", _check_player(player, environment, context))
        for anchor in config.anchors.values():
            yield from _guarded(f"anchor {anchor.name}", _check_anchor(anchor, environment, config.run.seed))
        yield from _guarded("matchmaking", _check_matchmaking(context, environment))
        yield from _guarded("processes", _check_processes(config))
    finally:
        close_environment(environment)


def _count(items: Mapping[str, object], noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"


def _guarded(subject: str, texts: Iterator[str]) -> Iterator[Finding]:
    """Turn what a step yields into findings that are ok and what it raises into one that is not."""
    try:
        for text in texts:
            yield Finding("ok", subject, text)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if os.environ.get("LUDUS_DEBUG"):
            raise
        yield Finding("fail", subject, format_error(error))


def _check_plugins(plugins: Plugins) -> Iterator[Finding]:
    loaded = [report.name for report in plugins.reports if report.status == "ok"]
    yield Finding("ok", "plugins", ", ".join(loaded) or "none")
    for report in plugins.reports:
        if report.status != "blocked":
            yield from (Finding("warn", f"plugin {report.name}", problem) for problem in report.problems)
    yield from (Finding("warn", "plugins", line) for line in plugins.unmatched_names())


# -- the environment -----------------------------------------------------------------------------------------------


def _check_environment(environment: Environment, seed: int) -> Iterator[str]:
    """Check the spec, then play random legal actions for a few ticks and hold every tick against it."""
    environment.reset(match_seeds(seed, np.arange(_MATCHES)))  # some know their spaces only after their first reset
    spec = environment.spec
    check_spec(spec)
    checker = TickChecker(spec=spec, num_matches=_MATCHES, max_idle_ticks=_MOST_TICKS)
    rollout = _rollout(environment, seed, checker)
    for _ in range(_TICKS):
        rollout.step()
        rollout.restart_ended()
    checker.finish()
    ended = sum(rollout.match_numbers)
    yield f"{spec.turn}, {len(spec.seats)} seats, {spec.num_teams} teams; {_TICKS} ticks, {ended} matches ended"
    for role in spec.roles:
        yield f"role {role.name} {_space_text(role)}"


def _rollout(environment: Environment, seed: int, check: TickCheck | None = None) -> Rollout:
    choose = SeededActions(spec=environment.spec)
    return Rollout(environment=environment, seed=seed, streams=range(_MATCHES), choose=choose, check=check)


def _space_text(role: Role) -> str:
    leaves = ", ".join(
        f"{name} {list(leaf.shape or ())} {leaf.dtype}" for name, leaf in leaf_spaces(role.observation_space).items()
    )
    labels = label_sizes(role.action_space)
    choices = f"one of {' by '.join(map(str, labels))} actions"
    return f"sees {leaves}; does {choices if labels else f'{action_width(role.action_space)} real numbers'}"


# -- players -------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class _RandomActor:
    """Sits in the seats that the player under test does not take."""

    role: Role
    rng: np.random.Generator

    def start_matches(self, seat_ids: np.ndarray) -> None:
        """Nothing to do."""

    def act(self, seats: Seats, rewards: SeatRewards) -> np.ndarray:  # noqa: ARG002 - the contract of actors
        """Decide at random."""
        space, masks = self.role.action_space, seats.tick.action_mask
        legal = [None] * seats.match_indices.size if masks is None else seats.take(masks)
        return np.stack([random_action(space, mask, self.rng) for mask in legal])

    def end_matches(self, seats: Seats, rewards: SeatRewards, *, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Nothing to do."""


@frozen(eq=False)
class _WatchedPolicy:
    """A policy whose decisions are checked."""

    inner: Policy
    algorithm: Algorithm
    role: Role
    who: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def act(self, inputs: PolicyInput, *, rng: np.random.Generator, deterministic: bool = False) -> Decision:
        """Decide."""
        decision = self.inner.act(inputs, rng=rng, deterministic=deterministic)
        rows = len(next(iter(inputs.observation.values())))
        with wrap_answer_errors(self.who):
            check_decision(decision, self.algorithm, self.role, rows=rows, mask=inputs.action_mask)
        return decision


@frozen(eq=False)
class _WatchedInterface:
    """An interface whose views are checked."""

    inner: Interface
    seen: Spaces
    who: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        """Show the view."""
        shown = self.inner.observe(view, seat_ids)
        with wrap_answer_errors(self.who):
            check_view(shown, self.seen, rows=seat_ids.size)
        return shown


def _check_player(player: PlayerConfig, environment: Environment, context: RunContext) -> Iterator[str]:
    """Let the player's policy decide in real matches and its trainer learn from the segments."""
    run = context.config.run
    raw = learned_role(player, environment.spec)
    role, interface = player_role(player, raw)
    if interface is not None:
        yield f"after its interfaces it {_space_text(role)}"
    _check_networks(player, role)
    algorithm = make_algorithm(player, role)
    who = f"algorithm {player.algorithm.name!r}"
    with wrap_answer_errors(who):
        check_fields(algorithm)
    trainer = algorithm.make_trainer(seed=run.seed, device=run.device)
    weights = trainer.weights()
    actor = make_live_actor(context, "check", player.name, environment.spec, _MATCHES)
    actor.load(weights, 0)
    actor.policy = cast("Policy", _WatchedPolicy(actor.policy, algorithm, role, who))
    if actor.interface is not None:
        names = ", ".join(repr(chosen.name) for chosen in player.interfaces)
        seen = Spaces(role.observation_space, role.action_space)
        actor.interface = cast("Interface", _WatchedInterface(actor.interface, seen, f"interface {names}"))
    batch = _play(environment, actor, raw, run.seed)
    numbers = sum(array.size for array in weights.values())
    yield f"policy: {numbers:,} weights; {batch.num_decisions} decisions in {batch.num_segments} segments"
    started = time.perf_counter()
    result = trainer.update(batch.read_only(), progress=0.0)
    with wrap_answer_errors(who):
        expect_type(UpdateResult, result, "update")
    actor.policy.load(trainer.weights())
    yield f"update: {time.perf_counter() - started:.2f} s; {_metrics_text(result)}"


def _check_networks(player: PlayerConfig, role: Role) -> None:
    """Run what the network component made on random rows: it must answer what the algorithm asked for."""
    rng = generator(0, "check", "networks")
    who = f"network {player.network.name!r}" if player.network else f"algorithm {player.algorithm.name!r}"
    for module, request in make_networks(player, role):
        groups = (dict(request.observation), dict(request.privileged))
        leaves = [random_leaves(spaces.Dict(group), _MATCHES, rng) for group in groups]
        state = module.initial_state(_MATCHES) if isinstance(module, RecurrentNetwork) else {}
        before = {name: leaf.detach().numpy() for name, leaf in state.items()}
        with wrap_answer_errors(who):
            heads = Eager(module, request).run(leaves[0], privileged=leaves[1], state=before).heads
            for name, size in {**request.heads, **request.critic_heads}.items():
                if name not in heads or heads[name].shape != (_MATCHES, size):
                    found = heads[name].shape if name in heads else "nothing"
                    raise ContractError(f"answers {found} as the head {name!r}, expected {(_MATCHES, size)}")


def _play(environment: Environment, actor: LiveActor, learned: Role, seed: int) -> SegmentBatch:
    """Play until a few decisions are recorded and return them; `actor` takes all seats of the role it learns."""
    seats = tuple(seat.role for seat in environment.spec.seats)
    actors: dict[str, Actor] = {
        role.name: _RandomActor(role, generator(seed, "check", role.name)) for role in environment.spec.roles
    }
    actors[learned.name] = actor
    engine = MatchEngine(
        environment=environment,
        resolve=lambda _fixture, seat: (actors[seats[seat]], 0),
        on_results=lambda _results: None,
        matches_per_lane=_MATCHES,
    )
    matches = _MATCHES * _MOST_TICKS  # more than can end
    engine.add_fixture(
        Fixture(id=1, kind="train", player="", participants=seats, seed=seed, matches=matches, reason="check")
    )
    for _ in range(_MOST_TICKS):
        if engine.decisions >= _DECISIONS * len(seats) or actor.blocks:
            break
        engine.step()
    batch = actor.blocks[0] if actor.blocks else actor.recorder.flush()
    if not batch.num_decisions:
        raise ContractError(f"it made no decision whose outcome was seen in {_MOST_TICKS} ticks")
    return batch


def _metrics_text(result: UpdateResult) -> str:
    wrong = [name for name, value in result.metrics.items() if not np.isfinite(value)]
    if wrong:
        raise ContractError(f"the metric {wrong[0]} of its update is not finite")
    return ", ".join(f"{name} {value:.3g}" for name, value in list(result.metrics.items())[:4])


# -- anchors -------------------------------------------------------------------------------------------------------


def _check_anchor(anchor: AnchorConfig, environment: Environment, seed: int) -> Iterator[str]:
    """Let the agent decide once for every role that it plays."""
    refused = []
    played = []
    for role in environment.spec.roles:
        try:
            agent = make_agent(anchor.agent, environment.spec, role.name)
        except LudusError as error:
            refused.append(error)
            continue
        _check_agent(agent, role, environment, seed)
        played.append(role.name)
    if not played:
        raise refused[0]
    yield f"agent {anchor.agent.name} plays {', '.join(played)}"


def _check_agent(agent: Agent, role: Role, environment: Environment, seed: int) -> None:
    rollout = _rollout(environment, seed)
    for _ in range(_MOST_TICKS):
        if rollout.tick.roles[role.name].acting.any():
            break
        rollout.step()
    tick = rollout.tick.roles[role.name]
    rows, seats = np.nonzero(tick.acting)
    if not rows.size:
        raise ContractError(f"role {role.name} does not act in {_MOST_TICKS} ticks")
    mask = None if tick.action_mask is None else tick.action_mask[rows, seats].copy()
    seat_ids = rows * role.num_seats + seats
    agent.reset(seat_ids)
    action = agent.act(
        {name: leaf[rows, seats] for name, leaf in tick.observation.items()},
        action_mask=mask,
        seat_ids=seat_ids,
        rng=generator(seed, "check", "agent"),
    )
    if not isinstance(action, np.ndarray):
        raise ContractError(f"as {role.name} it returned {action!r:.200}, expected an array of actions")
    shape = (rows.size, action_width(role.action_space))
    if action.shape != shape or is_continuous(role.action_space) != (action.dtype.kind == "f"):
        raise ContractError(f"as {role.name} it returned {action.dtype} {action.shape}, expected actions {shape}")
    if not legal_actions(role.action_space, action, mask).all():
        raise ContractError(f"as {role.name} it chose an illegal action")


# -- matchmaking ---------------------------------------------------------------------------------------------------


def _league(context: RunContext, models: int) -> FakeLeague:
    """Return a league without results in which every player has so many models."""
    members, configured = league_members(context), context.config.players
    players = [
        evolve(fake_player(name, models, role=role, team=team), share=configured[name].share)
        for name, (role, team) in members["players"].items()
    ]
    return FakeLeague(num_teams=context.spec.num_teams, players=players, anchors=members["anchors"])


def _leagues(context: RunContext) -> Iterator[FakeLeague]:
    """Return the league before the first match, then one for every player: with a model of each, and it only loses."""
    yield _league(context, 0)
    grown = _league(context, 1)
    for loser in grown.players.values():
        winners = [name for view in grown.players.values() if view is not loser for name in (*view.models, view.live)]
        lost = dict.fromkeys(product((*loser.models, loser.live), winners), (0.0, 0.0, 1000.0))
        yield evolve(grown, results=lost)


def _check_matchmaking(context: RunContext, environment: Environment) -> Iterator[str]:
    """Ask every matchmaker for fixtures, evaluations and pools, every rule for changes, and the rating."""
    config, plugins, leagues = context.config, context.plugins, list(_leagues(context))
    rng, draws = (generator(config.run.seed, "check", name) for name in ("matchmaking", "fixtures"))
    for name, player in config.players.items():
        matchmaker = make_matchmaker(plugins, player)
        with wrap_answer_errors(f"matchmaker of player {name!r}"):
            pairing = checked_pairing(matchmaker.next_fixture(leagues[0], name, rng), leagues[0], environment.spec)
            drawn = [_drawn(matchmaker, name, league, environment.spec, draws) for league in leagues]
            _check_scenarios(chain.from_iterable(drawn), environment, config.run.seed)
            for league in leagues[1:]:
                _check_frozen(matchmaker, name, league)
        yield f"{name} would first play {', '.join(pairing.opponents) or 'alone'} ({pairing.reason})"
    evaluation = make_evaluation_matchmaker(plugins, config)
    if evaluation is not None:
        with wrap_answer_errors("matchmaker of the evaluation"):
            for league in leagues:
                checked_evaluation(evaluation.next_evaluation(league, rng), league)
    for chosen in config.league.rules:
        rule = make(chosen)
        with wrap_answer_errors(f"rule {chosen.name!r}"):
            first, *_ = [checked_changes(rule.decide(league, rng), league) for league in leagues]
        yield f"rule {chosen.name} would first change {', '.join(map(str, first)) or 'nothing'}"
    chosen = config.league.rating
    table = make(chosen, anchors=leagues[0].anchors, seats=environment.spec.seats)
    with wrap_answer_errors(f"rating {chosen.name!r}"):
        rating = checked_rating(table.rating(""))
    yield f"rating {chosen.name}: everybody is {rating.mean:.0f} ± {rating.deviation:.0f} at first"


def _drawn(
    matchmaker: Matchmaker, player: str, league: FakeLeague, spec: EnvironmentSpec, rng: np.random.Generator
) -> Iterator[Scenario]:
    """Return the scenarios of so many fixtures that one in fifty is hardly ever missed."""
    for _ in range(_FIXTURES):
        yield checked_pairing(matchmaker.next_fixture(league, player, rng), league, spec).scenario


def _check_frozen(matchmaker: Matchmaker, player: str, league: FakeLeague) -> None:
    """Ask for the changes that follow the first model of a player, which is in no pool yet."""
    pools = {name: () if name == player else view.models for name, view in league.players.items()}
    changes = matchmaker.on_model_frozen(evolve(league, pools=pools), player, league.players[player].models[-1])
    checked_pool_changes(changes, league)


def _check_scenarios(scenarios: Iterable[Scenario], environment: Environment, seed: int) -> None:
    """Start matches in scenarios, a few of each name and set of parameters."""
    kinds: dict[tuple[str, ...], list[Scenario]] = {}
    for scenario in scenarios:
        kinds.setdefault((scenario.name, *sorted(scenario.parameters)), []).append(scenario)
    for kind, found in kinds.items():
        if kind != ("default",):
            environment.reset(match_seeds(seed, np.arange(_MATCHES)), scenarios=list(islice(cycle(found), _MATCHES)))


def _check_processes(config: RunConfig) -> Iterator[str]:
    """Import the launcher and the metric sinks; only a run may start them."""
    chosen = (*config.metrics.sinks, *filter(None, [config.launcher]))
    for one in chosen:
        one.component.load_factory()
    yield ", ".join(f"{one.kind} {one.name}" for one in chosen) or "none"
