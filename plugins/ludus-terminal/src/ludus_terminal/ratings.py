"""Other ratings than the league's own, computed match by match in the order of the log.

* `SequentialElo` — the classical Elo update with a K-factor.
* `SkillTable` — openskill's Plackett-Luce, for matches of any number of teams and seats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ludus.matchmaker import Rating

if TYPE_CHECKING:
    from openskill.models import PlackettLuceRating

__all__ = ["SequentialElo", "SkillTable", "expected_score"]


def expected_score(rating: float, opponent: float) -> float:
    """Return the share of points that Elo expects: 1 / (1 + 10^((opponent - rating) / 400))."""
    return 1.0 / (1.0 + math.pow(10.0, (opponent - rating) / 400.0))


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
        mean_a, mean_b = self._means.get(a, 0.0), self._means.get(b, 0.0)
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
