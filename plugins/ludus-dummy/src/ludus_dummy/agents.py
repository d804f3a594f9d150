"""A scripted agent: it plays ``dummy-count`` perfectly."""

from __future__ import annotations

import numpy as np
from ludus import EnvironmentSpec
from ludus.agent import RandomAgent
from ludus.environment import Leaves
from ludus.spaces import label_sizes

from ludus_dummy.config import PerfectConfig
from ludus_dummy.count import perfect_actions


class Perfect:
    """Plays ``dummy-count`` perfectly except for a share of random decisions."""

    def __init__(self, config: PerfectConfig, *, spec: EnvironmentSpec, role: str) -> None:
        space = spec.role(role).action_space
        self._most = label_sizes(space)[0]
        self._error_rate = config.error_rate
        self._random = RandomAgent(None, spec=spec, role=role)

    def act(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return ``[n, 1] int64``; see `ludus.agent.Agent`."""
        missing = observation["obs"].argmax(1)
        perfect = perfect_actions(missing, self._most)[:, None]
        random = self._random.act(observation, action_mask=action_mask, seat_ids=seat_ids, rng=rng)
        return np.where(rng.random((len(missing), 1)) < self._error_rate, random, perfect)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing: the agent is stateless."""
