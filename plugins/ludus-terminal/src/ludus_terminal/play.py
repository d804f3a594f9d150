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
from ludus.agent import builtin_bots
from ludus.cli_types import FiniteRange
from ludus.environment import Playable, Scenario, Seat
from ludus.errors import ConfigError, ContractError, RunError
from ludus.installed import Game, open_game
from ludus.lineup import Lineup, Source, make_agents, make_lineup, parse_place
from ludus.runs import Run, match_seeds, open_run
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
    """An environment of one match, and the source of its participants.

    Args:
        environment: The environment, which is playable in a terminal.
        game: The same object.
        source: Finds participants and makes their agents.
    """

    environment: Environment
    game: Playable
    source: Source

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
        start = Scenario(builtin=builtin_bots(self.agents))
        tick = environment.reset(match_seeds(seed, np.array([0])), scenarios=[start])
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
    target: str | None, environment: str | None, *, participants: Sequence[str], overrides: Sequence[str]
) -> TerminalMatch:
    """Prepare one match of a run, or of an environment without a run.

    Args:
        target: A run folder; None to play without a run.
        environment: Name of the environment; None with a run.
        participants: Participants that will play, see `ludus.lineup`; without a run these are agents.
        overrides: Overrides of the run's configuration; without a run, options as ``name.option=value``.

    Raises:
        ConfigError: Names or options are wrong.
        RunError: The run folder cannot be used.
        ContractError: The environment cannot be shown in a terminal.
    """
    if (target is None) == (environment is None):
        raise ConfigError("give a run folder, or --env NAME to play without one")
    if target is None:
        agents = dict.fromkeys(text.rpartition("=")[2] for text in participants)
        return _open_source(open_game(str(environment), list(agents), overrides=overrides), str(environment))
    if not (Path(target) / "run.toml").is_file():
        raise RunError(f"{target} is not a run folder: it has no run.toml — to play without a run, use --env NAME")
    with open_run(target, overrides=overrides) as run:  # closed before the match, which may take long
        return _open_source(run, run.config.environment.name)


def _open_source(source: Run | Game, name: str) -> TerminalMatch:
    environment = source.make_environment(1)
    if not isinstance(environment, Playable):
        environment.close()
        raise ContractError(
            f"environment {name!r} cannot be played in a terminal: it lacks render, action_name, parse_action"
        )
    environment.reset(match_seeds(0, np.array([0])))  # some environments know their spaces only after the first reset
    return TerminalMatch(environment=environment, game=environment, source=source)


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
    "--opponent",
    "opponents",
    metavar="NAME",
    multiple=True,
    help="Participant of other seats, also as ROLE=NAME or SEAT=NAME; may be repeated. Seats without one get the "
    "newest model of their role, or an anchor.",
)
@click.option("--seat", default="0", show_default=True, help="Your seat, or a role to take its first seat.")
def play(
    target: str | None,
    environment: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    opponents: tuple[str, ...],
    seat: str,
) -> None:
    """Play against models of the run folder RUN, or against scripted agents."""
    if environment is not None and not opponents:
        raise ConfigError(f"--opponent: missing; {_agents_text(environment)}")
    with closing(open_match(target, environment, participants=opponents, overrides=overrides)) as match:
        number = _user_seat(match.spec, seat)
        own = match.spec.seats[number]
        lineup = make_lineup(match.spec, opponents, match.source, user_seat=number)
        user = _User(match.game, match.spec.role(own.role))
        (agents,) = make_agents([lineup], match.source, match.environment, user=user)
        seed = secrets.randbits(32) if seed is None else seed
        if mates := lineup.mates():
            click.echo(f"your team mates: {', '.join(mates)}")
        click.echo(f"you: seat {number} ({own.role}); opponent: {', '.join(lineup.opponents()) or 'none'}; seed {seed}")
        try:
            outcome = _MatchRunner(match=match, agents=agents, rng=np.random.default_rng(seed)).play(seed)
        except Quit:
            click.echo("bye")
            return
        click.echo(match.game.render(0))
        points = float(outcome[own.team])
        click.echo({1.0: "you won", 0.5: "a draw", 0.0: "you lost"}.get(points, f"you have {points:g} points"))


def _user_seat(spec: EnvironmentSpec, text: str) -> int:
    """Return the number of the seat that a text names: a seat, or the first seat of a role."""
    try:
        role, number = parse_place(spec, text)
    except ConfigError as error:
        raise click.BadParameter(str(error), param_hint="--seat") from None
    first = next(i for i, seat in enumerate(spec.seats) if seat.role == role)
    return first if number is None else number


@click.command()
@_common_options
@click.argument("participants", metavar="[PARTICIPANTS]...", nargs=-1)
@click.option("--seats", "pair", metavar="A B", nargs=2, help="Two participants; the same as PARTICIPANTS.")
@click.option("--delay", type=FiniteRange(0, 3600), default=0.5, show_default=True, help="Seconds between ticks.")
@click.option("--matches", type=click.IntRange(min=1), default=1, show_default=True, help="Number of matches.")
def watch(
    target: str | None,
    environment: str | None,
    seed: int | None,
    overrides: tuple[str, ...],
    participants: tuple[str, ...],
    pair: tuple[str, str] | None,
    delay: float,
    matches: int,
) -> None:
    """Watch participants of the run folder RUN, or scripted agents.

    PARTICIPANTS are models, anchors and agents in any order; ROLE=NAME and SEAT=NAME choose seats. Seats that are not
    named get the other participants, or the newest model of their role, or an anchor.
    """
    if environment is not None and target is not None:  # without a run the first argument is a participant
        participants = (target, *participants)
        target = None
    names = (*(pair or ()), *participants)
    if environment is not None and not names:
        raise ConfigError(f"--seats: missing; {_agents_text(environment)}")
    with closing(open_match(target, environment, participants=names, overrides=overrides)) as match:
        lineup = make_lineup(match.spec, names, match.source)
        (agents,) = make_agents([lineup], match.source, match.environment)
        seed = secrets.randbits(32) if seed is None else seed
        click.echo(f"{lineup.describe()}; seed {seed}")
        if names and (filled := lineup.describe_filled()):
            click.echo(filled)
        rng = np.random.default_rng(seed)
        runner = _MatchRunner(match=match, agents=agents, rng=rng, on_tick=lambda: _show(match, delay))
        _play_and_count(runner, lineup, seed=seed, matches=matches)


def _play_and_count(runner: _MatchRunner, lineup: Lineup, *, seed: int, matches: int) -> None:
    """Play matches, and print the points of every participant."""
    total = np.zeros(len(lineup.names))
    for number in range(matches):
        outcome = runner.play(seed + number)
        points = np.array([outcome[lineup.teams_of(index)].sum() for index in range(len(lineup.names))])
        total += points
        click.echo(f"match {number + 1}: {_points_text(lineup.names, points)}")
    if matches > 1:
        click.echo(f"total: {_points_text(lineup.names, total)}")


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


def _agents_text(environment: str) -> str:
    return f"agents that play {environment}: {', '.join(agents_for(environment)) or 'none is installed'}"


def _show(match: TerminalMatch, delay: float) -> None:
    if sys.stdout.isatty():
        click.clear()
    click.echo(match.game.render(0) + "\n")
    time.sleep(delay)
