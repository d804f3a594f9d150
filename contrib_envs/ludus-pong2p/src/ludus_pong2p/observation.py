"""Positions of paddle and ball, read from vector or image observations."""

from __future__ import annotations

import numpy as np
from ludus.environment import Leaves

from ludus_pong2p.geometry import SIDE

__all__ = ["own_paddle_and_ball"]

_CELLS = int(SIDE)
_MIDDLES = np.arange(_CELLS) + 0.5 - SIDE / 2  # of pixels, in units of the field


def own_paddle_and_ball(observation: Leaves) -> np.ndarray:
    """Return ``[3, n] float64``: height of the own paddle, and x and y of the ball, in units from the middle.

    Args:
        observation: Leaves ``[n, …]`` of the environment ``pong2p`` with any option `observation`.
    """
    vector = observation.get("vector", observation.get("obs"))
    if vector is not None and vector.ndim == 2:
        seen: np.ndarray = vector.T[[0, 2, 3]].astype(np.float64) * (SIDE / 2)
        return seen
    return _from_image(observation["obs"])


def _from_image(image: np.ndarray) -> np.ndarray:
    """Return the same from ``image [n, 42, 42, 2] uint8``: centroids of brightness, exact to a hundredth of a unit."""
    field = image[:, 2:, :, 0].astype(np.float64)
    paddle, ball = field[:, :, 0], field[:, :, 1:-1]
    weights = np.stack([paddle, ball.sum(axis=1), ball.sum(axis=2)])
    centres: np.ndarray = weights @ _MIDDLES / weights.sum(axis=2)
    return centres
