"""The Bradley-Terry fit, as a sum over pairs that have met.

Leagues grow to thousands of participants of which each has met a few, so no fit makes a matrix of all pairs.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ludus_ratings.elo import ELO_POINTS

__all__ = ["GROUPS", "Hessian", "fit_bradley_terry"]

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

#: Of participants, whose common moves are solved for directly; the cost of that is the cube of it.
GROUPS = 128

_TOLERANCE = 1e-9  # log-odds; so tight that a warm start ends where a cold one does
_WHOLE = 6000  # participants whose whole matrix is inverted where the deviations of many are read


class Hessian:
    """The second derivatives of the loss: a diagonal, less the weights of pairs. The fixed participant is left out.

    Equations with it are solved by conjugate gradients. What takes those many steps is that whole groups move together
    (a chain of models that each have met only the few before them); so every step also solves directly for one common
    move of each group.

    Args:
        ends: ``[pairs, 2]`` participants.
        weight: ``[pairs]``, not negative.
        fixed: The participant who does not move; -1 for nobody.
        group: ``[n]``: 0 … groups - 1.
        precision: Of the prior, in log-odds.
    """

    def __init__(self, ends: Indices, weight: Floats, *, fixed: int, group: Indices, precision: float) -> None:
        n, self._fixed, self._group, k = len(group), fixed, group, int(group.max(initial=-1)) + 1
        self._diagonal = np.bincount(ends.ravel(), np.repeat(weight, 2), n) + precision
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

    def whole(self) -> Floats:
        """Return H as ``[n, n]``; the fixed participant has nothing but its place on the diagonal."""
        whole = np.diag(self._diagonal)
        whole[self._a, self._b] = whole[self._b, self._a] = -self._weight
        return whole

    def _variances(self) -> Floats:
        """Return the diagonal of H⁻¹, half by half: what is inverted at once is a quarter of the whole."""
        whole, middle = self.whole(), len(self._diagonal) // 2

        def half(own: slice, other: slice) -> Floats:
            through = whole[own, other] @ np.linalg.solve(whole[other, other], whole[other, own])
            return np.diag(np.linalg.inv(whole[own, own] - through)).copy()

        first, second = slice(middle), slice(middle, None)
        return np.concatenate([half(first, second), half(second, first)])

    def deviation(self, i: int) -> float:
        """Return the standard error of a participant in Elo points."""
        if i == self._fixed:
            return 0.0
        n, self._asked = len(self._diagonal), self._asked + 1
        if self._variance is None and 50 * self._asked > n and n <= _WHOLE:
            self._variance = self._variances()
        if self._variance is not None:
            return round(math.sqrt(self._variance[i]) * ELO_POINTS, 6)
        right = np.zeros(n)
        right[i] = 1.0
        return round(math.sqrt(self.solve(right, accuracy=1e-6)[i]) * ELO_POINTS, 6)


def fit_bradley_terry(
    ends: Indices, points: Floats, *, fixed: int, start: Floats, group: Indices, precision: float
) -> tuple[Floats, Hessian]:
    """Find the strengths that make the points most likely, by Newton's method with step halving.

    Args:
        ends: ``[pairs, 2]``: the participants of every pair that has met.
        points: ``[pairs, 2]``: what each of the two got; together they are the number of matches.
        fixed: The participant who stays at 0; -1 for nobody.
        start: ``[n]``: strengths to start from, in log-odds.
        group: ``[n]``: participants who may move together get one number, `GROUPS` of them at most; the result does
            not depend on it.
        precision: Of the prior, in log-odds.

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
        return float(np.sum(surprise) + 0.5 * precision * np.sum(r * r))

    for _ in range(100):
        share = 0.5 * (1.0 + np.tanh(0.5 * (strength[a] - strength[b])))
        hessian = Hessian(ends, games * share * (1.0 - share), fixed=fixed, group=group, precision=precision)
        if last < _TOLERANCE:
            break
        expected = np.bincount(a, games * share, n) + np.bincount(b, games * (1.0 - share), n)
        gradient = (expected - own + precision * strength) * free
        step = hessian.solve(gradient, accuracy=min(0.1, last)) * free
        size, before = 1.0, loss(strength)
        while loss(strength - size * step) > before + 1e-9 * abs(before) and size > 1e-6:
            size /= 2
        strength = strength - size * step
        last = float(np.max(np.abs(step), initial=0.0))
    return strength, hessian
