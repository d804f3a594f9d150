"""Comparison of B with A: computed by hand, against known truths, and without evidence."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from ludus_ratings import (
    ELO_POINTS,
    PairResults,
    bradley_terry,
    compare,
    compare_pair_results,
    direct_evidence,
    expected_score,
    points_from_matches,
)


def luck(rng, pairs, *, better, lucky):
    """Return ``[pairs, 2]``: points of B where the seed alone decides a share of the matches, for one seat."""
    favoured = rng.random(pairs) < 0.5
    first = np.where(rng.random(pairs) < lucky, favoured, rng.random(pairs) < better)
    second = np.where(rng.random(pairs) < lucky, ~favoured, rng.random(pairs) < better)
    return np.stack([first, second], axis=1).astype(float)


def paired(points):
    """Return scores and seeds of ``[pairs, 2]`` points."""
    return {"scores": np.ravel(points), "seeds": np.repeat(np.arange(len(points)), 2)}


# --- their own matches --------------------------------------------------------------------------------------------


def test_single_matches_by_hand():
    """6 of 8 points: Agresti and Coull's interval around (6 + 2) / (8 + 4) has the deviation sqrt(2/3 · 1/3 / 12)."""
    direct = direct_evidence([1] * 6 + [0] * 2)
    deviation = math.sqrt(2 / 9 / 12)
    assert (direct.matches, direct.seeds, direct.score) == (8, 8, 0.75)
    assert (direct.low, direct.high) == pytest.approx((2 / 3 - 1.96 * deviation, 2 / 3 + 1.96 * deviation), abs=1e-4)
    assert direct.difference.mean == pytest.approx(400 * math.log10(2))
    assert direct.difference.deviation == pytest.approx(ELO_POINTS * deviation / (2 / 9))


def test_pairs_by_hand():
    """Twenty pairs that share their points are certain: only the believed wins and losses vary."""
    direct = direct_evidence(**paired([[1, 0]] * 20))
    assert (direct.matches, direct.seeds, direct.score) == (40, 20, 0.5)
    deviation = math.sqrt(2 * 0.25 + 2 * 0.25) / 44
    assert (direct.low, direct.high) == pytest.approx((0.5 - 1.96 * deviation, 0.5 + 1.96 * deviation), abs=1e-4)
    alone = direct_evidence([1, 0] * 20)
    assert alone.high - alone.low > 3 * (direct.high - direct.low)


def test_no_matches_are_no_evidence():
    """The interval is [0, 1]."""
    direct = direct_evidence([])
    assert math.isnan(direct.score)
    assert (direct.low, direct.high, direct.difference) == (0, 1, None)


@pytest.mark.parametrize("wins", [1, 5, 500])
def test_all_wins_stay_inside(wins):
    """The interval ends at 1 and holds the score; its other end approaches it."""
    direct = direct_evidence([1.0] * wins)
    assert direct.high == direct.score == 1
    assert 0 <= direct.low < 1
    assert math.isfinite(direct.difference.mean)
    assert (direct.low > 0.95) == (wins == 500)


@pytest.mark.parametrize("lucky", [0.0, 0.6])
@pytest.mark.parametrize("better", [0.5, 0.8])
def test_intervals_of_pairs_hold_the_truth(lucky, better):
    """About 95 % of them, whether seeds decide much or nothing."""
    rng, truth = np.random.default_rng(0), lucky * 0.5 + (1 - lucky) * better
    held = [
        direct.low <= truth <= direct.high
        for direct in (direct_evidence(**paired(luck(rng, 40, better=better, lucky=lucky))) for _ in range(500))
    ]
    assert 0.925 < np.mean(held) < 0.99


def test_pairs_make_luck_harmless():
    """Where seeds decide most matches the interval of pairs is much narrower than that of single matches."""
    pairs = luck(np.random.default_rng(1), 200, better=0.7, lucky=0.9)
    twins, alone = direct_evidence(**paired(pairs)), direct_evidence(pairs.ravel())
    assert (twins.high - twins.low) < 0.5 * (alone.high - alone.low)


# --- others -------------------------------------------------------------------------------------------------------


def test_a_common_opponent_is_evidence():
    """A scores 25 %, B 75 % against C: 2 · 190.85 points apart, less what the prior takes."""
    points = np.zeros((3, 3))
    points[0, 2], points[2, 0], points[1, 2], points[2, 1] = 100, 300, 300, 100
    answer = compare(points, 0, 1)
    assert answer.indirect.mean == pytest.approx(381.7, abs=5)
    assert answer.indirect.low < 381.7 < answer.indirect.high
    assert (answer.verdict, answer.combined, answer.more_matches) == ("better", answer.indirect, 0)
    assert compare(points, 1, 0).verdict == "worse"


def test_the_direct_entries_of_the_table_are_ignored():
    """Otherwise direct matches would count twice."""
    points = np.zeros((3, 3))
    points[0, 2] = points[2, 0] = points[1, 2] = points[2, 1] = 50
    other = points.copy()
    other[0, 1] = 1000
    assert compare(points, 0, 1).indirect == compare(other, 0, 1).indirect


def test_unconnected_players_cannot_be_compared():
    """There is no evidence at all, and no number of matches follows from it."""
    points = np.zeros((4, 4))
    points[0, 2] = points[1, 3] = 50
    answer = compare(points, 0, 1)
    assert (answer.verdict, answer.indirect, answer.combined, answer.more_matches) == ("undecided", None, None, None)


def test_unconnected_components_change_nothing():
    """Matches of a part that is not connected do not move the answer."""
    points = np.zeros((5, 5))
    points[0, 2], points[2, 0], points[1, 2], points[2, 1] = 10, 30, 30, 10
    more = points.copy()
    more[3, 4] = 1000
    assert compare(points, 0, 1).indirect == compare(more, 0, 1).indirect


@pytest.mark.parametrize("known", [False, True])
def test_indirect_evidence_is_that_of_whole_matrices(known):
    """The difference and its deviation are those of the ratings with the covariance of all, with draws and without."""
    rng = np.random.default_rng(4)
    games = np.triu(rng.integers(0, 60, (40, 40)) * (rng.random((40, 40)) < 0.2), 1)
    drawn = rng.binomial(games, 0.6)
    wins = rng.binomial(games - drawn, 0.7)
    points, draws = wins + (games - drawn - wins).T + 0.5 * (drawn + drawn.T), drawn + drawn.T if known else None
    points[3, 30] = points[30, 3] = 0
    indirect = compare(points, 3, 30, draws=draws).indirect
    whole = bradley_terry(points, draws=draws).difference(30, 3)
    assert (indirect.mean, indirect.deviation) == pytest.approx(whole, abs=1e-7)


def test_a_participant_equals_itself():
    """The difference is 0 with deviation 0."""
    points = np.random.default_rng(6).integers(0, 9, (4, 4)).astype(np.float64)
    np.fill_diagonal(points, 0)
    indirect = compare(points, 2, 2).indirect
    assert (indirect.mean, indirect.deviation) == (0.0, 0.0)


def test_participants_may_be_counted_from_the_end():
    """As in any array; direct matches are ignored in this case, too."""
    points = np.random.default_rng(7).integers(1, 9, (4, 4)).astype(np.float64)
    np.fill_diagonal(points, 0)
    assert compare(points, 1, -1).indirect == compare(points, 1, 3).indirect


def test_a_league_of_many_needs_memory_for_pairs_that_met():
    """A table of all 1,500 x 1,500 pairs would take 18 MB."""
    later = np.arange(5, 1500)
    pairs = np.concatenate([np.stack([later - back, later], axis=1) for back in range(1, 6)])
    points = np.random.default_rng(5).integers(1, 20, pairs.shape).astype(np.float64)
    league = PairResults(num=1500, pairs=pairs, points=points, draws=np.zeros(len(pairs)))
    tracemalloc.start()
    answer = compare_pair_results(league, 100, 1400)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.indirect.deviation > 0
    assert peak < 9e6


def test_evidence_adds_up():
    """Together it is more certain than either, and lies in between."""
    points = np.zeros((3, 3))
    points[0, 2], points[2, 0], points[1, 2], points[2, 1] = 20, 30, 30, 20
    answer = compare(points, 0, 1, scores=[1] * 30 + [0] * 20)
    own, others, both = answer.direct.difference, answer.indirect, answer.combined
    assert both.deviation < min(own.deviation, others.deviation)
    assert min(own.mean, others.mean) < both.mean < max(own.mean, others.mean)
    assert both.deviation**-2 == pytest.approx(own.deviation**-2 + others.deviation**-2)


def test_contradictions_are_reported():
    """B loses to A and beats those that A loses to: the direct matches decide."""
    points = np.zeros((3, 3))
    points[2, 0], points[1, 2] = 100, 100
    answer = compare(points, 0, 1, scores=[0] * 90 + [1] * 10)
    assert answer.contradiction
    assert (answer.verdict, answer.combined) == ("worse", answer.direct.difference)
    assert answer.indirect.low > 0


# --- the answer ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "verdict"), [(0.9, "better"), (0.1, "worse"), (0.5, "undecided")])
def test_the_verdict_is_about_the_second(share, verdict):
    """It depends on the points of B."""
    won = round(100 * share)
    answer = compare(np.zeros((2, 2)), 0, 1, scores=[1] * won + [0] * (100 - won))
    assert answer.verdict == verdict
    assert (answer.more_matches == 0) == (verdict != "undecided")


def test_equal_players_are_rarely_distinguished():
    """An answer about equal players is wrong in about 1 of 20 cases."""
    rng = np.random.default_rng(2)
    wrong = [
        compare(np.zeros((2, 2)), 0, 1, **paired(rng.integers(0, 2, (50, 2)))).verdict != "undecided"
        for _ in range(500)
    ]
    assert np.mean(wrong) < 0.08


def test_more_matches_decide():
    """After that many more matches, players as far apart as estimated are distinguished in 4 of 5 cases."""
    rng, decided = np.random.default_rng(3), []
    first = np.array([1.0] * 56 + [0.0] * 44)
    answer = compare(np.zeros((2, 2)), 0, 1, scores=first)
    assert answer.verdict == "undecided"
    assert 300 < answer.more_matches < 700
    share = expected_score(answer.combined.mean, 0)
    for _ in range(200):
        more = rng.random(answer.more_matches) < share
        decided.append(compare(np.zeros((2, 2)), 0, 1, scores=np.concatenate([first, more])).verdict == "better")
    assert 0.7 < np.mean(decided) < 0.9


def test_an_estimate_of_0_has_no_number_of_matches():
    """No number of matches would decide it."""
    answer = compare(np.zeros((2, 2)), 0, 1, **paired([[1, 0]] * 10))
    assert (answer.verdict, answer.more_matches) == ("undecided", None)


def test_indirect_evidence_alone_has_a_number_of_matches():
    """The number that the model gives for matches without draws."""
    points = points_from_matches([0, 0, 1, 1], [2, 2, 2, 2], [1, 0, 1, 1], num=3)
    answer = compare(points, 0, 1)
    assert answer.verdict == "undecided"
    assert answer.more_matches > 2
