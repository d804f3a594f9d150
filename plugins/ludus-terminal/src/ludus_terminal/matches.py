"""Matches that commands play in this process: their environment, participants and loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from attrs import define, field, frozen
from ludus import load_plugins
from ludus.agent import builtin_bots, elapse
from ludus.environment import Scenario, Seat
from ludus.errors import ConfigError, RunError
from ludus.handicap import split_settings
from ludus.installed import Game, open_game
from ludus.levels import WeakenedSource, is_level
from ludus.lineup import Source, split_place
from ludus.rendering import enable_rendering
from ludus.runs import Run, match_seeds, open_run
from ludus.spaces import action_dtype, action_width

if TYPE_CHECKING:
    from ludus.agent import Agent
    from ludus.environment import Environment, EnvironmentSpec, RoleTick, Tick

__all__ = ["MatchRunner", "OpenMatch", "Result", "agents_for", "agents_text", "match_options", "open_match"]


_MATCH_SEED = click.IntRange(0, 2**64 - 1)  # the seeds of the match log have 64 bits


@frozen(kw_only=True)
class OpenMatch:
    """An environment of one match, and the source of its participants.

    Args:
        environment: The environment.
        source: Finds participants and makes their agents.
    """

    environment: Environment
    source: Source

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the environment's spec."""
        return self.environment.spec

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()


@frozen(eq=False)
class Result:
    """How a match ended.

    Args:
        outcome: ``[teams] float32``.
        returns: ``[seats]``: sums of rewards.
    """

    outcome: np.ndarray
    returns: np.ndarray


def _rewards(tick: Tick) -> np.ndarray:
    """Return the rewards ``[seats]`` of the only match on a tick."""
    return np.concatenate([role.reward[0] for role in tick.roles.values()]).astype(np.float64)


@define(kw_only=True)
class MatchRunner:
    """Plays matches.

    Args:
        match: The match.
        agents: One agent per seat, in the order of the environment.
        rng: Random generator of the agents.
        on_tick: Called after the reset and after every tick.
    """

    match: OpenMatch
    agents: Sequence[Agent]
    rng: np.random.Generator
    on_tick: Callable[[], None] = lambda: None
    _actions: dict[str, np.ndarray] = field(init=False)
    _elapsed: np.ndarray = field(init=False)  # [seats] ticks since the seat's last decision

    def __attrs_post_init__(self) -> None:
        self._actions = {
            role.name: np.zeros((1, role.num_seats, action_width(role.action_space)), action_dtype(role.action_space))
            for role in self.match.spec.roles
        }

    def play(self, seed: int) -> Result:
        """Play to the end and return the result."""
        environment = self.match.environment
        start = Scenario(builtin=builtin_bots(self.agents))
        tick = environment.reset(match_seeds(seed, np.array([0])), scenarios=[start])
        for seat_id, agent in enumerate(self.agents):
            agent.reset(np.array([seat_id]))
        self._elapsed = np.zeros(len(self.agents), np.int64)
        self.on_tick()
        rewards = _rewards(tick)
        while not (tick.terminated[0] or tick.truncated[0]):
            self._decide(tick)
            tick = environment.step(self._actions)
            self._elapsed += 1
            rewards = rewards + _rewards(tick)
            self.on_tick()
        return Result(np.array(tick.outcome[0]), rewards)

    def _decide(self, tick: Tick) -> None:
        for seat_id, seat in enumerate(self.match.spec.seats):
            role_tick = tick.roles[seat.role]
            if role_tick.acting[0, seat.index]:
                self._actions[seat.role][0, seat.index] = self._action(seat_id, seat, role_tick)[0]

    def _action(self, seat_id: int, seat: Seat, role_tick: RoleTick) -> np.ndarray:
        mask, agent = role_tick.action_mask, self.agents[seat_id]
        elapse(agent, self._elapsed[[seat_id]], np.array([seat_id]))
        self._elapsed[seat_id] = 0
        return agent.act(
            {name: leaf[:1, seat.index] for name, leaf in role_tick.observation.items()},
            action_mask=None if mask is None else mask[:1, seat.index],
            seat_ids=np.array([seat_id]),
            rng=self.rng,
        )


def open_match(
    target: str | None,
    environment: str | None,
    *,
    participants: Sequence[str],
    overrides: Sequence[str],
    rendering: bool = False,
) -> OpenMatch:
    """Prepare one match of a run, or of an environment without a run.

    Args:
        target: A run folder; None to play without a run.
        environment: Name of the environment; None with a run.
        participants: Participants that will play, see `ludus.lineup`; without a run these are agents.
        overrides: Overrides of the run's configuration; without a run, options as ``name.option=value``.
        rendering: Whether the environment will be asked for frames, see `ludus.rendering`.

    Raises:
        ConfigError: Names or options are wrong.
        RunError: The run folder cannot be used.
    """
    if (target is None) == (environment is None):
        raise ConfigError("give a run folder, or --env NAME to play without one")
    with enable_rendering() if rendering else nullcontext():
        if target is None:
            names = dict.fromkeys(split_place(text)[1] for text in participants)
            agents = dict.fromkeys(split_settings(name)[0] for name in names if not is_level(name))
            return _open_source(open_game(str(environment), list(agents), overrides=overrides), None)
        if not (Path(target) / "run.toml").is_file():
            raise RunError(f"{target} is not a run folder: it has no run.toml — to play without a run, use --env NAME")
        with open_run(target, overrides=overrides) as run:  # closed before the match, which may take long
            return _open_source(run, run.folder)


def _open_source(source: Run | Game, run_dir: Path | None) -> OpenMatch:
    environment = source.make_environment(1)
    environment.reset(match_seeds(0, np.array([0])))  # some environments know their spaces only after the first reset
    return OpenMatch(environment=environment, source=WeakenedSource(source, run_dir))


def match_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments and options of both commands."""
    options = [
        click.argument("target", metavar="[RUN]", required=False),
        click.option("--env", "environment", metavar="NAME", help="Play this environment without a run."),
        click.option("--seed", type=_MATCH_SEED, help="Seed of the first match; random if not given."),
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


def agents_for(environment: str) -> list[str]:
    """Return the installed agents that play an environment.

    Raises:
        UnknownComponent: There is no such environment.
    """
    plugins = load_plugins()
    plugins.get("environment", environment)
    agents = plugins.components("agent").items()
    return [name for name, agent in agents if not agent.environments or environment in agent.environments]


def agents_text(environment: str) -> str:
    """Return a line with the installed agents that play an environment."""
    return f"agents that play {environment}: {', '.join(agents_for(environment)) or 'none is installed'}"
