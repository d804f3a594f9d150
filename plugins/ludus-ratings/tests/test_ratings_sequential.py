"""The sequential test: published log-likelihood ratios, the definition of its distributions, and its error rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ludus_ratings import SequentialTest, normalized_elo
from ludus_ratings.sequential import _most_likely
from scipy.optimize import minimize
from scipy.stats import norm

#: Pairs by score, H0, H1 and the log-likelihood ratio that the tool of a test farm has published for them.
PUBLISHED = [
    # fastchess, tests of its SPRT
    ((365, 16618, 36229, 16974, 390), 0, 2, 2.25),
    ((127, 4883, 10712, 5150, 104), -1.75, 0.25, 3.01),
    # fastchess, matches of two engines
    ((352, 579, 1264, 743, 464), 9, 16, 4.60),
    ((0, 0, 1, 8, 1), 0, 50, 1.24),
    # fishtest, pull requests of Stockfish 4194, 5712 and 6616
    ((371, 10263, 24989, 10642, 379), 0, 2, 2.95),
    ((47, 8181, 25234, 8575, 47), 0.5, 2.5, 2.94),
    ((831, 31795, 68460, 32448, 834), 0, 2, 2.93),
    ((307, 54901, 140959, 56230, 281), 0.5, 2.5, 2.95),
    ((2, 1925, 6607, 2176, 2), 0, 2, 2.94),
    ((5, 2968, 10474, 3253, 5), 0.5, 2.5, 2.96),
    # fastchess, matches that are no pairs: lost, drawn, won
    ((36027, 68692, 36433), 0, 2, 0.92),
    ((10650, 20431, 10871), -1.75, 0.25, 2.30),
]


@pytest.mark.parametrize(("counts", "elo0", "elo1", "ratio"), PUBLISHED)
def test_ratios_are_those_that_test_farms_publish(counts, elo0, elo1, ratio):
    """They agree to the published digits; those of fishtest were truncated or rounded."""
    found = SequentialTest(elo0=elo0, elo1=elo1).log_likelihood_ratio(counts)
    assert found == pytest.approx(ratio, abs=0.0065)


@pytest.mark.parametrize(
    ("counts", "elo", "half"), [((1, 10, 78, 48, 13), 132.30, 39.32), ((352, 579, 1264, 743, 464), 24.25, 8.26)]
)
def test_estimates_are_those_that_fastchess_publishes(counts, elo, half):
    """Normalized Elo and its 95 % interval."""
    mean, low, high = normalized_elo(counts)
    assert (mean, mean - low, high - mean) == pytest.approx((elo, half, half), abs=0.01)


def test_pairs_of_one_score_have_no_estimate():
    """Their deviation is unknown."""
    assert normalized_elo((0, 0, 0, 0, 8)) is None


def largest_likelihood(counts, t):
    """Return the largest log-likelihood of counts under a distribution with a mean of t deviations above ½."""
    seen = np.where(np.asarray(counts) > 0, counts, 1e-3)
    score, share = np.linspace(0, 1, 5), seen / seen.sum()

    def distribution(logits):
        weight = np.exp(logits - logits.max())
        return weight / weight.sum()

    def constraint(logits):
        p = distribution(logits)
        mean = p @ score
        return mean - 0.5 - t * math.sqrt(p @ (score - mean) ** 2)

    starts = (np.log(share), np.zeros(5), 0.5 * np.log(share))
    found = [
        minimize(
            lambda logits: -share @ np.log(np.maximum(distribution(logits), 1e-300)),
            start,
            constraints={"type": "eq", "fun": constraint},
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 500},
        )
        for start in starts
    ]
    return seen.sum() * max(-result.fun for result in found if result.success)


@pytest.mark.parametrize(
    "counts", [(3, 5, 20, 9, 6), (25, 0, 0, 8, 0), (0, 0, 40, 1, 0), (0, 0, 0, 0, 30), (7, 0, 0, 0, 9)]
)
def test_ratios_are_those_of_the_most_likely_distributions(counts):
    """A general optimizer finds no distribution that is more likely, also where scores are missing."""
    t = 50 * math.sqrt(2) * math.log(10) / 800
    expected = largest_likelihood(counts, t) - largest_likelihood(counts, 0.0)
    assert SequentialTest(elo1=50).log_likelihood_ratio(counts) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("elo", [-200.0, 200.0])
def test_the_largest_hypotheses_have_distributions_for_all_counts(elo):
    """Their means are as many deviations above ½ as the hypothesis states, also where few scores occur."""
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 40, (500, 5)) * rng.integers(0, 2, (500, 5)) + np.eye(5)[rng.integers(0, 5, 500)]
    seen = np.where(counts > 0, counts, 1e-3)
    t = elo * math.sqrt(2) * math.log(10) / 800
    p, score = _most_likely(seen / seen.sum(axis=1, keepdims=True), t=t), np.linspace(0, 1, 5)
    mean = p @ score
    deviation = np.sqrt((p * (score - mean[:, None]) ** 2).sum(axis=1))
    np.testing.assert_allclose((mean - 0.5) / deviation, t, atol=1e-6)


def test_many_tests_at_once_give_what_each_alone_gives():
    """Counts may have leading axes; a test without pairs has the ratio 0."""
    counts = np.array([[[3, 5, 20, 9, 6], [0, 0, 0, 0, 0]], [[0, 0, 0, 0, 30], [1, 1, 1, 1, 1]]])
    test = SequentialTest()
    alone = [[test.log_likelihood_ratio(row) for row in rows] for rows in counts]
    assert alone[0][1] == 0.0
    np.testing.assert_allclose(test.log_likelihood_ratio(counts), alone, atol=1e-6)


def test_the_verdict_is_that_of_the_bounds():
    """A participant that wins all pairs passes, one that loses all is refused; Wald's bounds of 5 % are ± 2.94."""
    test = SequentialTest()
    assert (test.lower, test.upper) == pytest.approx((-2.944, 2.944), abs=1e-3)
    assert test.verdict((0, 0, 0, 0, 40)) == "passed"
    assert test.verdict((40, 0, 0, 0, 0)) == "refused"
    assert test.verdict((1, 0, 3, 0, 1)) == "undecided"
    assert SequentialTest(alpha=0.01, beta=0.1).lower == pytest.approx(math.log(0.1 / 0.99))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"elo0": 50.0}, "expected elo0 < elo1, got elo0 = 50 and elo1 = 50"),
        ({"elo1": math.nan}, "elo1"),
        ({"elo0": -201.0}, "elo0"),
        ({"alpha": 0.0}, "alpha"),
        ({"beta": 0.5}, "beta"),
    ],
)
def test_wrong_options_are_refused(options, message):
    """Hypotheses that do not differ, and error rates that are none."""
    with pytest.raises(ValueError, match=message):
        SequentialTest(**options)


@pytest.mark.parametrize("counts", [(1, 2, 3, 4), (1, 2, -3, 4, 5), 7.0])
def test_wrong_counts_are_refused(counts):
    """The message has the shapes that are expected."""
    with pytest.raises(ValueError, match=r"expected \[..., 5\] or \[..., 3\] numbers"):
        SequentialTest().log_likelihood_ratio(counts)


@pytest.mark.parametrize(("elo", "error"), [(0.0, "passed"), (100.0, "refused")])
def test_error_rates_are_at_most_those_asked_for(elo, error):
    """Of 400 tests of a participant with the strength of a hypothesis, few end with the other one."""
    test, rng = SequentialTest(elo1=100.0), np.random.default_rng(5)
    tilt = np.exp(np.linspace(-1, 1, 5) * elo * math.sqrt(2) * math.log(10) / 800 / math.sqrt(0.27))
    p = np.array([0.1, 0.1, 0.6, 0.1, 0.1]) * tilt
    p /= p.sum()
    counts, active, wrong = np.zeros((400, 5)), np.arange(400), 0
    while active.size:
        counts[active] += rng.multinomial(8, p, size=active.size)
        ratio = test.log_likelihood_ratio(counts[active])
        wrong += np.count_nonzero(ratio >= test.upper if error == "passed" else ratio <= test.lower)
        active = active[(ratio > test.lower) & (ratio < test.upper)]
    assert wrong / 400 <= 0.05 + norm.isf(0.01) * math.sqrt(0.05 * 0.95 / 400)
