"""Random play of a PettingZoo environment without ludus, which `ludus bench env` compares with the adapter."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from ludus_copies import SteppingOptions, random_action, wrap
from pettingzoo import AECEnv, ParallelEnv

from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_pettingzoo
from ludus_pettingzoo.stepped import with_stepping


def make_library(config: PettingZooConfig) -> ParallelMatch | AecMatch:
    """Make random play with the interface that the adapter uses, and with the same wrappers.

    Raises:
        ConfigError: The environment cannot be imported or made.
    """
    env = make_pettingzoo(config.id, config.options, api=config.api)
    env = with_stepping(env, SteppingOptions.of(config), id=config.id)
    env = wrap(env, config.wrappers, id=config.id, kinds=(AECEnv, ParallelEnv))
    kind = ParallelMatch if isinstance(env, ParallelEnv) else AecMatch
    return kind(env, config)


class _Match:
    """Matches of an environment, one after another.

    Args:
        env: The environment.
        config: Options of the adapter.
    """

    api = ""

    def __init__(self, env: Any, config: PettingZooConfig) -> None:
        self._env = env
        self._mask_key = config.mask_key
        self._rng = np.random.default_rng(0)
        self._seed = 0
        self.description = f"PettingZoo's {self.api} interface of {config.id} alone"

    def _choose(self, agent: Hashable, observation: Any, info: Any) -> Any:
        mask = observation.get(self._mask_key) if isinstance(observation, Mapping) else None
        mask = (info or {}).get(self._mask_key) if mask is None else mask
        return random_action(self._env.action_space(agent), mask, self._rng)

    def _next_seed(self) -> int:
        self._seed += 1
        return self._seed

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class ParallelMatch(_Match):
    """Matches through the Parallel interface."""

    api = "parallel"

    def __init__(self, env: Any, config: PettingZooConfig) -> None:
        super().__init__(env, config)
        self._actions: dict[Hashable, Any] = {}
        self._observations, self._infos = env.reset(seed=0)

    def choose(self) -> None:
        """Choose random actions of the living agents."""
        observations, infos = self._observations, self._infos
        self._actions = {
            agent: self._choose(agent, observations.get(agent), infos.get(agent)) for agent in self._env.agents
        }

    def advance(self) -> None:
        """Step the environment, and reset it where a match has ended."""
        self._observations, *_, self._infos = self._env.step(self._actions)
        if not self._env.agents:
            self._observations, self._infos = self._env.reset(seed=self._next_seed())


class AecMatch(_Match):
    """Matches through the AEC interface."""

    api = "AEC"

    def __init__(self, env: Any, config: PettingZooConfig) -> None:
        super().__init__(env, config)
        self._action: Any = None
        env.reset(seed=0)
        self._last = env.last()

    def choose(self) -> None:
        """Choose a random action of the selected agent."""
        observation, _, _, _, info = self._last
        self._action = self._choose(self._env.agent_selection, observation, info)

    def advance(self) -> None:
        """Step the environment to the next living agent, and reset it where a match has ended."""
        env = self._env
        env.step(self._action)
        while env.agents:
            self._last = env.last()
            _, _, terminated, truncated, _ = self._last
            if not (terminated or truncated):
                return
            env.step(None)
        env.reset(seed=self._next_seed())
        self._last = env.last()
