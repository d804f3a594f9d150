"""Scripted agents: one for any game, and a perfect one for ``dummy-count``."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus import EnvironmentSpec
from ludus.environment import Leaves
from ludus.spaces import is_continuous, label_sizes

from ludus_dummy.config import PerfectConfig

__all__ = ["Perfect", "Random"]


class Random:
    """Chooses uniformly among legal actions; continuous actions uniformly in their box, near 0 if it is unbounded."""

    def __init__(self, config: None, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - signature of the factory
        self._space = spec.role(role).action_space

    def act(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return ``[n, L] int64`` or ``[n, D] float32``; see `ludus.agent.Agent`."""
        del observation
        rows = len(seat_ids)
        if is_continuous(self._space):
            assert isinstance(self._space, spaces.Box)
            low, high = self._space.low.astype(np.float64), self._space.high.astype(np.float64)
            low = np.where(np.isfinite(low), low, np.minimum(high, 1.0) - 2.0)
            high = np.where(np.isfinite(high), high, np.maximum(low, -1.0) + 2.0)
            return rng.uniform(low, high, (rows, *self._space.shape)).astype(np.float32)
        sizes = label_sizes(self._space)
        noise = rng.random((rows, sum(sizes)))
        if action_mask is not None:
            noise[~action_mask] = -1.0
        parts = np.split(noise, np.cumsum(sizes)[:-1], axis=1)
        return np.stack([part.argmax(1) for part in parts], axis=1)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing: the agent is stateless."""


class Perfect:
    """Plays ``dummy-count`` perfectly except for a share of random decisions."""

    def __init__(self, config: PerfectConfig, *, spec: EnvironmentSpec, role: str) -> None:
        space = spec.role(role).action_space
        self._most = label_sizes(space)[0]
        self._error_rate = config.error_rate
        self._random = Random(None, spec=spec, role=role)

    def act(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return ``[n, 1] int64``; see `ludus.agent.Agent`."""
        missing = observation["obs"].argmax(1)
        surplus = missing % (self._most + 1)  # leaving a multiple of most + 1 wins
        perfect = np.where(surplus > 0, surplus - 1, 0)[:, None]
        random = self._random.act(observation, action_mask=action_mask, seat_ids=seat_ids, rng=rng)
        return np.where(rng.random((len(missing), 1)) < self._error_rate, random, perfect)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing: the agent is stateless."""
