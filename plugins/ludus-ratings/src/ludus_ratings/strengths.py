"""Bradley-Terry ratings of all matches at once, with intervals.

Participant i gets a share sigmoid(r_i - r_j) of the points against j; a draw is half a win and half a loss. The
ratings are those that make the points most likely, together with a prior: every rating is normally distributed around
0 with a deviation of 1000 Elo points. The prior is so weak that a dozen matches outweigh it, and it makes the answer
exist and unique for any data:

* who has no matches stays at 0 ± 1000 (one deviation);
* who has won all matches stays finite;
* parts that no chain of matches connects are each centred by the prior alone; the interval of a difference between
  them is that wide, see `Strengths.component`.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import define
from numpy.typing import ArrayLike, NDArray

from ludus_ratings.elo import ELO_POINTS, expected_score
from ludus_ratings.fit import GROUPS, Hessian, fit_bradley_terry
from ludus_ratings.payoff import Meetings, components

__all__ = ["Z95", "Strengths", "bradley_terry", "rating_difference"]

Z95 = 1.959963984540054  # the standard normal quantile of 97.5 %

_ACCURACY = 1e-9  # of the way in which a difference moves the ratings


@define(frozen=True, eq=False, kw_only=True)
class Strengths:
    """Bradley-Terry ratings.

    Attributes:
        mean: ``[n] float64``: ratings in Elo points.
        covariance: ``[n, n] float64``: of the ratings, in squared Elo points.
        matches: ``[n] float64``: how many matches everybody has played.
        component: ``[n] int64``: equal for who is connected by matches, as `ludus_ratings.components` says.
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
        """Return rating of a minus rating of b and the deviation of that, in Elo points."""
        c = self.covariance
        variance = c[a, a] + c[b, b] - 2.0 * c[a, b]
        return float(self.mean[a] - self.mean[b]), float(np.sqrt(max(variance, 0.0)))

    def expected(self) -> NDArray[np.float64]:
        """Return ``[n, n]``: the share of points of i against j that the ratings predict."""
        return np.asarray(expected_score(self.mean[:, None], self.mean[None, :]))


def bradley_terry(
    points: ArrayLike, *, draws: ArrayLike | None = None, reference: int | None = None, prior_deviation: float = 1000.0
) -> Strengths:
    """Fit the ratings; the cost of the covariance grows with the cube of n.

    Args:
        points: ``[n, n]``: wins + ½ draws of i against j.
        draws: ``[n, n]``, symmetric: how many of the matches were drawn. Draws vary less than wins and losses, so the
            intervals become narrower; without it they err on the wide side.
        reference: Whose rating is fixed at 0, with deviation 0; None: nobody's, and the mean of all ratings is 0.
        prior_deviation: Of the prior, in Elo points.

    Raises:
        ValueError: `points` is no such table, `draws` is not of its shape, or the prior is not positive.
    """
    meetings = Meetings.of(points, draws)
    strength, curvature = _fit(meetings, reference=reference, prior_deviation=prior_deviation)
    n = meetings.num
    free = np.ones(n, bool)
    if reference is not None:
        free[reference] = False
    hessian = curvature.whole()[np.ix_(free, free)]
    inverse = np.linalg.inv(hessian)
    inner = inverse
    if draws is not None:
        inner = inverse @ (hessian - _laplacian(meetings, _spared(meetings, strength))[np.ix_(free, free)]) @ inverse
    covariance = np.zeros((n, n))
    covariance[np.ix_(free, free)] = 0.5 * (inner + inner.T)
    return Strengths(
        mean=strength * ELO_POINTS,
        covariance=covariance * ELO_POINTS**2,
        matches=_sums(meetings, meetings.points.sum(axis=1)),
        component=components(points),
    )


def rating_difference(meetings: Meetings, a: int, b: int, *, prior_deviation: float = 1000.0) -> tuple[float, float]:
    """Return what `Strengths.difference` does with nobody fixed; the cost grows with the number of pairs that met.

    Raises:
        ValueError: The prior is not positive.
    """
    strength, hessian = _fit(meetings, reference=None, prior_deviation=prior_deviation)
    apart = np.zeros(meetings.num)
    apart[a] += 1.0
    apart[b] -= 1.0
    moved = hessian.solve(apart, accuracy=_ACCURACY)
    # of H⁻¹ (H - S) H⁻¹, where S is the Laplacian of what draws spare
    lead = moved[meetings.ends[:, 0]] - moved[meetings.ends[:, 1]]
    variance = float(apart @ moved - _spared(meetings, strength) @ lead**2)
    return float(apart @ strength) * ELO_POINTS, math.sqrt(max(variance, 0.0)) * ELO_POINTS


def _fit(meetings: Meetings, *, reference: int | None, prior_deviation: float) -> tuple[NDArray[np.float64], Hessian]:
    """Return strengths ``[n]`` in log-odds, and the second derivatives there."""
    if prior_deviation <= 0:
        raise ValueError(f"prior_deviation: expected > 0 Elo points, got {prior_deviation}")
    n = meetings.num
    return fit_bradley_terry(
        meetings.ends,
        meetings.points,
        fixed=-1 if reference is None else reference % n,
        start=np.zeros(n),
        group=np.arange(n) * min(n, GROUPS) // max(n, 1),
        precision=(ELO_POINTS / prior_deviation) ** 2,
    )


def _laplacian(meetings: Meetings, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quadratic form Σ weight_ab (x_a - x_b)² over pairs as a matrix ``[n, n]``."""
    a, b = meetings.ends.T
    whole = np.diag(_sums(meetings, weight))
    whole[a, b] = whole[b, a] = -weight
    return whole


def _sums(meetings: Meetings, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``[n]``: sums over the pairs of everybody."""
    return np.bincount(meetings.ends.ravel(), np.repeat(weight, 2), meetings.num).astype(np.float64)


def _spared(meetings: Meetings, strength: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``[pairs]``: by how much the points vary less than the model says because some matches were drawn.

    One match of expectation p that is drawn with probability d has the variance p(1 - p) - d/4. For d stands the lower
    end of Wilson's interval, so that a few draws alone do not make a rating certain.
    """
    a, b = meetings.ends.T
    games = meetings.points.sum(axis=1)
    n = np.maximum(games, 1.0)
    share, z2 = meetings.draws / n, Z95**2
    low = (share + z2 / (2 * n) - Z95 * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    win = 0.5 * (1.0 + np.tanh(0.5 * (strength[a] - strength[b])))
    most = 0.9 * win * (1.0 - win)  # what is left must stay positive
    return np.asarray(games * np.clip(low / 4, 0.0, most))
