"""Means and differences over seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
values = strategies.lists(strategies.floats(-1e3, 1e3), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def statistics():
    """Return the module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        import league_statistics

        return league_statistics


@pytest.mark.parametrize(("degrees", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (30, 2.042)])
def test_quantiles_are_those_of_tables(statistics, degrees, quantile):
    """97.5 % of Student's distribution lie below."""
    assert statistics.t_quantile(degrees) == pytest.approx(quantile, abs=2e-3)


def test_the_mean_has_the_interval_of_student(statistics):
    """Deviation 1 over three values: 4.303 / √3 on either side."""
    found = statistics.estimate([1.0, 2.0, 3.0])
    assert (found.mean, found.low, found.high) == pytest.approx((2.0, 2 - 2.484, 2 + 2.484), abs=1e-3)


def test_one_seed_has_no_interval(statistics):
    """How far seeds differ is not known."""
    found = statistics.estimate([5.0])
    assert (found.mean, found.low, found.high) == (5.0, None, None)


def test_a_difference_has_the_interval_of_welch(statistics):
    """With equal deviations there are 4 degrees of freedom: 2.776 √(2/3) on either side."""
    found = statistics.difference([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    assert (found.mean, found.low, found.high) == pytest.approx((-3.0, -3 - 2.267, -3 + 2.267), abs=1e-3)


def test_unequal_deviations_leave_fewer_degrees_of_freedom(statistics):
    """By hand: squared error 5/3, (25/9) / (17/18) = 2.94 degrees of freedom."""
    found = statistics.difference([10.0, 12.0, 14.0], [1.0, 2.0, 3.0])
    assert found.high - found.mean == pytest.approx(statistics.t_quantile(50 / 17) * (5 / 3) ** 0.5)


@pytest.mark.parametrize(
    ("better", "worse", "verdict"),
    [
        ([10.0, 11.0, 12.0], [1.0, 2.0, 3.0], "yes"),
        ([1.0, 2.0, 3.0], [10.0, 11.0, 12.0], "no"),
        ([1.0, 2.0, 3.0], [2.0, 3.0, 4.0], "not told apart"),
        ([9.0], [1.0, 2.0, 3.0], "not told apart"),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], "not told apart"),
    ],
)
def test_verdicts(statistics, better, worse, verdict):
    """A difference counts where its interval leaves out zero; one seed proves nothing."""
    assert statistics.difference(better, worse).verdict == verdict


@given(values, values)
@settings(deadline=None, max_examples=10)
def test_the_other_way_round_it_is_the_opposite(statistics, a, b):
    """Nothing depends on who is named first."""
    there, back = statistics.difference(a, b), statistics.difference(b, a)
    assert there.mean == pytest.approx(-back.mean)
    assert (there.low is None) == (len(a) == 1 or len(b) == 1)
    if there.low is not None:
        assert there.low == pytest.approx(-back.high)


def test_intervals_cover_as_often_as_they_say(statistics):
    """Of 400 differences of means of three normal values each, 95 % hold the true one."""
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(400, 2, 3)) * [[1.0], [3.0]]
    found = [statistics.difference(a, b) for a, b in draws]
    covered = np.mean([one.low <= 0 <= one.high for one in found])
    assert 0.92 <= covered <= 0.99
