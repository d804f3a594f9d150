"""Observations: an image of 42 by 42 pixels of this tick and of the previous one, and ten numbers per seat in [-1, 1].

A pixel is a square of 1 by 1 with the brightness of its covered share, so images encode positions to a fraction of a
pixel. Rows 2 to 41 and columns 1 to 40 show the field, columns 0 and 41 the seat's own paddle and the
opponent's, row 0 the scores: bars of up to 20 pixels that grow from the seat's own edge and from the opponent's.

Images are drawn for all matches at once. Only moving parts are redrawn: two balls of 3 by 3 pixels and the columns of
the paddles.
"""

from __future__ import annotations

import numpy as np

from ludus_pong2p.court import BALL, SIDE, Court

SHAPE = (42, 42, 2)  # rows, columns, channels: this tick and the one before

_CELLS = int(SIDE)
_TOP, _BORDER = 2, 1  # where the field starts
_WHITE = 255.0
_BAR = _CELLS // 2
_PATCH = 3  # pixels a ball may touch along one axis
_DIRECTIONS = np.array([1, -1])  # in which seats count columns
_MIDDLES = np.arange(_CELLS) + 0.5 - SIDE / 2  # of cells


class ImageView:
    """Draws the image observations of all matches.

    Args:
        leaf: ``[B, 2, 42, 42, 2] uint8``, the array to write to.
        points: Points that win a match.
    """

    def __init__(self, leaf: np.ndarray, *, points: int) -> None:
        num_matches = len(leaf)
        self._points, self._leaf, self._flat = points, leaf, leaf.reshape(-1)
        self._scores = np.zeros((2, num_matches), np.int64)  # as drawn
        self._now = np.zeros((num_matches, 2, _PATCH**2), np.int64)  # indices of ball pixels in `_flat`
        self._before = self._now.copy()
        self._ball = np.zeros((num_matches, 1, _PATCH**2), np.uint8)
        self._corners = _corners(num_matches)

    def start(self, court: Court, scores: np.ndarray, indices: np.ndarray) -> None:
        """Draw new matches ``[n] int64`` and leave the others as they are; both channels are equal."""
        self._leaf[indices] = 0
        where, ball = self._balls(court, indices)
        self._now[indices], self._before[indices], self._ball[indices] = where, where, ball
        self._flat[where] = self._flat[where + 1] = ball
        own, opponents = self._paddles(court, indices)
        self._leaf[indices, :, _TOP:, 0] = own[..., None]
        self._leaf[indices, :, _TOP:, -1] = opponents[..., None]
        self._draw_scores(scores, indices)

    def show(self, court: Court, scores: np.ndarray) -> None:
        """Draw all matches; the previous image moves to channel 1.

        Args:
            court: State of all matches.
            scores: ``[2, B] int64``.
        """
        flat, every = self._flat, slice(None)
        where, ball = self._balls(court, every)
        flat[self._before + 1] = 0
        flat[self._now] = 0
        flat[self._now + 1] = self._ball
        flat[where] = ball
        self._before, self._now, self._ball = self._now, where, ball
        for column, paddles in zip((0, -1), self._paddles(court, every), strict=True):
            pixels = self._leaf[:, :, _TOP:, column]
            pixels[..., 1] = pixels[..., 0]
            pixels[..., 0] = paddles
        changed = (scores != self._scores).any(axis=0).nonzero()[0]
        if changed.size:
            self._draw_scores(scores, changed)

    def _balls(self, court: Court, indices: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        """Return indices of ball pixels in channel 0, ``[n, 2, 9] int64``, and their values, ``[n, 1, 9] uint8``."""
        column, across = _covered(court.x[indices])
        row, down = _covered(court.y[indices])
        patch = _pixels(down[:, :, None] * across[:, None, :]).reshape(-1, 1, _PATCH**2)
        shift = SHAPE[2] * (SHAPE[1] * row[:, None] + _DIRECTIONS * column[:, None])
        return self._corners[indices] + shift[:, :, None], patch

    def _paddles(self, court: Court, indices: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of pixels of each seat's own paddle and of the opponent's, ``[n, 2, 40] uint8`` each."""
        half, middle = court.half[:, indices].T[..., None], court.paddle[:, indices].T[..., None]
        covered = half + 0.5 - np.abs(_MIDDLES - middle)
        np.minimum(covered, np.minimum(2 * half, 1.0), out=covered)
        own = _pixels(np.maximum(covered, 0.0, out=covered))
        return own, own[:, ::-1]

    def _draw_scores(self, scores: np.ndarray, indices: np.ndarray) -> None:
        """Draw the score bars of matches in both channels."""
        length = scores[:, indices].T[..., None] * (_BAR / self._points)
        own = _pixels(np.clip(length - np.arange(_BAR), 0.0, 1.0))[..., None]  # [n, 2, 20, 1]
        self._leaf[indices, :, 0, _BORDER : _BORDER + _BAR] = own
        self._leaf[indices, :, 0, -_BORDER - _BAR : -_BORDER] = own[:, ::-1, ::-1]
        self._scores[:, indices] = scores[:, indices]


def _corners(num_matches: int) -> np.ndarray:
    """Return ``[B, 2, 9] int64``: the pixels of a ball in the upper corner at the left player's end of each picture."""
    picture = np.arange(num_matches * 2).reshape(num_matches, 2, 1, 1) * int(np.prod(SHAPE))
    ends = np.array([_BORDER, SHAPE[1] - 1 - _BORDER]).reshape(2, 1, 1)
    down, across = np.arange(_PATCH)[:, None], np.arange(_PATCH) * _DIRECTIONS.reshape(2, 1, 1)
    pixels = SHAPE[1] * (_TOP + down) + ends + across
    corners: np.ndarray = (picture + SHAPE[2] * pixels).reshape(num_matches, 2, _PATCH**2)
    return corners


def _covered(centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first cell that each ball touches along an axis, ``[n] int64``, and the shares of three cells."""
    edge = centre + (SIDE / 2 - BALL)
    first = np.minimum(edge.astype(np.int64), _CELLS - _PATCH)
    covered = np.ones((len(edge), _PATCH))
    covered[:, 2] = edge - first
    covered[:, 0] -= covered[:, 2]
    return first, covered


def _pixels(share: np.ndarray) -> np.ndarray:
    """Return shares in [0, 1] as bytes."""
    return np.rint(share * _WHITE).astype(np.uint8)


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
