"""Elo ratings against hand-computed numbers and known strengths."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus.environment import Seat
from ludus.matchmaker import Rating
from ludus.testing import check_rating
from ludus_ratings.elo_table import PRIOR, EloTable
from ludus_ratings.fit import Hessian

POINTS = 400 / math.log(10)


def ratings_of(table):
    """Return the ratings of all participants that have played."""
    return {name: table.rating(name) for name in table._index}


def table_of(records, anchors=(), **options):
    """Return a table with the given ``{(a, b): (wins, draws, losses)}``, entered from both sides."""
    table = EloTable(anchors=anchors, **options)
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
    """10 wins to 1 are 400 points, and a thousand matches outweigh the prior."""
    table = table_of({("a", "random"): (1000, 0, 100)}, ["random"])
    assert table.rating("a").mean == pytest.approx(400, rel=0.01)
    assert table.rating("random") == Rating(0.0, 0.0, 1100)


def test_the_deviation_by_hand():
    """With n even matches against the 0 of the scale it is 1 / √(n/4 + prior) in log-odds."""
    table = table_of({("a", "random"): (50, 0, 50)}, ["random"])
    expected = POINTS / math.sqrt(100 / 4 + (POINTS / PRIOR.deviation) ** 2)
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


def test_the_standard_errors_match_the_errors():
    """Over many simulated leagues, the errors have about the size of the standard errors."""
    strengths = {"random": 0.0, "a": 150.0, "b": -100.0, "c": 300.0}
    errors = []
    for seed in range(60):
        table = table_of(simulate(strengths, matches=80, seed=seed), ["random"])
        errors += [(table.rating(n).mean - strengths[n]) / table.rating(n).deviation for n in "abc"]
    assert np.std(errors) == pytest.approx(1.0, abs=0.2)


# --- more than two teams ------------------------------------------------------------------------------------------


def seats_of(num_teams):
    """Return the seats of a free-for-all game."""
    return tuple(Seat("player", i, i) for i in range(num_teams))


def ranked(strengths, names, rng):
    """Return the performance of every name in one match, after which better participants are ranked higher."""
    return [strengths[name] / POINTS + rng.gumbel() for name in names]


def add_match(table, names, performance):
    """Add a result for every pair of names."""
    for (a, x), (b, y) in itertools.combinations(zip(names, performance, strict=True), 2):
        table.add(a, b, np.array([x > y, 0, x < y], np.int64))
        table.add(b, a, np.array([x < y, 0, x > y], np.int64))


def test_a_result_of_four_teams_counts_three_fifths_by_hand():
    """100 even results against the 0 of the scale: the deviation of 60 matches; the mean does not change."""
    table = EloTable(anchors=["random"], seats=seats_of(4))
    for a, b in (("a", "random"), ("random", "a")):
        table.add(a, b, np.array([50, 0, 50]))
    expected = POINTS / math.sqrt(60 / 4 + (POINTS / PRIOR.deviation) ** 2)
    assert table.rating("a") == Rating(0.0, pytest.approx(expected), 100)


@pytest.mark.parametrize("num_teams", [2, 3, 4, 8])
def test_the_variance_of_a_rank_by_hand(num_teams):
    """The results of one of K equal teams add up to its rank, with variance (K² - 1) / 12, and 1/4 for each result."""
    ranks = np.arange(num_teams)
    assert np.var(ranks) / ((num_teams - 1) / 4) == pytest.approx((num_teams + 1) / 3)


def test_standard_errors_of_a_free_for_all_match_the_errors():
    """Six participants of known strength, ranked in matches of four: errors have the size of the standard errors."""
    strengths, errors = {"random": 0.0, "a": 60.0, "b": -60.0, "c": 120.0, "d": 30.0, "e": -30.0}, []
    for seed in range(60):
        rng, table = np.random.default_rng(seed), EloTable(anchors=["random"], seats=seats_of(4))
        for _ in range(120):
            names = rng.choice(list(strengths), 4, replace=False).tolist()
            add_match(table, names, ranked(strengths, names, rng))
        errors += [(table.rating(n).mean - strengths[n]) / table.rating(n).deviation for n in "abcde"]
    assert np.std(errors) == pytest.approx(1.0, abs=0.15)
    assert np.mean(errors) == pytest.approx(0.0, abs=0.2)


# --- sides --------------------------------------------------------------------------------------------------------

ANCHORS = ("cat=random", "cat=bot", "mouse=random", "mouse=bot")
SIDES = {"cat": "cat", "mouse": "mouse"}


def chase(records, anchors=ANCHORS):
    """Return the ratings of a game of cats and mice."""
    return ratings_of(table_of(records, anchors, sides=SIDES))


def simulate_sides(strengths, *, advantage, matches, seed):
    """Return records of all cats against all mice of known strength; cats are `advantage` points better off."""
    rng, records = np.random.default_rng(seed), {}
    for (a, cat), (b, mouse) in itertools.product(strengths["cat"].items(), strengths["mouse"].items()):
        p = 1 / (1 + 10 ** ((mouse - cat - advantage) / 400))
        wins = int(rng.binomial(matches, p))
        records[a, b] = (wins, 0, matches - wins)
    return records


def test_a_side_at_a_disadvantage_is_no_skill_by_hand():
    """A random mouse wins 1 of 11 matches against a random cat; a mouse that wins as many is worth 0, like random."""
    ratings = chase({("cat=random", "mouse=random"): (1000, 0, 100), ("cat=random", "mouse@1"): (1000, 0, 100)})
    assert ratings["cat=random"] == Rating(0.0, 0.0, 2200)
    assert ratings["mouse=random"] == Rating(0.0, 0.0, 1100)
    assert ratings["mouse@1"].mean == pytest.approx(0.0, abs=1e-3)


def test_a_model_worse_than_random_on_its_side_has_a_negative_rating():
    """The mouse wins 60 % against random cats, where a random mouse wins 70 %: 147 points come to 70, less by 77."""
    ratings = chase({("cat=random", "mouse=random"): (300, 0, 700), ("cat=random", "mouse@1"): (400, 0, 600)})
    expected = 400 * (math.log10(6 / 4) - math.log10(7 / 3))
    assert ratings["mouse@1"].mean == pytest.approx(expected, abs=1.0)
    assert expected < -70


def test_the_deviation_of_a_difference_by_hand():
    """The rating of the mouse is its strength minus that of the random mouse, both measured against the random cat."""
    ratings = chase({("cat=random", "mouse=random"): (100, 0, 100), ("cat=random", "mouse@1"): (50, 0, 50)})
    prior = (POINTS / PRIOR.deviation) ** 2  # of the mouse around the random mouse, which has one around the random cat
    hessian = np.array([[200 / 4 + 1.0001 * prior, -prior], [-prior, 100 / 4 + prior]])
    expected = POINTS * math.sqrt(np.array([-1, 1]) @ np.linalg.inv(hessian) @ np.array([-1, 1]))
    assert ratings["mouse@1"].deviation == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("advantage", [-300.0, 0.0, 300.0])
def test_skill_is_recovered_whatever_the_advantage_of_a_side(advantage):
    """Ratings are strengths relative to the random anchor of the side, and errors have the size of the deviations."""
    strengths = {
        "cat": {"cat=random": 0.0, "cat=bot": 200.0} | {f"cat@{i}": 60.0 * i - 90 for i in range(1, 5)},
        "mouse": {"mouse=random": 0.0, "mouse=bot": 150.0} | {f"mouse@{i}": 50.0 * i - 80 for i in range(1, 6)},
    }
    errors = []
    for seed in range(25):
        ratings = chase(simulate_sides(strengths, advantage=advantage, matches=60, seed=seed))
        for name, strength in (strengths["cat"] | strengths["mouse"]).items():
            if not name.endswith("random"):
                errors.append((ratings[name].mean - strength) / ratings[name].deviation)
    assert np.std(errors) == pytest.approx(1.0, abs=0.15)
    assert np.mean(errors) == pytest.approx(0.0, abs=0.25)


def test_without_anchors_the_mean_of_each_side_is_0():
    """The advantage of a side is no skill: cats win four of five matches, and both sides have the mean 0."""
    records = {(f"cat@{i}", f"mouse@{j}"): (80 + i - j, 0, 20 - i + j) for i in (1, 2, 3) for j in (1, 2)}
    ratings = chase(records, anchors=())
    for side in ("cat", "mouse"):
        assert np.mean([r.mean for name, r in ratings.items() if name.startswith(side)]) == pytest.approx(0, abs=0.1)
    assert ratings["cat@3"].mean > ratings["cat@1"].mean
    assert ratings["mouse@2"].mean > ratings["mouse@1"].mean


def test_an_anchor_that_has_not_played_on_a_side_is_no_reference_there():
    """Only random cats have played: the mean of the mice is 0, and that of the random cat is 0 ± 0."""
    ratings = chase({("cat=random", f"mouse@{i}"): (50 + 10 * i, 0, 50 - 10 * i) for i in (1, 2, 3)})
    assert ratings["cat=random"] == Rating(0.0, 0.0, 300)
    assert sum(ratings[f"mouse@{i}"].mean for i in (1, 2, 3)) == pytest.approx(0, abs=0.1)
    assert ratings["mouse@1"].mean > ratings["mouse@3"].mean


def test_three_sides_have_a_scale_each():
    """Three random anchors of different sides are 0, whatever they score against each other."""
    anchors = ("a=random", "b=random", "c=random")
    records = {("a=random", "b=random"): (90, 0, 10), ("b=random", "c=random"): (70, 0, 30)}
    records[("a=random", "c@1")] = (900, 0, 100)
    ratings = ratings_of(table_of(records, anchors, sides={"c": "c"}))
    assert [ratings[name].mean for name in anchors] == [0.0, 0.0, 0.0]
    gap = 400 * (math.log10(9) + math.log10(7 / 3) - math.log10(9))  # between c@1 and c=random
    assert ratings["c@1"].mean == pytest.approx(gap, rel=0.1)


def test_ratings_of_sides_depend_neither_on_order_nor_on_refits():
    """Equal numbers to the last digit, as a restart must change nothing."""
    strengths = {"cat": dict.fromkeys(("cat=random", "cat@1"), 0.0), "mouse": {f"mouse@{i}": 9.0 * i for i in range(4)}}
    records = simulate_sides(strengths, advantage=80, matches=30, seed=1)
    stepwise = EloTable(anchors=ANCHORS, sides=SIDES)
    for (a, b), counts in records.items():
        stepwise.add(a, b, np.array(counts))
        stepwise.add(b, a, np.array(counts[::-1]))
        stepwise.rating("mouse@0")
    backwards = chase(dict(reversed(records.items())))
    assert ratings_of(stepwise) == {name: backwards[name] for name in ratings_of(stepwise)}


# --- extremes -----------------------------------------------------------------------------------------------------


def test_an_undefeated_participant_stays_finite():
    """More wins raise it further, and it is known to be uncertain."""
    few = table_of({("a", "random"): (5, 0, 0)}, ["random"]).rating("a")
    many = table_of({("a", "random"): (500, 0, 0)}, ["random"]).rating("a")
    assert 200 < few.mean < many.mean < 3000
    assert many.deviation > 200


def test_a_chain_of_wins_adds_up():
    """A participant that beats one that beats the anchor is rated far above it without direct matches."""
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
    """Only the prior determines the origin of the scale."""
    ratings = ratings_of(table_of({("a", "b"): (9, 0, 1), ("b", "c"): (7, 1, 2)}))
    assert sum(rating.mean for rating in ratings.values()) == pytest.approx(0, abs=1e-6)


def test_the_unrated_have_the_prior():
    """A participant without matches has the prior, and so have all participants of an empty table."""
    assert EloTable(anchors=["random"]).rating("a") == PRIOR
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
def test_ratings_do_not_depend_on_the_order_of_results(counts, order):
    """Added in any order, with a fit after every step, they equal one fit of all results."""
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


def test_a_reversal_of_results_is_fitted():
    """A fit that starts far from the new truth, where a plain Newton step would diverge, still converges."""
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


# --- many models --------------------------------------------------------------------------------------------------


def dense(table):
    """Return ``[2, n]``: mean and deviation of all participants, from full matrices and plain Newton steps."""
    points_in_one, n = 400 / math.log(10), len(table._index)
    points = np.zeros((n, n))
    for (i, j), at in table._pairs.items():
        points[i, j], points[j, i] = table._points[2 * at], table._points[2 * at + 1]
    free = np.arange(n) != table._index.get(table._sides.references.get("", ""), -1)
    games, r, prior = points + points.T, np.zeros(n), (points_in_one / 1000) ** 2
    for _ in range(500):
        share = 1 / (1 + np.exp(r[None, :] - r[:, None]))
        weight = games * share * share.T
        hessian = (np.diag(weight.sum(axis=1) + prior) - weight)[np.ix_(free, free)]
        gradient = ((games * share).sum(axis=1) - points.sum(axis=1) + prior * r)[free]
        step = np.clip(np.linalg.solve(hessian, gradient), -0.5, 0.5)  # from 0, such steps do not fly off
        r[free] -= step
        if np.abs(step).max() < 1e-12:
            break
    found = np.zeros((2, n))
    found[0], found[1, free] = r, np.sqrt(np.diag(np.linalg.inv(hessian)))
    return found * points_in_one


def history(models, *, gain=10.0, matches=40, seed=0, far=0):
    """Return records of models that each met ``random``, the five before them, and some others of any age."""
    rng, records = np.random.default_rng(seed), {}
    for i in range(1, models + 1):
        for j in {0, *range(max(1, i - 5), i), *rng.integers(0, i, far).tolist()}:
            wins = int(rng.binomial(matches, 1 / (1 + 10 ** (-gain * (i - j) / 400))))
            records[f"m@{i}", f"m@{j}" if j else "random"] = (wins, 0, matches - wins)
    return records


def deviation_alone(table, name):
    """Return a deviation as if it was the only one that is read."""
    table._hessian._asked, table._hessian._variance = -100, None
    return table._hessian.deviation(table._index[name])


@pytest.mark.parametrize("anchors", [["random"], []])
@pytest.mark.parametrize(("far", "gain"), [(0, 10.0), (0, 60.0), (3, 20.0)])
def test_the_fit_is_that_of_full_matrices(anchors, far, gain):
    """Ratings and deviations agree to a millionth of a point, also where groups of models share a first guess."""
    table = table_of(history(200, far=far, gain=gain), anchors)
    found = np.array([(rating.mean, rating.deviation) for rating in ratings_of(table).values()]).T
    np.testing.assert_allclose(found, dense(table), rtol=0, atol=1e-6)
    one_by_one = [deviation_alone(table, name) for name in table._index]
    np.testing.assert_allclose(one_by_one, dense(table)[1], rtol=0, atol=1e-6)


def test_a_fit_needs_memory_for_pairs_that_met():
    """A table of all 1,500 x 1,500 pairs would take 18 MB for every matrix."""
    table = table_of(history(1500), ["random"])
    tracemalloc.start()
    table.rating("m@1500")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 9e6


_MANY_DEVIATIONS = """
import re
from pathlib import Path
import numpy as np
from ludus_ratings.fit import Hessian

def most():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

later = np.arange(1, 1500)
ends, group = np.stack([later - 1, later], axis=1), np.arange(1500) // 12
hessian = Hessian(ends, np.ones(1499), fixed=0, center=np.full(1500, -1), group=group, precision=0.03)
before = most()
assert all(hessian.deviation(i) > 0 for i in range(1, 60))
assert hessian._variance is not None
print(most() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell how much memory was needed at most")
def test_many_deviations_need_less_than_an_inverse_of_all(monkeypatch):
    """The matrix of 1,500 takes 18 MB; LAPACK needs four of that to invert it in one piece."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    command = [sys.executable, "-c", _MANY_DEVIATIONS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) < 3 * 18e6


def test_a_long_history_takes_few_steps(monkeypatch):
    """A chain of 1,500 models is solved in far fewer steps than it is long, and one result more in few of those."""
    steps = []
    precondition = Hessian._precondition  # called once per step
    monkeypatch.setattr(Hessian, "_precondition", lambda self, x: steps.append(1) or precondition(self, x))
    table = table_of(history(1500), ["random"])
    table.rating("m@1500")
    assert len(steps) < 300
    steps.clear()
    table.add("m@1500", "m@1499", np.array([1, 0, 0]))
    table.add("m@1499", "m@1500", np.array([0, 0, 1]))
    table.rating("m@1500")
    assert 0 < len(steps) < 200


def test_a_deviation_is_computed_when_it_is_read(monkeypatch):
    """All means cost one fit; a deviation is solved for once, and is that of the fit that the rating is from."""
    asked = []
    deviation = Hessian.deviation
    monkeypatch.setattr(Hessian, "deviation", lambda self, i: asked.append(i) or deviation(self, i))
    table = table_of(history(20), ["random"])
    ratings = ratings_of(table)
    assert not asked
    before = ratings["m@20"]
    table.add("m@20", "m@19", np.array([400, 0, 400]))
    table.add("m@19", "m@20", np.array([400, 0, 400]))
    after = table.rating("m@20")
    assert before.deviation == before.deviation > after.deviation > 0
    assert len(asked) == 2


def test_a_rating_with_a_function_is_like_one_with_a_number():
    """The result does not depend on how the deviation was passed."""
    lazy, plain = Rating(1.0, lambda: 2.0, 3), Rating(1.0, 2.0, 3)
    assert (lazy, hash(lazy), repr(lazy), lazy.deviation) == (plain, hash(plain), repr(plain), 2.0)
    assert lazy != Rating(1.0, 2.5, 3)


def test_the_table_passes_the_testing_kit():
    """The kit of rating tables."""
    check_rating(EloTable)


def test_the_module_imports_nothing_heavy():
    """A run that rates by elo starts without openskill and what that needs."""
    code = "import ludus_ratings.elo_table, sys; print({'openskill', 'scipy', 'torch'} & {*sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
