"""The rating ``elo``: a Bradley-Terry fit of all evaluation matches of a league; 400 points are odds of 10 to 1.

A draw is half a win. In a game whose teams have different roles each side has a scale of its own, and the fit has a
term for the advantage of a side. The anchor ``random`` has the rating 0, else the first anchor, else (without anchors)
the mean of all ratings of a side is 0.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from ludus.matchmaker import Rating
from numpy.typing import NDArray

from ludus_ratings.elo import ELO_POINTS
from ludus_ratings.fit import GROUPS, Floats, Hessian, Indices, fit_bradley_terry
from ludus_ratings.sides import Sides

if TYPE_CHECKING:
    from ludus.environment import Seat
    from ludus.runs import MatchRecord

__all__ = ["PRIOR", "EloTable"]

#: Rating of a participant without matches; a dozen matches outweigh it.
PRIOR = Rating(0.0, 1000.0, 0)

_PRECISION = (ELO_POINTS / PRIOR.deviation) ** 2  # of the prior, in log-odds
_ADVANTAGE_PRECISION = 1e-4 * _PRECISION  # so small that skill does not explain an advantage


class EloTable:
    """Maximum-likelihood Elo ratings with standard errors, refitted at the first read after new matches.

    Participant i of side k scores sigmoid(r_i + g_k - r_j - g_l) of the points against j of side l, where g_k - g_l is
    the advantage of side k over side l. The fit maximises Σ s_ij log sigmoid(r_i + g_k - r_j - g_l) over all points
    s_ij (wins + ½ draws) plus the prior: ratings are normally distributed around 0 with a deviation of 1000 points,
    which keeps an undefeated participant finite, and the advantage over the first side with one of 100,000 points. The
    rating of the reference, one anchor per side, is 0 ± 0. The standard error is taken from the inverse Hessian at the
    maximum; it is too large where matches are drawn, which vary less than the model assumes.

    A match of K teams gives a result for every pair of participants. These results are not independent: for equal
    strengths the variance of their sum is (K + 1) / 3 times that of as many separate matches (Mann and Whitney 1947).
    So each counts as 3 / (K + 1) matches, which changes the standard errors and leaves the maximum where it is.

    Args:
        config: There are no options.
        anchors: The rated anchors, see `ludus.matchmaker.rated_anchors`.
        seats: Seats of a match.
        sides: Side by player; a player without a side belongs to the only one.
    """

    def __init__(
        self,
        config: None = None,  # noqa: ARG002
        *,
        anchors: Sequence[str] = (),
        seats: Sequence[Seat] = (),
        sides: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        num_teams = max(2, len({seat.team for seat in seats}))
        self._weight = 3.0 / (num_teams + 1)  # of a result, in matches
        self._sides = Sides(anchors, sides)
        self._index: dict[str, int] = {}
        self._pairs: dict[tuple[int, int], int] = {}  # position of a pair in the two arrays
        self._ends = array("q")  # [pairs, 2] participants
        self._points = array("d")  # [pairs, 2] points of each participant
        self._strength = np.zeros(0)  # [fitted] log-odds, r_i + g_k - g_0; the next fit starts from them
        self._center: Indices = np.zeros(0, np.int64)  # [fitted] where the strength is g_k - g_0; -1: it is 0
        self._matches: Floats = np.zeros(0)  # [fitted] results
        self._hessian: Hessian  # at those strengths
        self._ratings: dict[str, Rating] = {}  # those read since the last fit
        self._stale = False

    def add(self, a: str, b: str, count: np.ndarray) -> None:
        """Add ``[3]`` wins, draws and losses of a against b. The caller also adds the mirrored counts of (b, a)."""
        i, j = (self._index.setdefault(name, len(self._index)) for name in (a, b))
        pairs = (min(i, j), max(i, j))
        at = self._pairs.setdefault(pairs, len(self._pairs))
        if 2 * at == len(self._ends):
            self._ends.extend(pairs)
            self._points.extend((0.0, 0.0))
        self._points[2 * at + (i > j)] += float(count[0] + 0.5 * count[1])
        self._stale = True

    def replay(self, first: int, matches: Iterable[MatchRecord]) -> None:
        """Ignore the matches: the sums of `add` are enough."""

    def rating(self, participant: str) -> Rating:
        """Return a rating in Elo points; `PRIOR` for a participant without matches."""
        if self._stale:
            self._fit()
        rating = self._ratings.get(participant)
        if rating is None and participant in self._index:
            rating = self._ratings[participant] = self._read(participant, self._index[participant])
        return rating or PRIOR

    def _read(self, participant: str, i: int) -> Rating:
        matches, center = round(float(self._matches[i])), int(self._center[i])
        if participant == self._sides.reference(participant):
            return Rating(0.0, 0.0, matches)
        strength = self._strength[i] - (self._strength[center] if center >= 0 else 0.0)
        # Rounded, because the last bits depend on the order of the matches, and a restart must change nothing.
        mean = round(float(strength) * ELO_POINTS, 6)
        return Rating(mean, cache(partial(self._hessian.deviation, i)), matches)

    def _fit(self) -> None:
        n = len(self._index)
        pairs, points = np.array(self._ends).reshape(-1, 2), np.array(self._points).reshape(-1, 2)
        # Models of similar age have met; their names sort by age.
        names = sorted(self._index, key=lambda name: (len(name), name))
        group = np.empty(n, np.int64)
        group[[self._index[name] for name in names]] = np.arange(n) * min(n, GROUPS) // n
        fixed, self._center = self._centers()
        num_centers = len(self._center) - n  # of sides whose reference has no matches
        known = self._strength[: len(self._matches)]
        start = np.concatenate([known, np.zeros(len(self._center) - len(known))])
        self._strength, self._hessian = fit_bradley_terry(
            pairs,
            self._weight * points,
            fixed=fixed,
            start=start,
            group=np.concatenate([group, np.arange(num_centers) + 1 + group.max()]),
            precision=np.where(self._is_center(), _ADVANTAGE_PRECISION, _PRECISION),
            center=self._center,
        )
        self._matches = np.bincount(pairs.ravel(), np.repeat(points.sum(axis=1), 2), n).astype(np.float64)
        self._ratings = {}
        self._stale = False

    def _is_center(self) -> NDArray[np.bool_]:
        """Return ``[fitted]``: whether the strength is the advantage of a side."""
        return np.isin(np.arange(len(self._center)), self._center)

    def _centers(self) -> tuple[int, Indices]:
        """Return the fixed participant, and the centre of every participant.

        The strengths of the first side are centred around 0, where its reference is fixed; those of another side around
        its reference. A side whose reference has no matches has a centre without results.
        """
        side_of = {name: self._sides.side(name) for name in self._index}
        first, *others = sorted(set(side_of.values()))
        num = len(self._index)
        centers = {first: -1}
        for side in others:
            centers[side] = self._index.get(self._sides.references.get(side, ""), num)
            num += centers[side] == num
        center = np.full(num, -1)
        for name, i in self._index.items():
            center[i] = -1 if centers[side_of[name]] == i else centers[side_of[name]]
        return self._index.get(self._sides.references.get(first, ""), -1), center
