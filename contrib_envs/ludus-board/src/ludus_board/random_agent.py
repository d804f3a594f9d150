"""A random agent for every environment."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves
from ludus.spaces import is_continuous, label_sizes


class RandomAgent:
    """Chooses each label uniformly among its legal choices, and entries of a Box as Gymnasium samples them.

    Args:
        config: None; there are no options.
        spec: Spec of the environment.
        role: Role that the agent plays.
    """

    def __init__(self, config: None, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - no options
        self._space = spec.role(role).action_space
        self._sizes = label_sizes(self._space)

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - the agent ignores observations
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        if is_continuous(self._space):
            return _uniform(self._space, len(seat_ids), rng)
        keys = rng.random((len(seat_ids), sum(self._sizes)), dtype=np.float32)
        if action_mask is not None:
            keys[~action_mask] = -1.0
        ends = np.cumsum(self._sizes)
        labels = [keys[:, end - size : end].argmax(axis=1) for size, end in zip(self._sizes, ends, strict=True)]
        return np.stack(labels, axis=1)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""


def _uniform(space: spaces.Space[np.ndarray], count: int, rng: np.random.Generator) -> np.ndarray:
    """Return ``[count, D] float32`` drawn from a Box."""
    assert isinstance(space, spaces.Box)
    low, high = space.low.reshape(-1).astype(np.float64), space.high.reshape(-1).astype(np.float64)
    below, above = np.isfinite(low), np.isfinite(high)
    tail = rng.standard_exponential((count, len(low)))
    drawn = np.where(below, low + tail, np.where(above, high - tail, rng.standard_normal((count, len(low)))))
    bounded = below & above
    span = np.where(bounded, high, 0.0) - np.where(bounded, low, 0.0)
    inside = np.where(bounded, low, 0.0) + span * rng.random((count, len(low)))
    return np.where(bounded, inside, drawn).astype(np.float32)
