"""Is B better than A? Evidence of their own matches and of others', put together.

* **Direct**: B's score against A. Matches played twice on the same seed, with exchanged seats, are one observation:
  what luck and seats give to one side they take from it in the other match, so the interval is narrower.
* **Indirect**: the difference of Bradley-Terry ratings fitted to all matches but their own.

Both are brought to the Elo scale and weighted by their certainty. Where they contradict each other (outside of their
common 95 % interval) results are not transitive, and only the direct evidence counts. The answer is given where the
95 % interval leaves out 0. It holds for one look at the data: whoever looks after every match, and stops at the first
answer, errs more often than in 1 of 20 cases.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from attrs import frozen
from numpy.typing import ArrayLike

from ludus_ratings.elo import ELO_POINTS
from ludus_ratings.payoff import Meetings, connected
from ludus_ratings.strengths import Z95, rating_difference

__all__ = ["Comparison", "Difference", "DirectEvidence", "compare", "compare_meetings", "direct_evidence"]

_Z80 = 0.8416212335729143  # the standard normal quantile of 80 %
_PSEUDO = 2.0  # wins and losses each that are believed beforehand; z² / 2, as Agresti and Coull have it


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
        matches: How many matches.
        seeds: On how many different seeds; half as many where all have been played with exchanged seats.
        score: B's share of the points; NaN without matches.
        low: Lower end of its 95 % interval.
        high: Upper end of it.
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
    """The answer.

    Attributes:
        verdict: What B is: ``"better"``, ``"worse"``, or ``"undecided"``.
        direct: Their own matches.
        indirect: By Bradley-Terry through others; None where no chain of others connects them.
        combined: Both together; None without any evidence.
        contradiction: Whether direct and indirect evidence contradict each other; then `combined` is the direct one.
        more_matches: About how many more matches between them would decide it, in four of five cases, if the
            difference is as large as it looks now; 0 where it is decided, None where they look equal or nothing is
            known.
    """

    verdict: Literal["better", "worse", "undecided"]
    direct: DirectEvidence
    indirect: Difference | None
    combined: Difference | None
    contradiction: bool
    more_matches: int | None


def direct_evidence(scores: ArrayLike, *, seeds: ArrayLike | None = None) -> DirectEvidence:
    """Weigh matches of B against A.

    The interval is normal around a share to which two wins and two losses are added, so that a few equal results do
    not look certain (Agresti and Coull 1998); matches on one seed are one observation that counts as often as they are.

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
    """Say whether participant b is better than a.

    Args:
        points: ``[n, n]``: wins + ½ draws of i against j, as for `bradley_terry`; what it says of a against b is of no
            account, `scores` say that.
        a: Index of A.
        b: Index of B ≠ A.
        scores: ``[m]``: B's points against A, as for `direct_evidence`.
        seeds: ``[m]``: on which seeds, as for `direct_evidence`.
        draws: ``[n, n]``: how many of the matches were drawn, as for `bradley_terry`.
    """
    return compare_meetings(Meetings.of(points, draws), a, b, scores=scores, seeds=seeds)


def compare_meetings(
    meetings: Meetings, a: int, b: int, *, scores: ArrayLike = (), seeds: ArrayLike | None = None
) -> Comparison:
    """Do what `compare` does in a league of many: time and memory grow with the number of pairs that have met."""
    direct = direct_evidence(scores, seeds=seeds)
    indirect = _indirect(meetings, a, b)
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


def _indirect(meetings: Meetings, a: int, b: int) -> Difference | None:
    a, b = a % meetings.num, b % meetings.num
    others = ~np.isin(meetings.ends, (a, b)).all(axis=1)
    label = connected(meetings.ends[others], meetings.num)
    member = label == label[a]
    if not member[b]:
        return None
    told = others & member[meetings.ends[:, 0]]  # nobody else can tell anything
    place = np.cumsum(member) - 1
    inside = Meetings(
        num=int(member.sum()),
        ends=place[meetings.ends[told]],
        points=meetings.points[told],
        draws=meetings.draws[told],
    )
    return Difference(*rating_difference(inside, int(place[b]), int(place[a])))


def _weighted(first: Difference, second: Difference) -> Difference:
    weights = np.array([first.deviation, second.deviation]) ** -2.0
    mean = float(weights @ [first.mean, second.mean] / weights.sum())
    return Difference(mean, float(weights.sum() ** -0.5))


def _more_matches(combined: Difference | None, direct: DirectEvidence) -> int | None:
    """Return how many more matches make the interval so narrow that it leaves out 0 in four of five cases."""
    if combined is None or abs(combined.mean) < 1e-9:
        return None
    if direct.difference is not None and direct.matches >= 20:
        informed = direct.difference.deviation**-2.0 / (direct.matches + 2 * _PSEUDO)
    else:  # as Bradley and Terry's model says for matches without draws
        share = 0.5 * (1.0 + math.tanh(0.5 * combined.mean / ELO_POINTS))
        informed = share * (1.0 - share) / ELO_POINTS**2
    missing = ((Z95 + _Z80) / combined.mean) ** 2 - combined.deviation**-2.0
    return max(2, 2 * math.ceil(float(missing / informed) / 2))
