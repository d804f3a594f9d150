"""Ratings: functions of the evaluation matches in the log, for frozen models and anchors only.

* `EloTable` — the maximum-likelihood Elo (Bradley-Terry) fit to all counts at once. It does not depend on the order of
  the matches and is what `LeagueView.rating` answers.
* `SequentialElo` — the classical update after every match with a K-factor.
* `SkillTable` — openskill's Plackett-Luce, for matches of any number of teams and seats.

The Elo scale: 400 points are odds of 10 to 1 and a draw is half a win. Its 0 is the anchor called ``random``, else the
first anchor, else (without anchors) the mean of everybody rated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ludus.matchmaker import Rating

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from openskill.models import PlackettLuceRating

__all__ = ["PRIOR", "EloTable", "SequentialElo", "SkillTable", "expected_score"]

#: What is believed of a participant without matches; so weak that a dozen matches outweigh it.
PRIOR = Rating(0.0, 1000.0, 0)

_POINTS = 400.0 / math.log(10.0)  # Elo points in one unit of log-odds
_TOLERANCE = 1e-10  # log-odds; so tight that a warm start ends where a cold one does


def expected_score(rating: float, opponent: float) -> float:
    """Return the share of points that Elo expects: 1 / (1 + 10^((opponent - rating) / 400))."""
    return 1.0 / (1.0 + math.exp((opponent - rating) / _POINTS))


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
        self._points = np.zeros((16, 16))  # [n, n]: points of the row's participant against the column's
        self._strength = np.zeros(0)  # [fitted] log-odds; the next fit starts from them
        self._ratings: dict[str, Rating] = {}
        self._stale = False

    def add(self, a: str, b: str, count: NDArray[np.int64]) -> None:
        """Add ``[3]`` wins, draws and losses of a against b. To be called for (b, a) with the mirrored counts too."""
        for name in (a, b):
            self._index.setdefault(name, len(self._index))
        if len(self._index) > len(self._points):
            grown = np.zeros((2 * len(self._index),) * 2)
            grown[: len(self._points), : len(self._points)] = self._points
            self._points = grown
        self._points[self._index[a], self._index[b]] += count[0] + 0.5 * count[1]
        self._stale = True

    def rating(self, participant: str) -> Rating:
        """Return a rating in Elo points; `PRIOR` for somebody without matches."""
        return self.ratings().get(participant, PRIOR)

    def ratings(self) -> Mapping[str, Rating]:
        """Return the ratings of everybody who has played, refitted if there are new matches."""
        if self._stale:
            self._fit()
        return self._ratings

    def _fit(self) -> None:
        n = len(self._index)
        points = self._points[:n, :n]
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


class SequentialElo:
    """Elo ratings moved after every match by K times what surprised; they start at 0 and their sum stays 0.

    Args:
        k: How far one match can move a rating, in points.
    """

    def __init__(self, k: float = 16.0) -> None:
        self._k = k
        self._means: dict[str, float] = {}
        self._matches: dict[str, int] = {}

    def add(self, a: str, b: str, score: float) -> None:
        """Take in one match: `score` is what a got of the 1 point."""
        mean_a, mean_b = self._means.get(a, PRIOR.mean), self._means.get(b, PRIOR.mean)
        change = self._k * (score - expected_score(mean_a, mean_b))
        self._means[a], self._means[b] = mean_a + change, mean_b - change
        for name in (a, b):
            self._matches[name] = self._matches.get(name, 0) + 1

    def ratings(self) -> Mapping[str, Rating]:
        """Return the ratings of everybody who has played; the method knows no deviation, so that is NaN."""
        return {name: Rating(mean, math.nan, self._matches[name]) for name, mean in self._means.items()}


class SkillTable:
    """openskill's Plackett-Luce ratings: a mean mu (25 at first) and a deviation sigma (25/3 at first)."""

    def __init__(self) -> None:
        from openskill.models import PlackettLuce  # noqa: PLC0415 - half a second that only this rating costs

        self._model = PlackettLuce()
        self._ratings: dict[str, PlackettLuceRating] = {}
        self._matches: dict[str, int] = {}

    def add(self, teams: Sequence[Sequence[str]], outcome: Sequence[float]) -> None:
        """Take in one match; one in which somebody sits in two teams tells nothing and is left out.

        Args:
            teams: The participants of every team; whoever holds several seats counts once.
            outcome: Points per team; equal points are a tie.
        """
        sides = [sorted(set(team)) for team in teams]
        names = [name for side in sides for name in side]
        if len(set(names)) < len(names):
            return
        before = [[self._ratings.get(name) or self._model.rating(name=name) for name in side] for side in sides]
        after = self._model.rate(before, ranks=[-points for points in outcome])
        for side, team in zip(sides, after, strict=True):
            for name, rating in zip(side, team, strict=True):
                self._ratings[name] = rating
                self._matches[name] = self._matches.get(name, 0) + 1

    def ratings(self) -> Mapping[str, Rating]:
        """Return mu and sigma of everybody who has played."""
        return {name: Rating(r.mu, r.sigma, self._matches[name]) for name, r in self._ratings.items()}
