"""``ludus play`` and ``ludus watch``: play a match in the terminal, or watch one."""

from __future__ import annotations

import itertools
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from attrs import define, field, frozen
from ludus import load_plugins
from ludus.cli_types import FiniteRange
from ludus.environment import Playable, Seat
from ludus.errors import ConfigError, ContractError, RunError
from ludus.runs import Game, Run, match_seeds, open_game, open_run
from ludus.spaces import action_dtype, action_width, label_sizes, legal_actions

from ludus_terminal.evaluate import SEED

if TYPE_CHECKING:
    from ludus.agent import Agent
    from ludus.environment import Environment, EnvironmentSpec, Role, RoleTick, Tick

__all__ = ["Quit", "TerminalMatch", "agents_for", "open_match", "play", "watch"]

_MAX_LISTED = 60  # legal moves listed before the user's turn


class Quit(Exception):  # noqa: N818 - not an error
    """The user quits the match."""


@frozen(kw_only=True)
class TerminalMatch:
    """An environment of one match, and a function that makes agents for its seats.

    Args:
        environment: The environment, which is playable in a terminal.
        game: The same object.
        resolve: Makes the agent of a participant for a role.
        default: Participant that plays if none is named; empty if there is none.
    """

    environment: Environment
    game: Playable
    resolve: Callable[[str, str], Agent]
    default: str = ""

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the environment's spec."""
        return self.environment.spec

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()


@define
class _User:
    """An agent that reads its actions from the terminal."""

    game: Playable
    role: Role

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing: there is no state."""

    def act(
        self,
        observation: Mapping[str, np.ndarray],  # noqa: ARG002 - users read the rendered board
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,  # noqa: ARG002 - there is one match
        rng: np.random.Generator,  # noqa: ARG002 - users need none
    ) -> np.ndarray:
        """Return the typed action ``[1, L]``; repeat the prompt until the action is legal.

        Raises:
            Quit: The user typed ``quit``, or the input ended.
        """
        mask = None if action_mask is None else action_mask[0]
        click.echo(self.game.render(0))
        click.echo(f"legal moves: {self._list_actions(mask)}")
        while True:
            text = _read_line("your move (or quit): ")
            try:
                action = np.asarray(self.game.parse_action(self.role.name, text))
            except ValueError as error:
                click.echo(str(error))
                continue
            if legal_actions(self.role.action_space, action, mask):
                return action[None]
            name = self.game.action_name(self.role.name, action)
            click.echo(f"{name} is not legal now; legal: {self._list_actions(mask)}")

    def _list_actions(self, mask: np.ndarray | None) -> str:
        sizes = label_sizes(self.role.action_space)
        if not sizes:
            return f"any {self.role.name} action"
        labels = [np.ones(size, bool) for size in sizes] if mask is None else np.split(mask, np.cumsum(sizes)[:-1])
        choices = itertools.product(*(np.flatnonzero(label) for label in labels))
        first = itertools.islice(choices, _MAX_LISTED)
        shown = [self.game.action_name(self.role.name, np.array(choice)) for choice in first]
        separator = ", " if any(" " in name for name in shown) else " "
        return separator.join([*shown, *(["…"] if next(choices, None) is not None else [])])


def _read_line(prompt: str) -> str:
    while True:
        try:
            text = input(prompt).strip()
        except EOFError:
            click.echo()
            raise Quit from None
        if text.lower() in {"quit", "exit"}:
            raise Quit
        if text:
            return text


@define(kw_only=True)
class _MatchRunner:
    """Plays matches.

    Args:
        match: The match.
        agents: One agent per seat, in the order of the environment.
        rng: Random generator of the agents.
        on_tick: Called after every tick.
    """

    match: TerminalMatch
    agents: Sequence[Agent]
    rng: np.random.Generator
    on_tick: Callable[[], None] = lambda: None
    _actions: dict[str, np.ndarray] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._actions = {
            role.name: np.zeros((1, role.num_seats, action_width(role.action_space)), action_dtype(role.action_space))
            for role in self.match.spec.roles
        }

    def play(self, seed: int) -> np.ndarray:
        """Play to the end and return the outcome ``[teams] float32``."""
        environment = self.match.environment
        tick = environment.reset(match_seeds(seed, np.array([0])))
        for seat_id, agent in enumerate(self.agents):
            agent.reset(np.array([seat_id]))
        self.on_tick()
        while not (tick.terminated[0] or tick.truncated[0]):
            self._decide(tick)
            tick = environment.step(self._actions)
            self.on_tick()
        return np.array(tick.outcome[0])

    def _decide(self, tick: Tick) -> None:
        for seat_id, seat in enumerate(self.match.spec.seats):
            role_tick = tick.roles[seat.role]
            if role_tick.acting[0, seat.index]:
                self._actions[seat.role][0, seat.index] = self._action(seat_id, seat, role_tick)[0]

    def _action(self, seat_id: int, seat: Seat, role_tick: RoleTick) -> np.ndarray:
        mask = role_tick.action_mask
        return self.agents[seat_id].act(
            {name: leaf[:1, seat.index] for name, leaf in role_tick.observation.items()},
            action_mask=None if mask is None else mask[:1, seat.index],
            seat_ids=np.array([seat_id]),
            rng=self.rng,
        )


def open_match(
    target: str | None, environment: str | None, *, bots: Sequence[str], overrides: Sequence[str]
) -> TerminalMatch:
    """Prepare one match of a run, or of an environment without a run.

    Args:
        target: A run folder; None to play without a run.
        environment: Name of the environment; None with a run.
        bots: Names of the agents that play without a run.
        overrides: Overrides of the run's configuration; without a run, options as ``name.option=value``.

    Raises:
        ConfigError: Names or options are wrong.
        RunError: The run folder cannot be used.
        ContractError: The environment cannot be shown in a terminal.
    """
    if (target is None) == (environment is None):
        raise ConfigError("give a run folder, or --env NAME to play without one")
    if target is None:
        return _open_source(open_game(str(environment), bots, overrides=overrides), str(environment))
    if not (Path(target) / "run.toml").is_file():
        raise RunError(f"{target} is not a run folder: it has no run.toml — to play without a run, use --env NAME")
    with open_run(target, overrides=overrides) as run:  # closed before the match, which may take long
        return _open_source(run, run.config.environment.name, default=f"{next(iter(run.config.players))}@latest")


def _open_source(source: Run | Game, name: str, *, default: str = "") -> TerminalMatch:
    environment = source.make_environment(1)
    if not isinstance(environment, Playable):
        environment.close()
        raise ContractError(
            f"environment {name!r} cannot be played in a terminal: it lacks render, action_name, parse_action"
        )
    environment.reset(match_seeds(0, np.array([0])))  # some environments know their spaces only after the first reset
    return TerminalMatch(
        environment=environment,
        game=environment,
        resolve=lambda participant, role: source.agent(participant, role, environment=environment),
        default=default,
    )


def _common_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments and options of both commands."""
    options = [
        click.argument("target", metavar="[RUN]", required=False),
        click.option("--env", "environment", metavar="NAME", help="Play this environment without a run."),
        click.option("--seed", type=SEED, help="Seed of the first match; random if not given."),
        click.option(
            "--set",
            "overrides",
            metavar="KEY=VALUE",
            multiple=True,
            help="Replace one value of the run, or with --env one option as NAME.OPTION=VALUE, where NAME is the "
            "environment or an agent; may be repeated.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@_common_options
@click.option(
    "--opponent", metavar="NAME", help="Participant of the other seats; default: the newest model of the run."
)
@click.option("--seat", type=int, default=0, show_default=True, help="Your seat.")
def play(
    target: str | None,
    environment: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    opponent: str | None,
    seat: int,
) -> None:
    """Play against a model of the run folder RUN, or against a scripted agent."""
    if environment is not None and opponent is None:
        raise ConfigError(f"--opponent: missing; {_bots_text(environment)}")
    bots = () if opponent is None else (opponent,)
    with closing(open_match(target, environment, bots=bots, overrides=overrides)) as match:
        seats = match.spec.seats
        if not 0 <= seat < len(seats):
            raise click.BadParameter(f"expected 0 to {len(seats) - 1}, got {seat}", param_hint="--seat")
        user = _User(match.game, match.spec.role(seats[seat].role))
        opponent_name = opponent or match.default
        agents = [user if i == seat else match.resolve(opponent_name, other.role) for i, other in enumerate(seats)]
        seed = secrets.randbits(32) if seed is None else seed
        click.echo(f"you: seat {seat} ({seats[seat].role}); opponent: {opponent_name}; seed {seed}")
        try:
            outcome = _MatchRunner(match=match, agents=agents, rng=np.random.default_rng(seed)).play(seed)
        except Quit:
            click.echo("bye")
            return
        click.echo(match.game.render(0))
        points = float(outcome[seats[seat].team])
        click.echo({1.0: "you won", 0.5: "a draw", 0.0: "you lost"}.get(points, f"you have {points:g} points"))


@click.command()
@_common_options
@click.option(
    "--seats", "names", metavar="A B", nargs=2, help="The two participants; they alternate if there are more teams."
)
@click.option("--delay", type=FiniteRange(0, 3600), default=0.5, show_default=True, help="Seconds between ticks.")
@click.option("--matches", type=click.IntRange(min=1), default=1, show_default=True, help="Number of matches.")
def watch(
    target: str | None,
    environment: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    names: tuple[str, str] | None,
    delay: float,
    matches: int,
) -> None:
    """Watch two participants of the run folder RUN, or two scripted agents."""
    if environment is not None and names is None:
        raise ConfigError(f"--seats: missing; {_bots_text(environment)}")
    with closing(open_match(target, environment, bots=names or (), overrides=overrides)) as match:
        participants = names or (match.default, match.default)
        agents = [match.resolve(participants[seat.team % 2], seat.role) for seat in match.spec.seats]
        seed = secrets.randbits(32) if seed is None else seed
        click.echo(f"{participants[0]} against {participants[1]}; seed {seed}")
        rng = np.random.default_rng(seed)
        runner = _MatchRunner(match=match, agents=agents, rng=rng, on_tick=lambda: _show(match, delay))
        total = np.zeros(2)
        for number in range(matches):
            outcome = runner.play(seed + number)
            points = np.array([outcome[0::2].sum(), outcome[1::2].sum()])
            total += points
            click.echo(f"match {number + 1}: {_points_text(participants, points)}")
        if matches > 1:
            click.echo(f"total: {_points_text(participants, total)}")


def _points_text(names: Sequence[str], points: np.ndarray) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in zip(names, points, strict=True))


def agents_for(environment: str) -> list[str]:
    """Return the installed agents that play an environment.

    Raises:
        UnknownComponent: There is no such environment.
    """
    plugins = load_plugins()
    plugins.get("environment", environment)
    agents = plugins.components("agent").items()
    return [name for name, agent in agents if not agent.environments or environment in agent.environments]


def _bots_text(environment: str) -> str:
    return f"agents that play {environment}: {', '.join(agents_for(environment)) or 'none is installed'}"


def _show(match: TerminalMatch, delay: float) -> None:
    if sys.stdout.isatty():
        click.clear()
    click.echo(match.game.render(0) + "\n")
    time.sleep(delay)
