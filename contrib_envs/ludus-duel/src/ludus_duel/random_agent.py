"""A random opponent."""

from __future__ import annotations

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves

from ludus_duel.config import RandomConfig

__all__ = ["RandomAgent"]


class RandomAgent:
    """Waits with a given probability, and else draws uniformly among the other legal actions.

    Args:
        config: Options of the agent.
        spec: Spec of the environment.
        role: Role that the agent plays.
    """

    def __init__(self, config: RandomConfig, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - one game, one role
        self._idle = config.idle

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - the agent ignores observations
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        assert action_mask is not None, "the duel always has masks"
        keys = rng.random(action_mask.shape, dtype=np.float32) * action_mask
        keys[:, 0] = 1.0 * (rng.random(len(seat_ids)) < self._idle)
        return np.expand_dims(keys.argmax(axis=1), 1)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""
