"""The simulation of one match by dm_control."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from ludus.errors import PluginError

from ludus_soccer.config import SoccerConfig
from ludus_soccer.scene import Placement

_PHYSICS_S = 0.005
_STATISTICS = "stats_"
_INSTALL = 'pip install "ludus-soccer[game]"'


def load_library() -> Any:
    """Import dm_control's soccer without a graphics library, which only its own renderer needs.

    Raises:
        PluginError: It is not installed, or with a version of MuJoCo that it cannot use.
    """
    os.environ.setdefault("MUJOCO_GL", "disabled")
    try:
        return importlib.import_module("dm_control.locomotion.soccer")
    except (ImportError, AttributeError) as error:  # the latter: MuJoCo 4
        raise PluginError(f"dm_control's soccer cannot be imported: {error}; {_INSTALL} installs what fits") from error


@frozen
class Moment:
    """What a simulation returns at a time.

    Attributes:
        observations: By player, home team first: arrays by dm_control's names, without statistics.
        statistics: ``[players, n] float64``: dm_control's statistics, in the order of `Simulation.statistics`.
        scorer: Team that has scored since the moment before; -1: none.
        is_over: Whether the match has ended.
        is_cut: Whether it has ended by its time.
    """

    observations: Sequence[Mapping[str, np.ndarray]]
    statistics: np.ndarray
    scorer: int
    is_over: bool
    is_cut: bool


class Simulation:
    """A field with two teams.

    Args:
        config: Options of the environment.

    Attributes:
        sizes: Number of values by name of an observation, in alphabetical order.
        statistics: Names of dm_control's statistics.
        num_actions: Dimension of an action, each in [-1, 1].
    """

    def __init__(self, config: SoccerConfig) -> None:
        soccer = load_library()
        self._env = soccer.load(
            team_size=config.team_size,
            walker_type=soccer.WalkerType[config.walker.upper()],
            time_limit=config.time_limit_s,
            terminate_on_goal=config.goals == 1,
            disable_walker_contacts=not config.contacts,
            enable_field_box=config.field_box,
            random_state=0,
        )
        steps = max(1, round(config.decision_s / _PHYSICS_S))
        self._env.task.set_timesteps(control_timestep=steps * _PHYSICS_S, physics_timestep=_PHYSICS_S)
        self.tick_s = steps * _PHYSICS_S
        spec = self._env.observation_spec()[0]
        names = sorted(spec)
        self.sizes = {name: int(np.prod(spec[name].shape)) for name in names if not name.startswith(_STATISTICS)}
        self.statistics = tuple(name for name in names if name.startswith(_STATISTICS))
        self.num_actions = int(self._env.action_spec()[0].shape[0])
        self._is_closed = False

    def reset(self, seed: int) -> Moment:
        """Start a match; the seed draws the size of the field and all positions."""
        self._env.random_state.seed(seed)
        return self._moment(self._env.reset())

    def step(self, actions: np.ndarray) -> Moment:
        """Advance by one decision.

        Args:
            actions: ``[players, num_actions] float32``.
        """
        return self._moment(self._env.step(list(actions.astype(np.float64))))

    def _moment(self, step: Any) -> Moment:
        rewards = step.reward or [0.0]
        scorer = -1 if not rewards[0] else int(rewards[0] < 0)
        return Moment(
            observations=step.observation,
            statistics=np.array([[np.ravel(one[name])[0] for name in self.statistics] for one in step.observation]),
            scorer=scorer,
            is_over=step.last(),
            is_cut=step.last() and step.discount != 0,
        )

    def place(self) -> Placement:
        """Return where the ball and the players are."""
        physics, task = self._env.physics, self._env.task
        arena = task.arena
        bodies = [physics.bind(player.walker.root_body) for player in task.players]
        goals = [(goal.lower[:2], goal.upper[:2]) for goal in (arena.home_goal, arena.away_goal)]
        return Placement(
            half_size=np.array(arena.size, np.float64),
            goals=np.array(goals, np.float64),
            ball=np.array(task.ball.get_pose(physics)[0][:2]),
            players=np.array([body.xpos[:2] for body in bodies]),
            headings=np.array([body.xmat[[0, 3]] for body in bodies]),  # x axis of the body, seen from above
        )

    def close(self) -> None:
        """Free the simulation; closing twice is harmless."""
        if not self._is_closed:
            self._is_closed = True
            self._env.close()
