"""The vector observation: ten numbers per seat, all in [-1, 1]."""

from __future__ import annotations

import numpy as np

from ludus_pong2p.court import Court
from ludus_pong2p.geometry import SIDE

__all__ = ["NAMES", "VectorView"]

#: Names of the numbers. Positions are in half fields from the middle, x pointing away from the seat and y down;
#: velocities in shares of the ball's highest speed; lengths in fields; scores in shares of what wins the match.
NAMES = (
    "own_paddle_y",
    "opponent_paddle_y",
    "ball_x",
    "ball_y",
    "ball_vx",
    "ball_vy",
    "own_paddle_length",
    "opponent_paddle_length",
    "own_score",
    "opponent_score",
)


class VectorView:
    """Writes the vector observations of all matches.

    Args:
        leaf: ``[B, 2, 10] float32``, the array to write to.
        speed: Highest speed of a ball in units per frame.
        points: Points that win a match.
    """

    def __init__(self, leaf: np.ndarray, *, speed: float, points: int) -> None:
        self._leaf, self._speed, self._points = leaf, speed, points
        self._numbers = np.zeros((2, len(NAMES), len(leaf)))

    def start(self, court: Court, scores: np.ndarray, indices: np.ndarray) -> None:
        """Write the observations of new matches ``[n] int64`` and leave the others as they are."""
        left, right = self._numbers
        left[6:8, indices] = court.half[:, indices] * (2 / SIDE)
        right[6:8, indices] = left[7:5:-1, indices]
        self._update(court, scores)
        self._leaf[indices] = self._numbers[:, :, indices].transpose(2, 0, 1)

    def show(self, court: Court, scores: np.ndarray) -> None:
        """Write the observations of all matches.

        Args:
            court: State of all matches.
            scores: ``[2, B] int64``.
        """
        self._update(court, scores)
        self._leaf[:] = self._numbers.transpose(2, 0, 1)

    def _update(self, court: Court, scores: np.ndarray) -> None:
        left, right = self._numbers
        np.multiply(court.paddle, 2 / SIDE, out=left[0:2])
        np.multiply(court.x, 2 / SIDE, out=left[2])
        np.multiply(court.y, 2 / SIDE, out=left[3])
        np.divide(court.vx, self._speed, out=left[4])
        np.divide(court.vy, self._speed, out=left[5])
        np.divide(scores, self._points, out=left[8:10])
        right[0:2] = left[1::-1]
        np.negative(left[2], out=right[2])
        right[3] = left[3]
        np.negative(left[4], out=right[4])
        right[5] = left[5]
        right[8:10] = left[:7:-1]
