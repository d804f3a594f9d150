"""Ratings against hand-computed numbers, a library, and known strengths."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus._ratings import PRIOR, EloTable, SequentialElo, SkillTable, expected_score
from ludus.matchmaker import Rating
from openskill.models import PlackettLuce


def table_of(records, anchors=()):
    """Return a table with the given ``{(a, b): (wins, draws, losses)}``, entered from both sides."""
    table = EloTable(anchors)
    for (a, b), counts in records.items():
        table.add(a, b, np.array(counts))
        table.add(b, a, np.array(counts[::-1]))
    return table


def simulate(strengths, *, matches, draw=0.0, seed=0):
    """Return records of a round robin between participants of known strength in Elo points."""
    rng, names, records = np.random.default_rng(seed), list(strengths), {}
    for i, a in enumerate(names):
        for b in names[:i]:
            p = expected_score(strengths[a], strengths[b])
            d = draw * 2 * min(p, 1 - p)
            records[a, b] = tuple(rng.multinomial(matches, [p - d / 2, d, 1 - p - d / 2]).tolist())
    return records


# --- expected score and the classical update ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("difference", "expected"), [(0, 0.5), (400, 10 / 11), (-400, 1 / 11), (100, 0.6401), (800, 0.9901)]
)
def test_expected_scores_are_those_of_the_elo_scale(difference, expected):
    """400 points are odds of 10 to 1."""
    assert expected_score(difference, 0) == pytest.approx(expected, abs=1e-4)


def test_a_sequence_of_matches_by_hand():
    """K = 32: a win between equals gives 16; the next win gives 32 · (1 - 0.5460) = 14.53."""
    elo = SequentialElo(32)
    elo.add("a", "b", 1.0)
    assert {name: rating.mean for name, rating in elo.ratings().items()} == {"a": 16.0, "b": -16.0}
    elo.add("a", "b", 1.0)
    assert elo.ratings()["a"].mean == pytest.approx(16 + 32 * (1 - 1 / (1 + 10 ** (-32 / 400))))
    before = elo.ratings()["a"].mean
    elo.add("b", "a", 0.5)
    assert elo.ratings()["a"].mean == pytest.approx(before + 32 * (0.5 - 1 / (1 + 10 ** (-2 * before / 400))))
    assert (elo.ratings()["a"].matches, math.isnan(elo.ratings()["a"].deviation)) == (3, True)


def test_the_update_moves_points_from_one_to_the_other():
    """The sum of all ratings stays 0."""
    elo = SequentialElo()
    for a, b, score in [("a", "b", 1), ("b", "c", 0.5), ("c", "a", 0), ("b", "a", 1)]:
        elo.add(a, b, score)
    assert sum(rating.mean for rating in elo.ratings().values()) == pytest.approx(0)


# --- the fit ------------------------------------------------------------------------------------------------------


def test_two_participants_by_hand():
    """10 wins to 1 are 400 points, and a thousand matches leave the prior no say."""
    table = table_of({("a", "random"): (1000, 0, 100)}, ["random"])
    assert table.rating("a").mean == pytest.approx(400, rel=0.01)
    assert table.rating("random") == Rating(0.0, 0.0, 1100)


def test_the_deviation_by_hand():
    """With n even matches against the 0 of the scale it is 1 / √(n/4 + prior) in log-odds."""
    points = 400 / math.log(10)
    table = table_of({("a", "random"): (50, 0, 50)}, ["random"])
    expected = points / math.sqrt(100 / 4 + (points / PRIOR.deviation) ** 2)
    assert table.rating("a").deviation == pytest.approx(expected)
    assert table.rating("random").deviation == 0.0


def test_a_draw_is_half_a_win():
    """Ten draws rate like five wins and five losses."""
    drawn = table_of({("a", "b"): (4, 10, 0)}).ratings()
    decided = table_of({("a", "b"): (9, 0, 5)}).ratings()
    assert drawn == decided


@pytest.mark.parametrize("draw", [0.0, 0.6])
def test_known_strengths_are_recovered(draw):
    """Every rating lies within 4 of its standard errors, and two thirds of them within one, roughly."""
    strengths = {"random": 0.0} | {f"p@{i}": 100.0 * i - 200 for i in range(1, 13)}
    table = table_of(simulate(strengths, matches=60, draw=draw), ["random"])
    errors = [(table.rating(n).mean - s) / table.rating(n).deviation for n, s in strengths.items() if s]
    assert np.max(np.abs(errors)) < 4
    assert np.mean(np.abs(errors)) < 1.3


def test_the_standard_errors_are_honest():
    """Over many simulated leagues, the errors have about the size that the fit claims."""
    strengths = {"random": 0.0, "a": 150.0, "b": -100.0, "c": 300.0}
    errors = []
    for seed in range(60):
        table = table_of(simulate(strengths, matches=80, seed=seed), ["random"])
        errors += [(table.rating(n).mean - strengths[n]) / table.rating(n).deviation for n in "abc"]
    assert np.std(errors) == pytest.approx(1.0, abs=0.2)


def test_an_undefeated_participant_stays_finite():
    """More wins raise it further, and it is known to be uncertain."""
    few = table_of({("a", "random"): (5, 0, 0)}, ["random"]).rating("a")
    many = table_of({("a", "random"): (500, 0, 0)}, ["random"]).rating("a")
    assert 200 < few.mean < many.mean < 3000
    assert many.deviation > 200


def test_a_chain_of_wins_adds_up():
    """Somebody who beats the one who beats the anchor is far above it without having met it."""
    records = {("a", "random"): (300, 0, 100), ("b", "a"): (300, 0, 100), ("c", "b"): (300, 0, 100)}
    table = table_of(records, ["random"])
    step = 400 * math.log10(3)
    assert [table.rating(name).mean for name in "abc"] == pytest.approx([step, 2 * step, 3 * step], rel=0.03)
    assert table.rating("a").deviation < table.rating("b").deviation < table.rating("c").deviation


def test_the_scale_starts_at_the_random_anchor():
    """`random` is 0 wherever it stands among the anchors; without it the first anchor is."""
    records = {("strong", "random"): (9, 0, 1), ("a", "strong"): (5, 0, 5)}
    assert table_of(records, ["strong", "random"]).rating("random").mean == 0.0
    assert table_of({("a", "x"): (9, 0, 1), ("a", "y"): (5, 0, 5)}, ["x", "y"]).rating("x").mean == 0.0


def test_without_anchors_the_mean_is_0():
    """The prior alone places the scale."""
    ratings = table_of({("a", "b"): (9, 0, 1), ("b", "c"): (7, 1, 2)}).ratings()
    assert sum(rating.mean for rating in ratings.values()) == pytest.approx(0, abs=1e-6)


def test_the_unrated_have_the_prior():
    """Somebody without matches is unknown, and so is everybody in an empty table."""
    assert EloTable(["random"]).rating("a") == PRIOR
    assert table_of({("a", "b"): (1, 0, 0)}).rating("c") == PRIOR
    assert PRIOR.matches == 0


def test_groups_that_never_met_can_be_rated():
    """Two separate pairs are each rated around 0."""
    ratings = table_of({("a", "b"): (9, 0, 1), ("c", "d"): (9, 0, 1)}).ratings()
    assert ratings["a"].mean == pytest.approx(ratings["c"].mean)
    assert ratings["a"].mean > ratings["b"].mean


@settings(deadline=None, max_examples=25)
@given(
    counts=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40)), min_size=6, max_size=6),
    order=st.permutations(range(6)),
)
def test_ratings_do_not_depend_on_the_way_there(counts, order):
    """Added in any order, with a fit after every step, they are what one fit of everything gives."""
    pairs = [(a, b) for a in "abcd" for b in "abcd" if a < b]
    whole = table_of(dict(zip(pairs, counts, strict=True)))
    stepwise = EloTable()
    for i in order:
        a, b = pairs[i]
        stepwise.add(a, b, np.array(counts[i]))
        stepwise.add(b, a, np.array(counts[i][::-1]))
        stepwise.ratings()
    for name in "abcd":
        assert stepwise.rating(name).mean == pytest.approx(whole.rating(name).mean, abs=1e-5)
        assert stepwise.rating(name).deviation == pytest.approx(whole.rating(name).deviation, abs=1e-5)
        assert math.isfinite(whole.rating(name).mean)


def test_a_reversal_is_followed():
    """A fit that starts far from the new truth, where a plain Newton step would fly off, finds it all the same."""
    table = table_of({("a", "random"): (500, 0, 0)}, ["random"])
    assert table.rating("a").mean > 1000
    table.add("random", "a", np.array([5000, 0, 0]))
    table.add("a", "random", np.array([0, 0, 5000]))
    assert table.rating("a") == table_of({("a", "random"): (500, 0, 5000)}, ["random"]).rating("a")
    assert table.rating("a").mean == pytest.approx(-400, rel=0.01)


def test_a_table_grows():
    """More participants than it had room for at first."""
    strengths = {f"p@{i}": 20.0 * i for i in range(40)}
    table = table_of(simulate(strengths, matches=30))
    means = [table.rating(name).mean for name in strengths]
    assert np.corrcoef(means, list(strengths.values()))[0, 1] > 0.98


# --- openskill ----------------------------------------------------------------------------------------------------


def test_skills_are_those_of_the_library():
    """Three teams of different sizes, one tie: the same numbers as calling openskill directly."""
    teams, outcome = [["a", "b"], ["c"], ["d"]], [0.5, 1.0, 0.5]
    table = SkillTable()
    table.add(teams, outcome)
    model = PlackettLuce()
    expected = model.rate([[model.rating() for _ in team] for team in teams], ranks=[2, 1, 2])
    for team, ratings in zip(teams, expected, strict=True):
        for name, rating in zip(team, ratings, strict=True):
            found = table.ratings()[name]
            assert (found.mean, found.deviation, found.matches) == pytest.approx((rating.mu, rating.sigma, 1))


def test_skills_build_on_each_other():
    """A second match starts from what the first one gave, and certainty grows."""
    table = SkillTable()
    table.add([["a"], ["b"]], [1, 0])
    first = table.ratings()["a"]
    table.add([["a"], ["c"]], [1, 0])
    assert table.ratings()["a"].mean > first.mean > 25
    assert table.ratings()["a"].deviation < first.deviation < 25 / 3


def test_skills_ignore_matches_against_oneself():
    """Somebody in two teams can neither win nor lose; somebody in two seats of one team counts once."""
    table = SkillTable()
    table.add([["a", "b"], ["a"]], [1, 0])
    assert table.ratings() == {}
    table.add([["a", "a"], ["b"]], [1, 0])
    assert table.ratings()["a"].matches == 1


def test_skills_order_known_strengths():
    """After a few hundred matches the order is right."""
    rng, table = np.random.default_rng(0), SkillTable()
    for _ in range(400):
        a, b = rng.choice(5, 2, replace=False).tolist()
        won = rng.random() < expected_score(200.0 * a, 200.0 * b)
        table.add([[str(a)], [str(b)]], [won, not won])
    means = [table.ratings()[str(i)].mean for i in range(5)]
    assert means == sorted(means)
