"""Tables of results: sums, gaps, components."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from ludus_ratings import components, log_odds, points_from_matches, win_rates
from ludus_ratings.payoff import component_labels

TABLES = arrays(np.float64, (4, 4), elements=st.integers(0, 50).map(float)).map(lambda t: t * (1 - np.eye(4)))


def test_matches_add_up():
    """A win is a point, a draw half a point for both."""
    points = points_from_matches([0, 0, 1, 2], [1, 1, 0, 0], [1, 0.5, 0, 0.25], num=3)
    assert points.tolist() == [[0, 2.5, 0.75], [0.5, 0, 0], [0.25, 0, 0]]


def test_no_matches_are_zeros():
    """Also for no participants."""
    assert points_from_matches([], [], [], num=2).tolist() == [[0, 0], [0, 0]]
    assert points_from_matches([], [], [], num=0).shape == (0, 0)


def test_matches_of_a_participant_against_itself_are_left_out():
    """They hold no evidence."""
    assert points_from_matches([0, 0], [0, 1], [1, 1], num=2).tolist() == [[0, 1], [0, 0]]


def test_components_are_connected_participants():
    """A chain of matches connects, whoever won; a participant without matches is alone."""
    points = np.zeros((6, 6))
    points[4, 1] = points[3, 4] = points[2, 0] = 1
    assert components(points).tolist() == [0, 1, 0, 1, 1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_components_are_the_reachable_participants(seed):
    """The test searches the graph; a component is labelled by its first participant."""
    rng = np.random.default_rng(seed)
    num = int(rng.integers(1, 40))
    pairs = rng.integers(0, num, (int(rng.integers(0, num)), 2))
    label = component_labels(pairs, num)
    for first in range(num):
        reached = {first}
        while more := {int(b) for a, b in [*pairs, *pairs[:, ::-1]] if a in reached} - reached:
            reached |= more
        assert set(np.flatnonzero(label == label[first])) == reached
        assert label[first] == min(reached)


def test_components_of_an_empty_table():
    """There are none."""
    assert components(np.zeros((0, 0))).tolist() == []


def test_win_rates_by_hand():
    """3 of 4 points and one prior match: 3.5 of 5; a pair without matches is even."""
    points = np.zeros((3, 3))
    points[0, 1], points[1, 0] = 3, 1
    assert win_rates(points).tolist() == [[0.5, 0.7, 0.5], [0.3, 0.5, 0.5], [0.5, 0.5, 0.5]]


def test_gaps_are_filled_with_what_is_expected():
    """Two prior matches of 0.9 are 1.8 points."""
    points = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], float)
    expected = np.array([[0.5, 0.9, 0.9], [0.1, 0.5, 0.5], [0.1, 0.5, 0.5]])
    rates = win_rates(points, expected=expected, weight=2.0)
    assert rates[0].tolist() == pytest.approx([0.5, 2.8 / 4, 0.9])


@settings(deadline=None, max_examples=30)
@given(TABLES)
def test_rates_and_odds_mirror(points):
    """The two entries of a pair add up to 1 and 0; no rate is 0 or 1."""
    rates, odds = win_rates(points), log_odds(points)
    assert np.allclose(rates + rates.T, 1)
    assert rates.min() > 0
    assert rates.max() < 1
    assert np.array_equal(odds, -odds.T)
    assert np.allclose(1 / (1 + np.exp(-odds)), rates)


def test_an_invalid_table_raises():
    """The error names what was expected."""
    with pytest.raises(ValueError, match="square"):
        components(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="diagonal"):
        win_rates(np.eye(2))
    with pytest.raises(ValueError, match=">= 0"):
        win_rates([[0, -1], [0, 0]])
    with pytest.raises(ValueError, match="weight"):
        win_rates(np.zeros((2, 2)), weight=0)
