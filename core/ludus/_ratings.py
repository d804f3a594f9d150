"""Elo ratings: a function of the evaluation matches in the log, for frozen models and anchors only.

400 points are odds of 10 to 1 and a draw is half a win. The 0 of the scale is the anchor called ``random``, else the
first anchor, else (without anchors) the mean of everybody rated.

Leagues grow to thousands of models of which each has met a few, so everything here is a sum over pairs that have met,
and no fit makes a matrix of all pairs.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from functools import cache, partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ludus.matchmaker import Rating

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

#: What is believed of a participant without matches; so weak that a dozen matches outweigh it.
PRIOR = Rating(0.0, 1000.0, 0)

_POINTS = 400.0 / math.log(10.0)  # Elo points in one unit of log-odds
_PRECISION = (_POINTS / 1000.0) ** 2  # of the prior, in log-odds
_TOLERANCE = 1e-9  # log-odds; so tight that a warm start ends where a cold one does
_WHOLE = 6000  # participants whose whole matrix is inverted where the deviations of many are read
_GROUPS = 128  # whose common moves are solved for directly; the cost of that is the cube of it


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
        self._pairs: dict[tuple[int, int], int] = {}  # who have met → their place in the two arrays
        self._ends = array("q")  # [pairs, 2] participants
        self._points = array("d")  # [pairs, 2] what each of them got
        self._strength = np.zeros(0)  # [fitted] log-odds; the next fit starts from them
        self._matches: Floats = np.zeros(0)  # [fitted]
        self._hessian: _Hessian  # at those strengths
        self._ratings: dict[str, Rating] = {}  # those asked for since the last fit
        self._stale = False

    def add(self, a: str, b: str, count: NDArray[np.int64]) -> None:
        """Add ``[3]`` wins, draws and losses of a against b. To be called for (b, a) with the mirrored counts too."""
        i, j = (self._index.setdefault(name, len(self._index)) for name in (a, b))
        ends = (min(i, j), max(i, j))
        at = self._pairs.setdefault(ends, len(self._pairs))
        if 2 * at == len(self._ends):
            self._ends.extend(ends)
            self._points.extend((0.0, 0.0))
        self._points[2 * at + (i > j)] += float(count[0] + 0.5 * count[1])
        self._stale = True

    def rating(self, participant: str) -> Rating:
        """Return a rating in Elo points; `PRIOR` for somebody without matches."""
        if self._stale:
            self._fit()
        known = self._ratings.get(participant)
        if known is None and participant in self._index:
            i = self._index[participant]
            # Rounded, so that the last bits do not tell in which order the matches came: a restart must change nothing.
            mean, matches = round(float(self._strength[i]) * _POINTS, 6), round(float(self._matches[i]))
            known = self._ratings[participant] = Rating(mean, cache(partial(self._hessian.deviation, i)), matches)
        return known or PRIOR

    def _fit(self) -> None:
        n = len(self._index)
        ends, points = np.array(self._ends).reshape(-1, 2), np.array(self._points).reshape(-1, 2)
        fixed = self._index.get(self._reference or "", -1)
        start = np.concatenate([self._strength, np.zeros(n - len(self._strength))])
        # models of like age have met, and their names say how old they are
        names = sorted(self._index, key=lambda name: (len(name), name))
        group = np.empty(n, np.int64)
        group[[self._index[name] for name in names]] = np.arange(n) * min(n, _GROUPS) // n
        self._strength, self._hessian = fit_bradley_terry(ends, points, fixed=fixed, start=start, group=group)
        self._matches = np.bincount(ends.ravel(), np.repeat(points.sum(axis=1), 2), n).astype(np.float64)
        self._ratings = {}
        self._stale = False


class _Hessian:
    """The second derivatives of the loss: a diagonal, less the weights of pairs. The fixed participant is left out.

    Equations with it are solved by conjugate gradients. What takes those many steps is that whole groups move together
    (a chain of models that each have met only the few before them); so every step also solves directly for one common
    move of each group.

    Args:
        ends: ``[pairs, 2]`` participants.
        weight: ``[pairs]``, not negative.
        fixed: The participant who does not move; -1 for nobody.
        group: ``[n]``: 0 … groups - 1.
    """

    def __init__(self, ends: Indices, weight: Floats, *, fixed: int, group: Indices) -> None:
        n, self._fixed, self._group, k = len(group), fixed, group, int(group.max()) + 1
        self._diagonal = np.bincount(ends.ravel(), np.repeat(weight, 2), n) + _PRECISION
        moving = (ends != fixed).all(axis=1)
        self._a, self._b, self._weight = ends[moving, 0], ends[moving, 1], weight[moving]
        between = np.bincount(group[self._a] * k + group[self._b], self._weight, k * k).reshape(k, k)
        common = np.diag(np.bincount(group, self._diagonal, k)) - between - between.T
        self._common: Floats = np.linalg.inv(common)
        self._asked = 0  # deviations
        self._variance: Floats | None = None  # of everybody

    def solve(self, right: Floats, *, accuracy: float) -> Floats:
        """Return ``[n]`` x with H x = `right`, up to an error of `accuracy` relative to x."""
        x, residual = np.zeros_like(right), right
        direction = moved = self._roughly(residual)
        size = residual @ moved
        enough = size * accuracy**2
        while size > enough:
            change = self._times(direction)
            step = size / (direction @ change)
            x, residual = x + step * direction, residual - step * change
            moved = self._roughly(residual)
            size, before = residual @ moved, size
            direction = moved + (size / before) * direction
        return x

    def _times(self, x: Floats) -> Floats:
        """Return H x."""
        n, a, b = len(x), self._a, self._b
        met = np.bincount(a, self._weight * x[b], n) + np.bincount(b, self._weight * x[a], n)
        return np.asarray(self._diagonal * x - met)

    def _roughly(self, x: Floats) -> Floats:
        """Return about H⁻¹ x."""
        common = self._common @ np.bincount(self._group, x, len(self._common))
        return np.asarray(x / self._diagonal + common[self._group])

    def deviation(self, i: int) -> float:
        """Return the standard error of a participant in Elo points."""
        if i == self._fixed:
            return 0.0
        n, self._asked = len(self._diagonal), self._asked + 1
        if self._variance is None and 50 * self._asked > n and n <= _WHOLE:
            whole = np.diag(self._diagonal)
            whole[self._a, self._b] = whole[self._b, self._a] = -self._weight
            self._variance = np.diag(np.linalg.inv(whole)).copy()
        if self._variance is not None:
            return round(math.sqrt(self._variance[i]) * _POINTS, 6)
        right = np.zeros(n)
        right[i] = 1.0
        return round(math.sqrt(self.solve(right, accuracy=1e-6)[i]) * _POINTS, 6)


def fit_bradley_terry(
    ends: Indices, points: Floats, *, fixed: int, start: Floats, group: Indices
) -> tuple[Floats, _Hessian]:
    """Find the strengths that make the points most likely, by Newton's method with step halving.

    Args:
        ends: ``[pairs, 2]``: the participants of every pair that has met.
        points: ``[pairs, 2]``: what each of the two got; together they are the number of matches.
        fixed: The participant who stays at 0; -1 for nobody.
        start: ``[n]``: strengths to start from, in log-odds.
        group: ``[n]``: participants who may move together get one number; the result does not depend on it.

    Returns:
        Strengths ``[n]`` in log-odds, and the second derivatives there.
    """
    n, (a, b), games = len(start), ends.T, points.sum(axis=1)
    own = np.bincount(ends.ravel(), points.ravel(), n)
    free = np.arange(n) != fixed
    strength, last = start * free, 1.0

    def loss(r: Floats) -> float:
        lead = r[a] - r[b]
        surprise = points[:, 0] * np.logaddexp(0.0, -lead) + points[:, 1] * np.logaddexp(0.0, lead)
        return float(np.sum(surprise) + 0.5 * _PRECISION * np.sum(r * r))

    for _ in range(100):
        share = 0.5 * (1.0 + np.tanh(0.5 * (strength[a] - strength[b])))
        hessian = _Hessian(ends, games * share * (1.0 - share), fixed=fixed, group=group)
        if last < _TOLERANCE:
            break
        expected = np.bincount(a, games * share, n) + np.bincount(b, games * (1.0 - share), n)
        gradient = (expected - own + _PRECISION * strength) * free
        step = hessian.solve(gradient, accuracy=min(0.1, last)) * free
        size, before = 1.0, loss(strength)
        while loss(strength - size * step) > before + 1e-9 * abs(before) and size > 1e-6:
            size /= 2
        strength = strength - size * step
        last = float(np.max(np.abs(step), initial=0.0))
    return strength, hessian
