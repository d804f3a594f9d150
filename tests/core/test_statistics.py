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
def test_without_draws_it_is_wilsons_interval(wins, losses):
    """Win/loss records get the textbook interval."""
    result = score(wins, 0, losses)
    assert (result.low, result.high) == pytest.approx(wilson(wins, wins + losses), abs=1e-12)


def test_a_published_value():
    """8 of 10 has Wilson's interval 0.490 to 0.943."""
    result = score(8, 0, 2)
    assert (result.score, result.low, result.high) == pytest.approx((0.8, 0.4902, 0.9433), abs=1e-4)


def test_draws_are_half():
    """3 wins, 4 draws and 3 losses are half of the points."""
    assert score(3, 4, 3).score == 0.5


def test_draws_narrow_the_interval():
    """Draws vary less than wins and losses with the same share of points."""
    few, many = score(50, 0, 50), score(10, 80, 10)
    assert many.high - many.low < 0.6 * (few.high - few.low)


def test_nothing_won_or_lost():
    """All lost has 0 as its lower bound exactly, all won 1 as its upper, and neither is certain."""
    lost, won = score(0, 0, 20), score(20, 0, 0)
    assert lost.low == 0.0
    assert 0.1 < lost.high < 0.2
    assert (won.low, won.high) == pytest.approx((1 - lost.high, 1 - lost.low))


def test_only_draws_are_not_certain():
    """A hundred draws leave room for a win or a loss."""
    result = score(0, 100, 0)
    assert result.low < 0.49
    assert result.high > 0.51


def test_without_matches_everything_is_possible():
    """Nothing is known, and JSON says null rather than NaN."""
    result = score(0, 0, 0)
    assert math.isnan(result.score)
    assert result.json() == {"wins": 0, "draws": 0, "losses": 0, "score": None, "interval": [0.0, 1.0]}


def test_json_has_what_programs_need():
    """The interval is a pair and the score a number."""
    data = score(2, 1, 1).json()
    assert data["score"] == 0.625
    assert data["interval"] == [score(2, 1, 1).low, score(2, 1, 1).high]


@settings(deadline=None, max_examples=200)
@given(wins=COUNTS, draws=COUNTS, losses=COUNTS)
def test_the_interval_holds_the_score_and_lies_in_0_1(wins, draws, losses):
    """Whatever the record, 0 ≤ low ≤ score ≤ high ≤ 1."""
    result = score(wins, draws, losses)
    assert result.matches == wins + draws + losses
    if result.matches:
        assert 0.0 <= result.low <= result.score <= result.high <= 1.0
        assert result.high - result.low > 0.0


@settings(deadline=None, max_examples=100)
@given(wins=COUNTS, draws=COUNTS, losses=COUNTS)
def test_the_other_side_sees_the_mirror_image(wins, draws, losses):
    """Exchanging wins and losses mirrors the interval."""
    mine, theirs = score(wins, draws, losses), score(losses, draws, wins)
    assert (mine.low, mine.high) == pytest.approx((1 - theirs.high, 1 - theirs.low), abs=1e-9)


@pytest.mark.parametrize("chances", [(0.5, 0.0, 0.5), (0.3, 0.5, 0.2), (0.05, 0.9, 0.05), (0.9, 0.05, 0.05)])
@pytest.mark.parametrize("matches", [20, 200])
def test_it_covers_the_truth_about_95_times_in_100(chances, matches):
    """Simulated records: the interval holds the true share in at least 93 % of the cases."""
    truth = chances[0] + 0.5 * chances[1]
    counts = np.random.default_rng(0).multinomial(matches, chances, size=2000).tolist()
    covered = np.mean([(s := score(*c)).low <= truth <= s.high for c in counts])
    assert covered >= 0.93
