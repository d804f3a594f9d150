"""Elo ratings against hand-computed numbers and known strengths."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus._ratings import PRIOR, EloTable
from ludus.matchmaker import Rating


def ratings_of(table):
    """Return the ratings of everybody who has played."""
    return {name: table.rating(name) for name in table._index}


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
            p = 1 / (1 + 10 ** ((strengths[b] - strengths[a]) / 400))
            d = draw * 2 * min(p, 1 - p)
            records[a, b] = tuple(rng.multinomial(matches, [p - d / 2, d, 1 - p - d / 2]).tolist())
    return records


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
    drawn = ratings_of(table_of({("a", "b"): (4, 10, 0)}))
    decided = ratings_of(table_of({("a", "b"): (9, 0, 5)}))
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
    ratings = ratings_of(table_of({("a", "b"): (9, 0, 1), ("b", "c"): (7, 1, 2)}))
    assert sum(rating.mean for rating in ratings.values()) == pytest.approx(0, abs=1e-6)


def test_the_unrated_have_the_prior():
    """Somebody without matches is unknown, and so is everybody in an empty table."""
    assert EloTable(["random"]).rating("a") == PRIOR
    assert table_of({("a", "b"): (1, 0, 0)}).rating("c") == PRIOR
    assert PRIOR.matches == 0


def test_groups_that_never_met_can_be_rated():
    """Two separate pairs are each rated around 0."""
    ratings = ratings_of(table_of({("a", "b"): (9, 0, 1), ("c", "d"): (9, 0, 1)}))
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
        ratings_of(stepwise)
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
