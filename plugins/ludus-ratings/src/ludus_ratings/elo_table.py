"""The rating ``elo``: a Bradley-Terry fit of all evaluation matches of a league; 400 points are odds of 10 to 1.

The anchor ``random`` has the rating 0, else the first anchor, else (without anchors) the mean of all ratings is 0. A
draw is half a win.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
from ludus.matchmaker import Rating

from ludus_ratings.elo import ELO_POINTS
from ludus_ratings.fit import GROUPS, Floats, Hessian, fit_bradley_terry

if TYPE_CHECKING:
    from ludus.environment import Seat
    from ludus.runs import MatchRecord


#: Rating of a participant without matches; a dozen matches outweigh it.
PRIOR = Rating(0.0, 1000.0, 0)

_PRECISION = (ELO_POINTS / PRIOR.deviation) ** 2  # of the prior, in log-odds


class EloTable:
    """Maximum-likelihood Elo ratings with standard errors, refitted at the first read after new matches.

    The fit maximizes Σ s_ij log sigmoid(r_i - r_j) over all points s_ij (wins + ½ draws) plus the prior, a normal
    distribution of deviation 1000 points around 0, which keeps an undefeated participant finite. The standard error
    is taken from the inverse Hessian at the maximum; it is too large where matches are drawn, which vary less than the
    model assumes.

    A match of K teams gives a result for every pair of participants. These results are not independent: for equal
    strengths the variance of their sum is (K + 1) / 3 times that of as many separate matches (Mann and Whitney 1947).
    So each counts as 3 / (K + 1) matches, which changes the standard errors and leaves the maximum where it is.

    Args:
        config: There are no options.
        anchors: The scripted participants; one of them has the rating 0.
        seats: Seats of a match.
    """

    def __init__(self, config: None = None, *, anchors: Sequence[str] = (), seats: Sequence[Seat] = ()) -> None:  # noqa: ARG002
        num_teams = max(2, len({seat.team for seat in seats}))
        self._weight = 3.0 / (num_teams + 1)  # of a result, in matches
        self._reference = "random" if "random" in anchors else next(iter(anchors), None)
        self._index: dict[str, int] = {}
        self._pairs: dict[tuple[int, int], int] = {}  # position of a pair in the two arrays
        self._ends = array("q")  # [pairs, 2] participants
        self._points = array("d")  # [pairs, 2] points of each participant
        self._strength = np.zeros(0)  # [fitted] log-odds; the next fit starts from them
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
            i = self._index[participant]
            # Rounded, because the last bits depend on the order of the matches, and a restart must change nothing.
            mean, matches = round(float(self._strength[i]) * ELO_POINTS, 6), round(float(self._matches[i]))
            rating = self._ratings[participant] = Rating(mean, cache(partial(self._hessian.deviation, i)), matches)
        return rating or PRIOR

    def _fit(self) -> None:
        n = len(self._index)
        pairs, points = np.array(self._ends).reshape(-1, 2), np.array(self._points).reshape(-1, 2)
        fixed = self._index.get(self._reference or "", -1)
        start = np.concatenate([self._strength, np.zeros(n - len(self._strength))])
        # Models of similar age have met; their names sort by age.
        names = sorted(self._index, key=lambda name: (len(name), name))
        group = np.empty(n, np.int64)
        group[[self._index[name] for name in names]] = np.arange(n) * min(n, GROUPS) // n
        self._strength, self._hessian = fit_bradley_terry(
            pairs, self._weight * points, fixed=fixed, start=start, group=group, precision=_PRECISION
        )
        self._matches = np.bincount(pairs.ravel(), np.repeat(points.sum(axis=1), 2), n).astype(np.float64)
        self._ratings = {}
        self._stale = False
