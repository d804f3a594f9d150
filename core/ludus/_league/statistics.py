"""Scores with confidence intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from ludus.matchmaker import Statistic

_Z95 = 1.959963984540054  # the standard normal quantile of 97.5 %


@frozen
class Score:
    """Wins, draws and losses, the share of points, and the 95 % interval of that share.

    Without matches the score is NaN and the interval is [0, 1].
    """

    wins: int
    draws: int
    losses: int
    score: float
    low: float
    high: float

    @property
    def matches(self) -> int:
        """Return the number of matches."""
        return self.wins + self.draws + self.losses

    def json(self) -> dict[str, Any]:
        """Return JSON values: wins, draws, losses, score (null without matches), interval."""
        return {
            "wins": self.wins,
            "draws": self.draws,
            "losses": self.losses,
            "score": None if math.isnan(self.score) else self.score,
            "interval": [self.low, self.high],
        }


def score(wins: int, draws: int, losses: int) -> Score:
    """Return the share of points (wins + ½ draws) / n with its 95 % interval.

    Without draws this is Wilson's interval: the p with (p̂ - p)² ≤ z²/n · p(1 - p), where p(1 - p) is the variance of
    one match. A match that is drawn with probability d has the variance p(1 - p) - d/4. The lower end of Wilson's
    interval of the share of draws is used for d. So the interval is never wider than without draws, and it does not
    shrink to a point if all matches are draws.
    """
    n = wins + draws + losses
    if n == 0:
        return Score(wins, draws, losses, math.nan, 0.0, 1.0)
    share = (wins + 0.5 * draws) / n
    low, high = _interval(share, n, removed=_interval(draws / n, n, removed=0.0)[0] / 4)
    if wins == draws == 0:
        low = 0.0
    if losses == draws == 0:
        high = 1.0
    return Score(wins, draws, losses, share, min(low, share), max(high, share))


@frozen
class Mean:
    """A mean over matches and its 95 % interval."""

    mean: float
    low: float
    high: float
    matches: int

    def json(self) -> dict[str, Any]:
        """Return JSON values: mean, interval (null for a single match), matches."""
        interval = [self.low, self.high] if math.isfinite(self.low) else None
        return {"mean": self.mean, "interval": interval, "matches": self.matches}

    def minus(self, other: Mean) -> Mean:
        """Return the difference of two independent means; its matches are the fewer ones."""
        mean = self.mean - other.mean
        half = math.hypot(self.high - self.mean, other.high - other.mean)
        return Mean(mean, mean - half, mean + half, min(self.matches, other.matches))


def mean_of(statistic: Statistic) -> Mean:
    """Return the mean of a statistic with its 95 % interval, which is infinite for a single match.

    The interval is that of the normal distribution: mean ± 1.96 s / √n, where s² is the unbiased variance.
    """
    n = statistic.matches
    half = _Z95 * statistic.deviation / math.sqrt(n - 1) if n > 1 else math.inf
    return Mean(statistic.mean, statistic.mean - half, statistic.mean + half, n)


def _interval(share: float, n: int, *, removed: float) -> tuple[float, float]:
    """Return the ends of (share - p)² ≤ z²/n · (p - p² - removed), within [0, 1]."""
    z2 = _Z95 * _Z95 / n
    # the same as (1 + z2) p² - (2 share + z2) p + share² + z2 removed ≤ 0
    middle = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(max(middle * middle - (share * share + z2 * removed) / (1 + z2), 0.0))
    return max(middle - half, 0.0), min(middle + half, 1.0)
