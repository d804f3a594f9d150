"""A random opponent."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves

from ludus_pong2p.config import RandomConfig
from ludus_pong2p.seat_state import SeatState

__all__ = ["RandomAgent"]


class RandomAgent:
    """Draws an action uniformly and repeats it for a random time.

    Args:
        config: Options of the agent.
        spec: Spec of the environment.
        role: Role that the agent plays.
    """

    def __init__(self, config: RandomConfig, *, spec: EnvironmentSpec, role: str) -> None:
        space = spec.role(role).action_space
        assert isinstance(space, spaces.Discrete)
        self._actions = int(space.n)
        self._renew = 1.0 / config.hold
        self._memory = SeatState(action=1)

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - the agent ignores observations
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - every action is legal
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        redraw = self._memory.take_new(seat_ids) | (rng.random(len(seat_ids)) < self._renew)
        drawn = rng.integers(self._actions, size=len(seat_ids))
        action = np.where(redraw, drawn, self._memory["action"][seat_ids, 0]).astype(np.int64)
        self._memory["action"][seat_ids, 0] = action
        return action[:, None]

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the state of these seats."""
        self._memory.reset(seat_ids)
