"""The Elo scale and the update after every match, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_ratings import ELO_POINTS, expected_score, sequential_elo


@pytest.mark.parametrize(
    ("difference", "expected"), [(0, 0.5), (400, 10 / 11), (-400, 1 / 11), (100, 0.6401), (800, 0.9901)]
)
def test_expected_scores_are_those_of_the_elo_scale(difference, expected):
    """400 points are odds of 10 to 1."""
    assert expected_score(difference, 0) == pytest.approx(expected, abs=1e-4)


def test_expected_scores_broadcast():
    """Rows against columns; very large differences are 0 and 1, without a warning."""
    ratings = np.array([0.0, 1e6])
    assert expected_score(ratings[:, None], ratings[None, :]).tolist() == [[0.5, 0], [1, 0.5]]


def test_the_scale_in_log_odds():
    """400 points are ln 10."""
    assert pytest.approx(400 / 2.302585) == ELO_POINTS


def test_a_sequence_of_matches_by_hand():
    """K = 32: a win between equals gives 16; the next win gives 32 · (1 - 0.5460) = 14.53."""
    assert sequential_elo([0], [1], [1], num=2, k=32).tolist() == [16, -16]
    second = 16 + 32 * (1 - 1 / (1 + 10 ** (-32 / 400)))
    assert sequential_elo([0, 0], [1, 1], [1, 1], num=2, k=32)[0] == pytest.approx(second)
    third = second + 32 * (0.5 - 1 / (1 + 10 ** (-2 * second / 400)))
    assert sequential_elo([0, 0, 1], [1, 1, 0], [1, 1, 0.5], num=2, k=32)[0] == pytest.approx(third)


def test_the_update_moves_points_from_one_to_the_other():
    """The sum of all ratings does not change."""
    ratings = sequential_elo([0, 1, 2, 1], [1, 2, 0, 0], [1, 0.5, 0, 1], num=4, start=1000)
    assert ratings.sum() == pytest.approx(4000)
    assert ratings[3] == 1000


def test_a_match_against_itself_changes_nothing():
    """It holds no evidence."""
    assert sequential_elo([0], [0], [1], num=1).tolist() == [0]


def test_without_matches_ratings_stay_at_the_start():
    """Also without participants."""
    assert sequential_elo([], [], [], num=2, start=7).tolist() == [7, 7]
    assert sequential_elo([], [], [], num=0).tolist() == []


def test_endless_wins_rise_more_and_more_slowly():
    """After n wins of K = 16 a rating is far below 16 n."""
    ratings = [sequential_elo([0] * n, [1] * n, [1] * n, num=2)[0] for n in (10, 20, 40)]
    assert ratings[0] > ratings[1] - ratings[0] > (ratings[2] - ratings[1]) / 2
