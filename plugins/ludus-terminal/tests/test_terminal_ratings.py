"""Ratings against hand-computed numbers and a library."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ludus_terminal.ratings import SequentialElo, SkillTable, expected_score
from openskill.models import PlackettLuce

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
