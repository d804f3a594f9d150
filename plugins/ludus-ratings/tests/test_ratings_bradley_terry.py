"""Bradley-Terry ratings against hand-computed numbers, other methods, and data that has no plain answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from ludus_ratings import ELO_POINTS, bradley_terry, expected_score, points_from_matches

VAGUE = 1e6  # a prior that does not show


def play(rng, strengths, matches):
    """Return the points of matches between random pairs whose outcomes follow Elo ratings."""
    n = len(strengths)
    a = rng.integers(0, n, matches)
    b = (a + rng.integers(1, n, matches)) % n
    won = rng.random(matches) < expected_score(np.take(strengths, a), np.take(strengths, b))
    return points_from_matches(a, b, won, num=n)


def test_two_participants_by_hand():
    """3 to 1 points are odds of 3: 400 log10(3) = 190.85 points; the variance of their log is 4/3."""
    fit = bradley_terry([[0, 3], [1, 0]], prior_deviation=VAGUE)
    difference, deviation = fit.difference(0, 1)
    assert difference == pytest.approx(190.85, abs=0.01)
    assert deviation == pytest.approx(ELO_POINTS * np.sqrt(4 / 3), rel=1e-4)
    assert fit.mean.tolist() == pytest.approx([95.42, -95.42], abs=0.01)


def test_a_prior_by_hand():
    """With one win of 1 match the maximum is where 2 r precision = 1 - sigmoid(2 r)... of both ratings together."""
    fit = bradley_terry([[0, 1], [0, 0]], prior_deviation=1000)
    r = fit.mean[0] / ELO_POINTS
    assert fit.mean[1] == pytest.approx(-fit.mean[0])
    assert r * (ELO_POINTS / 1000) ** 2 == pytest.approx(1 - 1 / (1 + np.exp(-2 * r)))


def test_draws_are_half_wins():
    """Two draws are a win and a loss."""
    drawn = bradley_terry(points_from_matches([0, 0], [1, 1], [0.5, 0.5], num=2))
    split = bradley_terry(points_from_matches([0, 0], [1, 1], [1, 0], num=2))
    assert drawn.mean.tolist() == split.mean.tolist() == [0, 0]


def test_a_reference_is_the_zero():
    """Its rating is 0 without uncertainty; differences stay what they were."""
    points = play(np.random.default_rng(0), [0, 100, 300], 300)
    free, fixed = (
        bradley_terry(points, prior_deviation=VAGUE),
        bradley_terry(points, reference=1, prior_deviation=VAGUE),
    )
    assert (fixed.mean[1], fixed.deviation[1]) == (0, 0)
    assert fixed.difference(2, 0) == pytest.approx(free.difference(2, 0), rel=1e-4)


def test_the_maximum_is_that_of_minorization_and_maximization():
    """Zermelo's iteration p_i = points_i / Σ games_ij / (p_i + p_j) has the same fixed point."""
    points = play(np.random.default_rng(1), [0, 50, 150, 400, 450], 2000)
    games, strength = points + points.T, np.ones(5)
    for _ in range(3000):
        strength = points.sum(axis=1) / (games / (strength[:, None] + strength[None, :])).sum(axis=1)
        strength /= np.exp(np.log(strength).mean())
    fit = bradley_terry(points, prior_deviation=VAGUE)
    assert np.allclose(fit.mean, ELO_POINTS * np.log(strength), atol=0.01)


def test_intervals_hold_the_truth():
    """Of 95 % intervals of a difference about 95 % hold it."""
    rng, held = np.random.default_rng(2), 0
    for _ in range(300):
        mean, deviation = bradley_terry(play(rng, [0, 100, 250], 150)).difference(2, 0)
        held += abs(mean - 250) < 1.96 * deviation
    assert 0.92 < held / 300 < 0.98


def test_draws_make_intervals_narrower():
    """A match that is often drawn varies less; half of the matches drawn halve the variance at even strength."""
    points, draws = np.array([[0, 500.0], [500, 0]]), np.array([[0, 500.0], [500, 0]])
    wide = bradley_terry(points, prior_deviation=VAGUE).difference(0, 1)[1]
    narrow = bradley_terry(points, draws=draws, prior_deviation=VAGUE).difference(0, 1)[1]
    assert narrow / wide == pytest.approx(np.sqrt(0.5), abs=0.03)


def test_intervals_with_draws_hold_the_truth():
    """Where four of five matches are drawn, too, and are not much wider than need be."""
    rng, held, free = np.random.default_rng(3), 0, 0
    for _ in range(400):
        outcome = rng.choice([1, 0.5, 0], 120, p=[0.15, 0.8, 0.05])
        points = points_from_matches(np.zeros(120, int), np.ones(120, int), outcome, num=2)
        drawn = np.count_nonzero(outcome == 0.5) * (1 - np.eye(2))
        mean, deviation = bradley_terry(points, draws=drawn, prior_deviation=VAGUE).difference(0, 1)
        truth = ELO_POINTS * np.log(0.55 / 0.45)
        held += abs(mean - truth) < 1.96 * deviation
        free += abs(mean - truth) < 1.96 * bradley_terry(points, prior_deviation=VAGUE).difference(0, 1)[1]
    assert 0.93 < held / 400 <= free / 400
    assert free == 400  # without the number of draws they are far too wide


def test_a_few_draws_leave_uncertainty():
    """Three draws do not prove that two are equal."""
    points = points_from_matches([0] * 3, [1] * 3, [0.5] * 3, num=2)
    assert bradley_terry(points, draws=3 * (1 - np.eye(2))).difference(0, 1)[1] > 100


# --- data that has no plain answer --------------------------------------------------------------------------------


def test_without_matches_ratings_equal_the_prior():
    """0 ± 1000 for all participants; none are connected."""
    fit = bradley_terry(np.zeros((3, 3)))
    assert fit.mean.tolist() == [0, 0, 0]
    assert fit.deviation.tolist() == pytest.approx([1000] * 3)
    assert fit.interval[0].tolist() == pytest.approx([-1959.96, 1959.96], abs=0.01)
    assert (fit.matches.tolist(), fit.component.tolist()) == ([0, 0, 0], [0, 1, 2])


def test_an_empty_table():
    """An empty table gives empty ratings."""
    fit = bradley_terry(np.zeros((0, 0)))
    assert fit.mean.shape == fit.deviation.shape == (0,)


@pytest.mark.parametrize("wins", [1, 10, 1000, 10**6])
def test_all_wins_stay_finite(wins):
    """The prior holds the ratings; the interval leaves out 0 only after many wins."""
    fit = bradley_terry([[0, wins], [0, 0]])
    mean, deviation = fit.difference(0, 1)
    assert 0 < mean < 5000
    assert 0 < deviation < 1415
    assert (mean - 1.96 * deviation > 0) == (wins >= 1000)


def test_unconnected_parts_have_different_components():
    """Each part lies around 0; the difference between parts is as wide as the prior."""
    points = np.zeros((4, 4))
    points[0, 1] = points[2, 3] = 50
    points[1, 0] = points[3, 2] = 30
    fit = bradley_terry(points)
    assert fit.component.tolist() == [0, 0, 1, 1]
    assert fit.mean[:2] == pytest.approx(fit.mean[2:])
    assert fit.difference(0, 2)[1] > 1000 > 10 * fit.difference(0, 1)[1]


def test_a_shuffled_table_gives_shuffled_ratings():
    """The order of the participants does not matter."""
    points, order = play(np.random.default_rng(4), [0, 10, 500, 80], 200), [2, 0, 3, 1]
    shuffled = bradley_terry(points[np.ix_(order, order)])
    assert np.allclose(shuffled.mean, bradley_terry(points).mean[order])


@settings(deadline=None, max_examples=40)
@given(arrays(np.float64, (5, 5), elements=st.sampled_from([0.0, 0.5, 1.0, 40.0, 1e5])))
def test_any_table_gives_finite_ratings(points):
    """Finite, centred on 0, and at the maximum: the points won are those expected, up to the prior's pull."""
    np.fill_diagonal(points, 0)
    fit = bradley_terry(points)
    assert np.all(np.isfinite(fit.mean))
    assert np.all(np.isfinite(fit.deviation))
    assert fit.mean.sum() == pytest.approx(0, abs=1e-3)
    pull = fit.mean / ELO_POINTS * (ELO_POINTS / 1000) ** 2
    expected = ((points + points.T) * fit.expected()).sum(axis=1)
    assert np.allclose(expected + pull, points.sum(axis=1), rtol=1e-6, atol=1e-6)


def test_wrong_arguments_raise():
    """The error names what was expected."""
    with pytest.raises(ValueError, match="prior_deviation"):
        bradley_terry(np.zeros((2, 2)), prior_deviation=0)
    with pytest.raises(ValueError, match="draws"):
        bradley_terry(np.zeros((2, 2)), draws=np.zeros((3, 3)))
