"""Random play of a Gymnasium environment without ludus, which `ludus bench env` compares with the adapter."""

from __future__ import annotations

from typing import Any

import numpy as np
from ludus_copies import random_action

from ludus_gymnasium.config import GymnasiumConfig
from ludus_gymnasium.environment import make_wrapped


def make_library(config: GymnasiumConfig) -> LibraryMatch:
    """Make random play with the same options and wrappers as in the adapter.

    Raises:
        ConfigError: The environment or a wrapper cannot be found or made.
    """
    env, _ = make_wrapped(config)
    return LibraryMatch(env, config)


class LibraryMatch:
    """Matches of an environment, one after another.

    Args:
        env: The environment.
        config: Options of the adapter.
    """

    def __init__(self, env: Any, config: GymnasiumConfig) -> None:
        self._env = env
        self._mask_key = config.mask_key
        self._rng = np.random.default_rng(0)
        self._seed = 0
        self._action: Any = None
        self._observation, self._info = env.reset(seed=0)
        self.description = f"gymnasium.make({config.id!r}) alone"

    def choose(self) -> None:
        """Choose a random action."""
        observation = self._observation
        mask = observation.get(self._mask_key) if isinstance(observation, dict) else None
        mask = (self._info or {}).get(self._mask_key) if mask is None else mask
        self._action = random_action(self._env.action_space, mask, self._rng)

    def advance(self) -> None:
        """Step the environment, and reset it where a match has ended."""
        self._observation, _, terminated, truncated, self._info = self._env.step(self._action)
        if terminated or truncated:
            self._seed += 1
            self._observation, self._info = self._env.reset(seed=self._seed)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()
