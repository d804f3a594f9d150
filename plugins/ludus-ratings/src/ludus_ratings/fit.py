"""The Bradley-Terry fit.

In a league of thousands each participant has met a few others, so the fit uses sparse matrices.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ludus_ratings.elo import ELO_POINTS

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

#: Number of groups of participants in the preconditioner; its cost grows with the cube.
GROUPS = 128

_TOLERANCE = 1e-9  # log-odds; so tight that a fit ends at the same strengths wherever it starts
_VARIANCE_TOLERANCE = 1e-10  # of the residual
_MAX_DENSE = 6000  # participants up to which the dense matrix is inverted where many deviations are read


class Hessian:
    """The second derivatives of the loss: a sparse symmetric matrix, in which the fixed participant is decoupled.

    Equations are solved by conjugate gradients. They converge slowly where whole groups of participants move together,
    as in a chain of models of which each has met only its neighbours. The preconditioner therefore combines the
    diagonal with an exact solution for one common move of each group.

    Args:
        pairs: ``[pairs, 2] int64``: participants of every pair that has met.
        weight: ``[pairs] float64``, not negative.
        fixed: The participant whose strength is fixed; -1 for none.
        center: ``[n] int64``: participant around whose strength the prior of each is centred; -1: around 0.
        group: ``[n] int64``: group of every participant, 0 to groups - 1.
        precision: ``[n] float64``, or one value: precision of the prior, in log-odds.
    """

    def __init__(
        self, pairs: Indices, weight: Floats, *, fixed: int, center: Indices, group: Indices, precision: float | Floats
    ) -> None:
        from scipy.sparse import coo_array, csr_array  # noqa: PLC0415 - a run without evaluations needs no SciPy

        n, centred, precision = len(group), np.flatnonzero(center >= 0), np.broadcast_to(precision, len(group))
        pairs = np.concatenate([pairs, np.stack([centred, center[centred]], axis=1)])
        weight = np.concatenate([weight, precision[centred]])
        diagonal = np.bincount(pairs.ravel(), np.repeat(weight, 2), n) + precision * (center < 0)
        is_free = (pairs != fixed).all(axis=1)
        (a, b), pair_weight, each = pairs[is_free].T, weight[is_free], np.arange(n)
        values = np.concatenate([diagonal, -pair_weight, -pair_weight])
        places = (np.concatenate([each, a, b]), np.concatenate([each, b, a]))
        self._fixed, self._center = fixed, center
        self._matrix = coo_array((values, places), shape=(n, n)).tocsr()
        self._diagonal = diagonal
        self._members = csr_array((np.ones(n), (group, each)), shape=(int(group.max(initial=-1)) + 1, n))
        self._group = group
        self._group_inverse: Floats = np.linalg.inv((self._members @ self._matrix @ self._members.T).toarray())
        self._num_deviations = 0  # computed one by one
        self._variance: Floats | None = None  # ``[n]``, once many deviations are read
        self._column: dict[int, Floats] = {}  # columns of H⁻¹ of participants that are centres

    def solve(self, right: Floats, *, tolerance: float) -> Floats:
        """Return ``[n]`` x with H x = `right`, until the residual is `tolerance` relative to `right`."""
        from scipy.sparse.linalg import LinearOperator, cg  # noqa: PLC0415

        preconditioner = LinearOperator(self._matrix.shape, matvec=self._precondition, dtype=np.float64)
        solution, _ = cg(self._matrix, right, rtol=tolerance, M=preconditioner)
        return np.asarray(solution)

    def _precondition(self, x: Floats) -> Floats:
        """Return approximately H⁻¹ x."""
        return np.asarray(x / self._diagonal + (self._group_inverse @ (self._members @ x))[self._group])

    def dense(self) -> Floats:
        """Return H as ``[n, n]``; the fixed participant has only its diagonal entry."""
        return np.asarray(self._matrix.toarray())

    def _variances(self) -> Floats:
        """Return the diagonal of H⁻¹, by inverting two blocks of half the size: it needs a quarter of the memory."""
        dense, middle = self.dense(), len(self._diagonal) // 2

        def half(own: slice, other: slice) -> Floats:
            through = dense[own, other] @ np.linalg.solve(dense[other, other], dense[other, own])
            return np.diag(np.linalg.inv(dense[own, own] - through)).copy()

        first, second = slice(middle), slice(middle, None)
        return np.concatenate([half(first, second), half(second, first)])

    def deviation(self, i: int) -> float:
        """Return the standard error of a participant's strength minus that of its centre, in Elo points."""
        if i == self._fixed:
            return 0.0
        n, self._num_deviations = len(self._diagonal), self._num_deviations + 1
        if self._variance is None and 50 * self._num_deviations > n and n <= _MAX_DENSE:
            self._variance = self._variances()
        variance = self._solve_unit(i)[i] if self._variance is None else self._variance[i]
        center = int(self._center[i])
        if center >= 0:
            if center not in self._column:
                self._column[center] = self._solve_unit(center)
            variance += self._column[center][center] - 2.0 * self._column[center][i]
        return round(math.sqrt(variance) * ELO_POINTS, 6)

    def _solve_unit(self, i: int) -> Floats:
        """Return column i of H⁻¹."""
        unit = np.zeros(len(self._diagonal))
        unit[i] = 1.0
        return self.solve(unit, tolerance=_VARIANCE_TOLERANCE)


def fit_bradley_terry(
    pairs: Indices,
    points: Floats,
    *,
    fixed: int,
    start: Floats,
    group: Indices,
    precision: float | Floats,
    center: Indices | None = None,
) -> tuple[Floats, Hessian]:
    """Return the maximum-likelihood strengths, by Newton's method with step halving.

    Args:
        pairs: ``[pairs, 2] int64``: participants of every pair that has met.
        points: ``[pairs, 2] float64``: points of each of the two; their sum is the number of matches.
        fixed: The participant whose strength is 0; -1 for none.
        start: ``[n] float64``: initial strengths, in log-odds.
        group: ``[n] int64``: at most `GROUPS` groups of participants that are likely to move together. The result does
            not depend on them.
        precision: ``[n] float64``, or one value: precision of the prior, in log-odds.
        center: ``[n] int64``: participant around whose strength the prior of each is centred; -1: around 0, as without
            this argument.

    Returns:
        Strengths ``[n]`` in log-odds, and the Hessian there.
    """
    n, (a, b), games = len(start), pairs.T, points.sum(axis=1)
    own = np.bincount(pairs.ravel(), points.ravel(), n)
    free = np.arange(n) != fixed
    strength, last = start * free, 1.0
    center = np.full(n, -1) if center is None else center
    centred = np.flatnonzero(center >= 0)

    def from_center(r: Floats) -> Floats:
        return r - np.where(center >= 0, r[center], 0.0)

    def loss(r: Floats) -> float:
        lead = r[a] - r[b]
        surprise = points[:, 0] * np.logaddexp(0.0, -lead) + points[:, 1] * np.logaddexp(0.0, lead)
        return float(np.sum(surprise) + 0.5 * np.sum(precision * from_center(r) ** 2))

    for _ in range(100):
        share = 0.5 * (1.0 + np.tanh(0.5 * (strength[a] - strength[b])))
        weight = games * share * (1.0 - share)
        hessian = Hessian(pairs, weight, fixed=fixed, center=center, group=group, precision=precision)
        if last < _TOLERANCE:
            break
        expected = np.bincount(a, games * share, n) + np.bincount(b, games * (1.0 - share), n)
        prior = precision * from_center(strength)
        prior -= np.bincount(center[centred], prior[centred], n)
        gradient = (expected - own + prior) * free
        step = hessian.solve(gradient, tolerance=min(0.1, last)) * free
        size, before = 1.0, loss(strength)
        while loss(strength - size * step) > before + 1e-9 * abs(before) and size > 1e-6:
            size /= 2
        strength = strength - size * step
        last = float(np.max(np.abs(step), initial=0.0))
    return strength, hessian
