"""Outcomes that follow from the returns of the teams of a match."""

from __future__ import annotations

import numpy as np
import pytest
from ludus._league.return_outcome import PLAIN_RULE, RELATIVE_RULE, ReturnOutcome, team_returns
from ludus.environment import Seat
from ludus.errors import WireError

PAIR = (Seat("player", 0, 0), Seat("player", 1, 1))
HUNT = (Seat("cat", 0, 0), Seat("mouse", 0, 1), Seat("mouse", 1, 1))


def returns(*rows):
    """Return ``[n, seats] float32``."""
    return np.array(rows, np.float32)


def results(**changes):
    """Return the arrays of one match of a report."""
    arrays = {"fixture": np.array([1]), "number": np.array([0]), "outcome": np.full((1, 2), 0.5, np.float32)}
    return {**arrays, "returns": returns([3, 1]), **changes}


def test_the_return_of_a_team_is_the_mean_of_its_seats():
    """In the order of the teams."""
    assert team_returns(returns([1, 2, 6]), HUNT).tolist() == [[1, 4]]


def test_the_highest_return_wins_and_ties_share():
    """Returns are equal up to rounding."""
    points = ReturnOutcome.plain(PAIR).points(returns([3, 1], [-2, -1], [7, 7], [1e6, 1e6 + 0.1]))
    assert points.tolist() == [[1, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]]
    assert points.dtype == np.float32


def test_every_other_team_counts_equally():
    """The second of three beats one of two; two best ones share."""
    three = tuple(Seat("player", i, i) for i in range(3))
    points = ReturnOutcome.plain(three).points(returns([1, 2, 3], [5, 5, 0], [1, 1, 1]))
    assert points.tolist() == [[0, 0.5, 1], [0.75, 0.75, 0], [0.5, 0.5, 0.5]]


def test_different_sides_are_compared_with_random_play():
    """By hand: random cats earn -10 ± 2, random mice 5 ± 1; -9 is half a deviation more, 5.2 a fifth."""
    random = returns([-12, 4, 4], [-10, 5, 5], [-8, 6, 6])
    outcome = ReturnOutcome.measured(HUNT, random)
    assert (outcome.mean, outcome.scale, outcome.matches) == ((-10, 5), (2, 1), 3)
    points = outcome.points(returns([-9, 5.2, 5.2], [-9, 5.6, 5.6], [-8, 6, 6]))
    assert points.tolist() == [[1, 0], [0, 1], [0.5, 0.5]]
    assert ReturnOutcome.of(HUNT, outcome.json()) == outcome
    assert (outcome.rule, ReturnOutcome.plain(HUNT).rule) == (RELATIVE_RULE, PLAIN_RULE)


@pytest.mark.parametrize(
    "random",
    [
        pytest.param(returns([2, -1, -1], [-4, 2, 2], [4, -2, -2]), id="zero-sum"),
        pytest.param(returns([2, -1, -1]), id="one match"),
        pytest.param(returns(), id="no match"),
    ],
)
def test_returns_of_constant_sum_are_compared_as_they_are(random):
    """So that an even match stays a draw; as are returns of which too few are known."""
    outcome = ReturnOutcome.measured(HUNT, random.reshape(-1, 3))
    assert outcome == ReturnOutcome.plain(HUNT)
    assert outcome.points(returns([0, 0, 0])).tolist() == [[0.5, 0.5]]


def test_a_side_that_random_play_gives_a_constant_return_has_the_scale_1():
    """It is not divided by 0."""
    outcome = ReturnOutcome.measured(HUNT, returns([0, 1, 1], [0, 3, 3]))
    assert outcome.scale == (1, pytest.approx(2**0.5))


def test_reports_get_the_outcomes_of_their_returns():
    """The log holds no returns of training matches."""
    applied = ReturnOutcome.plain(PAIR).apply(results())
    assert applied["outcome"].tolist() == [[1, 0]]
    assert "returns" not in applied


@pytest.mark.parametrize(
    "wrong",
    [None, returns([3, 1, 2]), returns([3, np.nan]), returns([3, 1]).astype(np.float64), returns([3, 1], [1, 2])],
)
def test_malformed_returns_are_refused(wrong):
    """As are missing ones: reports come from other processes."""
    arrays = results(returns=wrong)
    if wrong is None:
        del arrays["returns"]
    with pytest.raises(WireError, match=r"expected finite returns \[n, 2\] float32"):
        ReturnOutcome.plain(PAIR).apply(arrays)
