"""Comparison of two participants A and B by direct and indirect evidence.

* **Direct**: B's score against A. Two matches on the same seed with exchanged seats are one observation: luck and seats
  cancel out, so the interval is narrower.
* **Indirect**: the difference of Bradley-Terry ratings fitted to all other matches.

Both are converted to the Elo scale and weighted by their inverse variance. If they contradict each other (their
difference is outside its 95 % interval), results are not transitive, and only the direct evidence counts. The verdict
is decided if the 95 % interval excludes 0. This holds for a single test: testing after every match, and stopping at the
first decided verdict, errs in more than 5 % of cases.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from attrs import frozen
from numpy.typing import ArrayLike

from ludus_ratings.elo import ELO_POINTS
from ludus_ratings.payoff import PairResults, component_labels
from ludus_ratings.strengths import Z95, rating_difference

_Z80 = 0.8416212335729143  # the standard normal quantile of 80 %
_PSEUDO = 2.0  # wins and losses that are added, each: z² / 2 (Agresti and Coull)


@frozen
class Difference:
    """A rating of B minus a rating of A, in Elo points, with one standard deviation."""

    mean: float
    deviation: float

    @property
    def low(self) -> float:
        """Return the lower end of the 95 % interval."""
        return self.mean - Z95 * self.deviation

    @property
    def high(self) -> float:
        """Return the upper end of the 95 % interval."""
        return self.mean + Z95 * self.deviation


@frozen(kw_only=True)
class DirectEvidence:
    """Matches of B against A.

    Attributes:
        matches: Number of matches.
        seeds: Number of different seeds; half of the matches if all were played with exchanged seats.
        score: B's share of the points; NaN without matches.
        low: Lower end of the 95 % interval of the score.
        high: Upper end of that interval.
        difference: The same on the Elo scale; None without matches.
    """

    matches: int
    seeds: int
    score: float
    low: float
    high: float
    difference: Difference | None


@frozen(kw_only=True)
class Comparison:
    """Result of a comparison of B with A.

    Attributes:
        verdict: ``"better"`` or ``"worse"`` if B is, or ``"undecided"``.
        direct: Evidence of the matches between A and B.
        indirect: Evidence of all other matches; None if no chain of matches connects A and B.
        combined: Both combined; None without evidence.
        contradiction: Whether direct and indirect evidence contradict each other; then `combined` is the direct one.
        more_matches: Estimated number of further matches between A and B that decide with a probability of 80 %, if the
            difference is the present estimate; 0 if decided, None if the estimate is 0 or there is no evidence.
    """

    verdict: Literal["better", "worse", "undecided"]
    direct: DirectEvidence
    indirect: Difference | None
    combined: Difference | None
    contradiction: bool
    more_matches: int | None


def direct_evidence(scores: ArrayLike, *, seeds: ArrayLike | None = None) -> DirectEvidence:
    """Return the score of B against A with its interval.

    The interval is the normal one around the share with two wins and two losses added, so that a few equal results do
    not seem certain (Agresti and Coull 1998). Matches on one seed are one observation, weighted by their number.

    Args:
        scores: ``[m] float64``: B's points in [0, 1].
        seeds: ``[m]``: equal for matches on the same seed with exchanged seats; None: all are different.
    """
    won = np.asarray(scores, np.float64).reshape(-1)
    if not won.size:
        return DirectEvidence(matches=0, seeds=0, score=math.nan, low=0.0, high=1.0, difference=None)
    group = np.arange(won.size) if seeds is None else np.unique(np.asarray(seeds), return_inverse=True)[1].reshape(-1)
    size = np.bincount(group)
    mean_of_seed = np.bincount(group, weights=won) / size
    points = np.concatenate([mean_of_seed, [0.0, 1.0]])
    weight = np.concatenate([size, [_PSEUDO, _PSEUDO]])
    squares = np.concatenate([size**2, [_PSEUDO, _PSEUDO]])
    mean, score = float(weight @ points / weight.sum()), float(won.mean())
    deviation = math.sqrt(float(squares @ (points - mean) ** 2)) / float(weight.sum())
    slope = ELO_POINTS / (mean * (1.0 - mean))
    return DirectEvidence(
        matches=won.size,
        seeds=size.size,
        score=score,
        low=min(max(mean - Z95 * deviation, 0.0), score),
        high=max(min(mean + Z95 * deviation, 1.0), score),
        difference=Difference(ELO_POINTS * math.log(mean / (1.0 - mean)), slope * deviation),
    )


def compare(
    points: ArrayLike,
    a: int,
    b: int,
    *,
    scores: ArrayLike = (),
    seeds: ArrayLike | None = None,
    draws: ArrayLike | None = None,
) -> Comparison:
    """Return whether participant b is better than a.

    Args:
        points: ``[n, n]``: wins + ½ draws of i against j, as for `bradley_terry`. Its entries of a against b are
            ignored in favour of `scores`.
        a: Index of A.
        b: Index of B ≠ A.
        scores: ``[m]``: B's points against A, as for `direct_evidence`.
        seeds: ``[m]``: seeds of these matches, as for `direct_evidence`.
        draws: ``[n, n]``: numbers of drawn matches, as for `bradley_terry`.
    """
    return compare_pair_results(PairResults.from_points(points, draws), a, b, scores=scores, seeds=seeds)


def compare_pair_results(
    results: PairResults, a: int, b: int, *, scores: ArrayLike = (), seeds: ArrayLike | None = None
) -> Comparison:
    """Return what `compare` returns; time and memory grow with the number of pairs that have met."""
    direct = direct_evidence(scores, seeds=seeds)
    indirect = _indirect(results, a, b)
    contradiction = False
    combined = direct.difference or indirect
    if direct.difference is not None and indirect is not None:
        gap = direct.difference.mean - indirect.mean
        contradiction = abs(gap) > Z95 * math.hypot(direct.difference.deviation, indirect.deviation)
        combined = direct.difference if contradiction else _weighted(direct.difference, indirect)
    verdict: Literal["better", "worse", "undecided"] = "undecided"
    if combined is not None and combined.low * combined.high > 0:
        verdict = "better" if combined.mean > 0 else "worse"
    return Comparison(
        verdict=verdict,
        direct=direct,
        indirect=indirect,
        combined=combined,
        contradiction=contradiction,
        more_matches=0 if verdict != "undecided" else _more_matches(combined, direct),
    )


def _indirect(results: PairResults, a: int, b: int) -> Difference | None:
    a, b = a % results.num, b % results.num
    others = ~np.isin(results.pairs, (a, b)).all(axis=1)
    label = component_labels(results.pairs[others], results.num)
    member = label == label[a]
    if not member[b]:
        return None
    relevant = others & member[results.pairs[:, 0]]  # the other components hold no evidence
    place = np.cumsum(member) - 1
    inside = PairResults(
        num=int(member.sum()),
        pairs=place[results.pairs[relevant]],
        points=results.points[relevant],
        draws=results.draws[relevant],
    )
    return Difference(*rating_difference(inside, int(place[b]), int(place[a])))


def _weighted(first: Difference, second: Difference) -> Difference:
    weights = np.array([first.deviation, second.deviation]) ** -2.0
    mean = float(weights @ [first.mean, second.mean] / weights.sum())
    return Difference(mean, float(weights.sum() ** -0.5))


def _more_matches(combined: Difference | None, direct: DirectEvidence) -> int | None:
    """Return the number of further matches after which the interval excludes 0 with a probability of 80 %."""
    if combined is None or abs(combined.mean) < 1e-9:
        return None
    if direct.difference is not None and direct.matches >= 20:
        per_match = direct.difference.deviation**-2.0 / (direct.matches + 2 * _PSEUDO)
    else:  # the Bradley-Terry model without draws
        share = 0.5 * (1.0 + math.tanh(0.5 * combined.mean / ELO_POINTS))
        per_match = share * (1.0 - share) / ELO_POINTS**2
    missing = ((Z95 + _Z80) / combined.mean) ** 2 - combined.deviation**-2.0
    return max(2, 2 * math.ceil(float(missing / per_match) / 2))
