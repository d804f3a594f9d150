"""An opponent that moves at random."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves

from ludus_pong2p.config import RandomConfig
from ludus_pong2p.memory import BallTracker

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
        self._memory = BallTracker(action=1)

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - it does not look
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - every action is legal
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        anew = self._memory.take(seat_ids) | (rng.random(len(seat_ids)) < self._renew)
        drawn = rng.integers(self._actions, size=len(seat_ids))
        action = np.where(anew, drawn, self._memory["action"][seat_ids, 0]).astype(np.int64)
        self._memory["action"][seat_ids, 0] = action
        return action[:, None]

    def reset(self, seat_ids: np.ndarray) -> None:
        """Forget everything about these streams."""
        self._memory.forget(seat_ids)
