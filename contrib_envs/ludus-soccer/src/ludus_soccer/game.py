"""One match of soccer, and the environment of many."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role, Scenario
from ludus.rendering import Scene
from ludus_copies import Copies, MatchArrays, fold_seed, winner_points

from ludus_soccer.config import SoccerConfig
from ludus_soccer.scene import draw_scene
from ludus_soccer.simulation import Moment, Simulation

ROLE = "player"
PARTS = ("goal", "conceded", "to_ball", "ball_to_goal")
STATISTICS_LEAF = "stats"


def make_environment(config: SoccerConfig, *, num_matches: int) -> Copies:
    """Make `num_matches` matches.

    Raises:
        PluginError: dm_control is not installed, or cannot be used with the installed MuJoCo.
        WorkerError: A worker process could not make it.
    """
    options = attrs.asdict(config, filter=attrs.filters.exclude("workers"))
    return Copies("ludus_soccer.game:make_game", options, num_matches=num_matches, workers=config.workers)


def make_game(**options: Any) -> SoccerGame:
    """Make one match; arguments as in `SoccerConfig`.

    Raises:
        PluginError: dm_control is not installed, or cannot be used with the installed MuJoCo.
    """
    return SoccerGame(SoccerConfig(**options))


def _box(size: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


def make_spec(config: SoccerConfig, simulation: Simulation) -> EnvironmentSpec:
    """Return the spec of the game."""
    sizes = simulation.sizes
    observed: spaces.Space[Any] = _box(sum(sizes.values()))
    if config.observation == "dict":
        observed = spaces.Dict({name: _box(size) for name, size in sizes.items()})
    role = Role(
        name=ROLE,
        observation_space=observed,
        action_space=spaces.Box(-1.0, 1.0, (simulation.num_actions,), np.float32),
        teams=(0,) * config.team_size + (1,) * config.team_size,
        privileged_space=spaces.Dict({STATISTICS_LEAF: _box(len(simulation.statistics))}),
        statistics=("goals",),
        guidance=("to_ball", "ball_to_goal"),
        seat_names=tuple(f"{team}_{index}" for team in ("home", "away") for index in range(config.team_size)),
    )
    return EnvironmentSpec(
        name="soccer",
        roles=(role,),
        turn="simultaneous",
        tick_s=simulation.tick_s,
        max_ticks=round(config.time_limit_s / simulation.tick_s) + 1,
        constant_sum=True,
        outcome_rule=f"the first team with {config.goals} goals wins, else the team with more goals",
    )


class SoccerGame:
    """One match, see `ludus_copies.ScalarGame`.

    Args:
        config: Options of the environment.
    """

    masked_roles: ClassVar[frozenset[str]] = frozenset()
    reward_parts: ClassVar[dict[str, tuple[str, ...]]] = {ROLE: PARTS}

    def __init__(self, config: SoccerConfig) -> None:
        self._config = config
        self._simulation = Simulation(config)
        self.spec = make_spec(config, self._simulation)
        self._team = np.array(self.spec.roles[0].teams)
        names = self._simulation.statistics
        self._to_ball, self._ball_to_goal = names.index("stats_vel_to_ball"), names.index("stats_vel_ball_to_goal")
        self._goals = np.zeros(2)

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        self._tick = arrays.tick
        self._player = arrays.tick.roles[ROLE]
        self._actions = arrays.actions[ROLE]

    def reset(self, seed: int, scenario: Scenario) -> None:  # noqa: ARG002 - there is only the default
        """Start a match."""
        self._goals[:] = 0
        self._observe(self._simulation.reset(fold_seed(seed)))
        self._player.acting[:] = True

    def step(self) -> None:
        """Advance by one decision of all players."""
        moment = self._simulation.step(self._actions)
        self._observe(moment)
        if moment.scorer >= 0:
            self._goals[moment.scorer] += 1
        self._reward(moment)
        self._player.statistics["goals"][:] = self._goals[self._team]
        won = self._goals.max() >= self._config.goals
        if won or moment.is_over:
            self._tick.terminated[...] = won or not moment.is_cut
            self._tick.truncated[...] = not self._tick.terminated
            self._tick.outcome[:] = winner_points(self._goals.tolist())
        else:
            self._player.acting[:] = True

    def _observe(self, moment: Moment) -> None:
        leaves = self._player.observation
        for seat, seen in enumerate(moment.observations):
            if self._config.observation == "dict":
                for name, leaf in leaves.items():
                    leaf[seat] = np.ravel(seen[name])
            else:
                np.concatenate([np.ravel(seen[name]) for name in self._simulation.sizes], out=leaves["obs"][seat])
        self._player.privileged[STATISTICS_LEAF][:] = moment.statistics

    def _reward(self, moment: Moment) -> None:
        config, parts, tick_s = self._config, self._player.reward_parts, self._simulation.tick_s
        if moment.scorer >= 0:
            scored = self._team == moment.scorer
            parts["goal"][:] = config.goal * scored
            parts["conceded"][:] = -config.conceded * ~scored
        parts["to_ball"][:] = config.to_ball * tick_s * moment.statistics[:, self._to_ball]
        parts["ball_to_goal"][:] = config.ball_to_goal * tick_s * moment.statistics[:, self._ball_to_goal]
        self._player.reward[:] = sum(parts[name] for name in PARTS)

    def render_frame(self) -> Scene:
        """Return the field from above."""
        return draw_scene(self._simulation.place(), self._team, self._goals)

    def close(self) -> None:
        """Free the simulation."""
        self._simulation.close()
