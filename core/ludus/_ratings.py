"""Elo ratings: a function of the evaluation matches in the log, for frozen models and anchors only.

400 points are odds of 10 to 1 and a draw is half a win. The 0 of the scale is the anchor called ``random``, else the
first anchor, else (without anchors) the mean of everybody rated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ludus.matchmaker import Rating

#: What is believed of a participant without matches; so weak that a dozen matches outweigh it.
PRIOR = Rating(0.0, 1000.0, 0)

_POINTS = 400.0 / math.log(10.0)  # Elo points in one unit of log-odds
_TOLERANCE = 1e-10  # log-odds; so tight that a warm start ends where a cold one does


class EloTable:
    """Maximum-likelihood Elo ratings with standard errors, refitted when asked after new matches.

    The fit maximises Σ s_ij log sigmoid(r_i - r_j) over all points s_ij (wins + ½ draws) plus the prior, a normal
    distribution of deviation 1000 points around 0, which keeps an undefeated participant finite. The standard error
    is taken from the inverse Hessian at the maximum; draws vary less than the model says, so it errs on the high side.

    Args:
        anchors: The scripted participants; one of them is the 0 of the scale.
    """

    def __init__(self, anchors: Sequence[str] = ()) -> None:
        self._reference = "random" if "random" in anchors else next(iter(anchors), None)
        self._index: dict[str, int] = {}
        self._points: dict[tuple[int, int], float] = {}  # of one participant against another
        self._strength = np.zeros(0)  # [fitted] log-odds; the next fit starts from them
        self._ratings: dict[str, Rating] = {}
        self._stale = False

    def add(self, a: str, b: str, count: NDArray[np.int64]) -> None:
        """Add ``[3]`` wins, draws and losses of a against b. To be called for (b, a) with the mirrored counts too."""
        i, j = (self._index.setdefault(name, len(self._index)) for name in (a, b))
        self._points[i, j] = self._points.get((i, j), 0.0) + float(count[0] + 0.5 * count[1])
        self._stale = True

    def rating(self, participant: str) -> Rating:
        """Return a rating in Elo points; `PRIOR` for somebody without matches."""
        if self._stale:
            self._fit()
        return self._ratings.get(participant, PRIOR)

    def _fit(self) -> None:
        n = len(self._index)
        points = np.zeros((n, n))
        points[tuple(np.array(list(self._points)).T)] = list(self._points.values())
        free = np.arange(n) != self._index.get(self._reference or "", -1)
        start = np.concatenate([self._strength, np.zeros(n - len(self._strength))])
        self._strength, deviation = fit_bradley_terry(points, free=free, start=start)
        # Rounded, so that the last bits do not tell in which order the matches came: a restart must change nothing.
        mean, deviation = (np.round(x * _POINTS, 6).tolist() for x in (self._strength, deviation))
        matches = (points.sum(axis=0) + points.sum(axis=1)).round().astype(int).tolist()
        self._ratings = {name: Rating(mean[i], deviation[i], matches[i]) for name, i in self._index.items()}
        self._stale = False


def fit_bradley_terry(
    points: NDArray[np.float64], *, free: NDArray[np.bool_], start: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Find the strengths that make the points most likely, by Newton's method with step halving.

    Args:
        points: ``[n, n]``: points of i against j; points + pointsᵀ are the numbers of matches.
        free: ``[n] bool``; the others stay at 0.
        start: ``[n]``: strengths to start from, in log-odds.

    Returns:
        Strengths and standard errors, each ``[n]`` in log-odds; a fixed one has the standard error 0.
    """
    games, own = points + points.T, points.sum(axis=1)
    precision = (_POINTS / PRIOR.deviation) ** 2
    strength = np.where(free, start, 0.0)

    def loss(r: NDArray[np.float64]) -> float:
        return float(np.sum(points * np.logaddexp(0.0, r[None, :] - r[:, None])) + 0.5 * precision * np.sum(r * r))

    def curvature(r: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        expected = games / (1.0 + np.exp(r[None, :] - r[:, None]))
        weight = expected * expected.T / np.maximum(games, 1e-12)
        hessian = np.diag(weight.sum(axis=1) + precision) - weight
        return expected.sum(axis=1) - own + precision * r, hessian[np.ix_(free, free)]

    for _ in range(100):
        gradient, hessian = curvature(strength)
        step = np.zeros_like(strength)
        step[free] = np.linalg.solve(hessian, gradient[free])
        size, before = 1.0, loss(strength)
        while loss(strength - size * step) > before + 1e-9 * abs(before) and size > 1e-6:
            size /= 2
        strength = strength - size * step
        if np.max(np.abs(step), initial=0.0) < _TOLERANCE:
            break
    deviation = np.zeros_like(strength)
    deviation[free] = np.sqrt(np.diag(np.linalg.inv(curvature(strength)[1])))
    return strength, deviation
