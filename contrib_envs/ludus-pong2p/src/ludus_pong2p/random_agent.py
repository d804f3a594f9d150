"""An opponent that moves at random."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves

from ludus_pong2p.config import RandomConfig
from ludus_pong2p.memory import Memory

__all__ = ["RandomAgent"]


class RandomAgent:
    """Chooses an action uniformly, and again after a random time.

    Args:
        config: Its options.
        spec: The environment's.
        role: Whose seats it fills.
    """

    def __init__(self, config: RandomConfig, *, spec: EnvironmentSpec, role: str) -> None:
        space = spec.role(role).action_space
        assert isinstance(space, spaces.Discrete)
        self._actions = int(space.n)
        self._renew = 1.0 / config.hold
        self._memory = Memory(action=1)

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - it does not look
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - every action is legal
        streams: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        anew = self._memory.take(streams) | (rng.random(len(streams)) < self._renew)
        drawn = rng.integers(self._actions, size=len(streams))
        action = np.where(anew, drawn, self._memory["action"][streams, 0]).astype(np.int64)
        self._memory["action"][streams, 0] = action
        return action[:, None]

    def reset(self, streams: np.ndarray) -> None:
        """Forget everything about these streams."""
        self._memory.forget(streams)
