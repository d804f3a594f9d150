"""Bradley-Terry ratings of all matches at once, with intervals.

The model: participant i scores a share sigmoid(r_i - r_j) of the points against j; a draw is half a win and half a
loss. The ratings maximize the likelihood of the points times a prior: every rating is normally distributed around 0
with a deviation of 1000 Elo points. A dozen matches outweigh the prior, which makes the maximum exist and unique for
all data:

* the rating of a participant without matches is 0 ± 1000 (one standard deviation);
* the rating of a participant that has won all matches is finite;
* components that no chain of matches connects are each centred around 0; the interval of a difference between them is
  that of the prior, see `Strengths.component`.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import define
from numpy.typing import ArrayLike, NDArray

from ludus_ratings.elo import ELO_POINTS, expected_score
from ludus_ratings.fit import GROUPS, Hessian, fit_bradley_terry
from ludus_ratings.payoff import PairResults, components

Z95 = 1.959963984540054  # the standard normal quantile of 97.5 %

_ACCURACY = 1e-10  # relative residual of the solution that the variance of a difference is computed from


@define(frozen=True, eq=False, kw_only=True)
class Strengths:
    """Bradley-Terry ratings.

    Attributes:
        mean: ``[n] float64``: ratings in Elo points.
        covariance: ``[n, n] float64``: covariance of the ratings, in squared Elo points.
        matches: ``[n] float64``: number of matches of every participant.
        component: ``[n] int64``: connected component, see `ludus_ratings.components`.
    """

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]
    matches: NDArray[np.float64]
    component: NDArray[np.int64]

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Return ``[n]``: one standard deviation in Elo points."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    @property
    def interval(self) -> NDArray[np.float64]:
        """Return ``[n, 2]``: the 95 % intervals."""
        near = Z95 * self.deviation
        return np.stack([self.mean - near, self.mean + near], axis=1)

    def difference(self, a: int, b: int) -> tuple[float, float]:
        """Return the rating of a minus the rating of b and its standard deviation, in Elo points."""
        c = self.covariance
        variance = c[a, a] + c[b, b] - 2.0 * c[a, b]
        return float(self.mean[a] - self.mean[b]), float(np.sqrt(max(variance, 0.0)))

    def expected(self) -> NDArray[np.float64]:
        """Return ``[n, n]``: the expected share of points of i against j."""
        return np.asarray(expected_score(self.mean[:, None], self.mean[None, :]))


def bradley_terry(
    points: ArrayLike, *, draws: ArrayLike | None = None, reference: int | None = None, prior_deviation: float = 1000.0
) -> Strengths:
    """Return the ratings and their covariance; the cost of the covariance grows with the cube of n.

    Args:
        points: ``[n, n]``: wins + ½ draws of i against j.
        draws: ``[n, n]``, symmetric: numbers of drawn matches. Draws vary less than wins and losses, so the intervals
            become narrower; without `draws` they are too wide.
        reference: Participant with the rating 0 ± 0; None: the mean of all ratings is 0.
        prior_deviation: Standard deviation of the prior, in Elo points.

    Raises:
        ValueError: `points` is not a valid table, `draws` has another shape, or `prior_deviation` is not positive.
    """
    results = PairResults.from_points(points, draws)
    strength, hessian_at_maximum = _fit(results, reference=reference, prior_deviation=prior_deviation)
    n = results.num
    free = np.ones(n, bool)
    if reference is not None:
        free[reference] = False
    hessian = hessian_at_maximum.dense()[np.ix_(free, free)]
    inverse = np.linalg.inv(hessian)
    inner = inverse
    if draws is not None:
        inner = (
            inverse
            @ (hessian - _laplacian(results, _variance_removed_by_draws(results, strength))[np.ix_(free, free)])
            @ inverse
        )
    covariance = np.zeros((n, n))
    covariance[np.ix_(free, free)] = 0.5 * (inner + inner.T)
    return Strengths(
        mean=strength * ELO_POINTS,
        covariance=covariance * ELO_POINTS**2,
        matches=_sums(results, results.points.sum(axis=1)),
        component=components(points),
    )


def rating_difference(results: PairResults, a: int, b: int, *, prior_deviation: float = 1000.0) -> tuple[float, float]:
    """Return what `Strengths.difference` returns without a reference; the cost grows with the number of pairs.

    Raises:
        ValueError: `prior_deviation` is not positive.
    """
    strength, hessian = _fit(results, reference=None, prior_deviation=prior_deviation)
    apart = np.zeros(results.num)
    apart[a] += 1.0
    apart[b] -= 1.0
    moved = hessian.solve(apart, tolerance=_ACCURACY)
    # The covariance is H⁻¹ (H - S) H⁻¹, where S is the Laplacian of the variance that draws remove.
    lead = moved[results.pairs[:, 0]] - moved[results.pairs[:, 1]]
    variance = float(apart @ moved - _variance_removed_by_draws(results, strength) @ lead**2)
    return float(apart @ strength) * ELO_POINTS, math.sqrt(max(variance, 0.0)) * ELO_POINTS


def _fit(results: PairResults, *, reference: int | None, prior_deviation: float) -> tuple[NDArray[np.float64], Hessian]:
    """Return the strengths ``[n]`` in log-odds, and the Hessian there."""
    if prior_deviation <= 0:
        raise ValueError(f"prior_deviation: expected > 0 Elo points, got {prior_deviation}")
    n = results.num
    return fit_bradley_terry(
        results.pairs,
        results.points,
        fixed=-1 if reference is None else reference % n,
        start=np.zeros(n),
        group=np.arange(n) * min(n, GROUPS) // max(n, 1),
        precision=(ELO_POINTS / prior_deviation) ** 2,
    )


def _laplacian(results: PairResults, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix ``[n, n]`` of the quadratic form Σ weight_ab (x_a - x_b)² over pairs."""
    a, b = results.pairs.T
    laplacian = np.diag(_sums(results, weight))
    laplacian[a, b] = laplacian[b, a] = -weight
    return laplacian


def _sums(results: PairResults, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``[n]``: the sum of weights over the pairs of every participant."""
    return np.bincount(results.pairs.ravel(), np.repeat(weight, 2), results.num).astype(np.float64)


def _variance_removed_by_draws(results: PairResults, strength: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``[pairs]``: the variance of the points that draws remove, compared with the model.

    One match of expectation p that is drawn with probability d has the variance p(1 - p) - d/4. The lower end of
    Wilson's interval is used for d, so that a few draws alone do not make a rating certain.
    """
    a, b = results.pairs.T
    games = results.points.sum(axis=1)
    n = np.maximum(games, 1.0)
    share, z2 = results.draws / n, Z95**2
    low = (share + z2 / (2 * n) - Z95 * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    win = 0.5 * (1.0 + np.tanh(0.5 * (strength[a] - strength[b])))
    most = 0.9 * win * (1.0 - win)  # what is left must stay positive
    return np.asarray(games * np.clip(low / 4, 0.0, most))
