"""Scores and their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus._league.statistics import score

COUNTS = st.integers(0, 300)


def wilson(wins: int, n: int) -> tuple[float, float]:
    """Wilson's interval in its textbook form."""
    z, p = 1.959963984540054, wins / n
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (p + z * z / (2 * n) - half) / (1 + z * z / n), (p + z * z / (2 * n) + half) / (1 + z * z / n)


@pytest.mark.parametrize(("wins", "losses"), [(1, 1), (8, 2), (55, 45), (3, 97)])
def test_interval_without_draws_is_wilsons(wins, losses):
    """Without draws, `score` returns the textbook interval."""
    result = score(wins, 0, losses)
    assert (result.low, result.high) == pytest.approx(wilson(wins, wins + losses), abs=1e-12)


def test_published_value():
    """Wilson's interval of 8 wins in 10 matches is 0.490 to 0.943."""
    result = score(8, 0, 2)
    assert (result.score, result.low, result.high) == pytest.approx((0.8, 0.4902, 0.9433), abs=1e-4)


def test_draw_counts_half():
    """3 wins, 4 draws and 3 losses give a score of 0.5."""
    assert score(3, 4, 3).score == 0.5


def test_draws_narrow_the_interval():
    """The interval is narrower with draws than without, for the same score."""
    few, many = score(50, 0, 50), score(10, 80, 10)
    assert many.high - many.low < 0.6 * (few.high - few.low)


def test_interval_ends_without_wins_or_losses():
    """The lower end is 0 if all matches are lost, the upper end 1 if all are won; the other end differs."""
    lost, won = score(0, 0, 20), score(20, 0, 0)
    assert lost.low == 0.0
    assert 0.1 < lost.high < 0.2
    assert (won.low, won.high) == pytest.approx((1 - lost.high, 1 - lost.low))


def test_interval_of_draws_has_a_width():
    """The interval of a hundred draws is wider than a point."""
    result = score(0, 100, 0)
    assert result.low < 0.49
    assert result.high > 0.51


def test_interval_without_matches():
    """The interval is [0, 1]; the score is NaN, and null in JSON."""
    result = score(0, 0, 0)
    assert math.isnan(result.score)
    assert result.json() == {"wins": 0, "draws": 0, "losses": 0, "score": None, "interval": [0.0, 1.0]}


def test_json():
    """`json` returns the score as a number and the interval as a pair."""
    data = score(2, 1, 1).json()
    assert data["score"] == 0.625
    assert data["interval"] == [score(2, 1, 1).low, score(2, 1, 1).high]


@settings(deadline=None, max_examples=200)
@given(wins=COUNTS, draws=COUNTS, losses=COUNTS)
def test_interval_contains_the_score(wins, draws, losses):
    """For all counts, 0 ≤ low ≤ score ≤ high ≤ 1."""
    result = score(wins, draws, losses)
    assert result.matches == wins + draws + losses
    if result.matches:
        assert 0.0 <= result.low <= result.score <= result.high <= 1.0
        assert result.high - result.low > 0.0


@settings(deadline=None, max_examples=100)
@given(wins=COUNTS, draws=COUNTS, losses=COUNTS)
def test_exchanging_wins_and_losses_mirrors_the_interval(wins, draws, losses):
    """The ends become one minus the opposite ends."""
    mine, theirs = score(wins, draws, losses), score(losses, draws, wins)
    assert (mine.low, mine.high) == pytest.approx((1 - theirs.high, 1 - theirs.low), abs=1e-9)


@pytest.mark.parametrize("chances", [(0.5, 0.0, 0.5), (0.3, 0.5, 0.2), (0.05, 0.9, 0.05), (0.9, 0.05, 0.05)])
@pytest.mark.parametrize("matches", [20, 200])
def test_coverage_of_the_interval(chances, matches):
    """The interval contains the true score in at least 93 % of simulated cases."""
    truth = chances[0] + 0.5 * chances[1]
    counts = np.random.default_rng(0).multinomial(matches, chances, size=2000).tolist()
    covered = np.mean([(s := score(*c)).low <= truth <= s.high for c in counts])
    assert covered >= 0.93
