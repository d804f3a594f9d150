"""One match of a two-player Atari game, and the environment of many."""

from __future__ import annotations

from typing import ClassVar

import attrs
import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role, Scenario
from ludus_copies import Copies, MatchArrays, winner_points

from ludus_atari.config import AtariConfig
from ludus_atari.emulator import PLAYERS, Emulator
from ludus_atari.observations import TURNED_ACTIONS, Observer, is_turned, observation_space

ROLE = "player"
PARTS = ("result", "point_won", "point_lost")
_FRAMES_PER_S = 60
_RANDOM_FRAMES = 4  # frames for which a random action at the start is held


def make_environment(config: AtariConfig, *, num_matches: int) -> Copies:
    """Make `num_matches` matches.

    Raises:
        PluginError: The emulator or the ROMs are not installed.
        ConfigError: There is no such game for two players.
        WorkerError: A worker process could not make it.
    """
    options = attrs.asdict(config, filter=attrs.filters.exclude("workers"))
    return Copies("ludus_atari.game:make_game", options, num_matches=num_matches, workers=config.workers)


def make_game(**options: object) -> AtariGame:
    """Make one match; arguments as in `AtariConfig`.

    Raises:
        PluginError: The emulator or the ROMs are not installed.
        ConfigError: There is no such game for two players.
    """
    return AtariGame(AtariConfig(**options))  # type: ignore[arg-type]


def make_spec(config: AtariConfig, *, num_actions: int) -> EnvironmentSpec:
    """Return the spec of a game."""
    role = Role(
        name=ROLE,
        observation_space=observation_space(config),
        action_space=spaces.Discrete(num_actions),
        teams=tuple(range(PLAYERS)),
        statistics=("points",),
    )
    until = f"the first with {config.points} points wins, else" if config.points else "at the end"
    return EnvironmentSpec(
        name="atari",
        roles=(role,),
        turn="simultaneous",
        tick_s=config.frame_skip / _FRAMES_PER_S,
        max_ticks=config.max_ticks or None,
        zero_sum=config.point_won == config.point_lost,
        constant_sum=True,
        sparse_rewards=not (config.point_won or config.point_lost),
        outcome_rule=f"{until} the player with more points",
    )


class AtariGame:
    """One match, see `ludus_copies.ScalarGame`.

    Args:
        config: Options of the environment.
    """

    masked_roles: ClassVar[frozenset[str]] = frozenset()
    reward_parts: ClassVar[dict[str, tuple[str, ...]]] = {ROLE: PARTS}

    def __init__(self, config: AtariConfig) -> None:
        self._config = config
        self._emulator = Emulator(config.game)
        self._is_turned = is_turned(config)
        self.spec = make_spec(config, num_actions=self._emulator.num_actions)
        self._rng = np.random.default_rng(0)
        self._held = np.zeros(PLAYERS, np.int64)
        self._points = np.zeros(PLAYERS)
        self._ticks = 0

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        self._tick = arrays.tick
        self._player = arrays.tick.roles[ROLE]
        self._actions = arrays.actions[ROLE][:, 0]
        self._observer = Observer(self._config, self._emulator, self._player.observation)

    def reset(self, seed: int, scenario: Scenario) -> None:  # noqa: ARG002 - there is only the default
        """Start a match with a drawn number of frames of random actions."""
        self._rng = np.random.default_rng(seed)
        self._emulator.reset()
        frames = int(self._rng.integers(self._config.random_start + 1))
        for frame in range(frames):
            if frame % _RANDOM_FRAMES == 0:
                self._held = self._rng.integers(self._emulator.num_actions, size=PLAYERS)
            self._emulator.act(self._held)
        self._held = np.zeros(PLAYERS, np.int64)
        self._points[:] = 0
        self._ticks = 0
        self._observer.start()
        self._player.acting[:] = True

    def step(self) -> None:
        """Hold the actions of the players for the frames of a decision."""
        won = self._play_frames()
        self._points += won
        self._ticks += 1
        self._observer.write()
        self._player.statistics["points"][:] = self._points
        lead = self._config.points
        over = self._emulator.is_over or (lead > 0 and self._points.max() >= lead)
        if over or self._ticks == self._config.max_ticks:
            self._end(terminated=bool(over))
        else:
            self._player.acting[:] = True
        self._reward(won)

    def _play_frames(self) -> np.ndarray:
        """Advance by the frames of one decision, and return the points that each player won."""
        config, emulator = self._config, self._emulator
        actions, won = self._actions, np.zeros(PLAYERS)
        if self._is_turned:
            actions = np.array([actions[0], TURNED_ACTIONS[actions[1]]])
        for left in range(config.frame_skip, 0, -1):
            if config.sticky:
                sticks = self._rng.random(PLAYERS) < config.sticky
                self._held = np.where(sticks, self._held, actions)
            else:
                self._held = actions
            won += np.maximum(emulator.act(self._held), 0)
            if emulator.is_over:
                break
            if left == 2:
                self._observer.look()
        return won

    def _end(self, *, terminated: bool) -> None:
        self._tick.terminated[...] = terminated
        self._tick.truncated[...] = not terminated
        self._tick.outcome[:] = winner_points(self._points.tolist())

    def _reward(self, won: np.ndarray) -> None:
        config, parts = self._config, self._player.reward_parts
        parts["result"][:] = config.result * (2 * self._tick.outcome - 1) if self._tick.terminated else 0.0
        parts["point_won"][:] = config.point_won * won
        parts["point_lost"][:] = -config.point_lost * won[::-1]
        self._player.reward[:] = sum(parts[name] for name in PARTS)

    def render_frame(self) -> np.ndarray:
        """Return the screen, ``[210, 160, 3] uint8``."""
        return self._emulator.colours()

    def close(self) -> None:
        """Close the emulator."""
        self._emulator.close()
