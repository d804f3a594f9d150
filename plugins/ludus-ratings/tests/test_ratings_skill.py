"""Ratings of teams are those of openskill."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_ratings import TeamMatch, expected_score, openskill_ratings
from openskill.models import PlackettLuce


def test_skills_are_those_of_the_library():
    """Three teams of different sizes, one tie: the same numbers as calling openskill directly."""
    teams = [["a", "b"], ["c"], ["d"]]
    found = openskill_ratings([TeamMatch(teams, [0.5, 1.0, 0.5])])
    model = PlackettLuce()
    expected = model.rate([[model.rating() for _ in team] for team in teams], ranks=[2, 1, 2])
    for team, ratings in zip(teams, expected, strict=True):
        for name, rating in zip(team, ratings, strict=True):
            assert (found[name].mu, found[name].sigma, found[name].matches) == pytest.approx(
                (rating.mu, rating.sigma, 1)
            )


def test_one_against_four():
    """Each of four different mice moves; four seats of one mouse are one."""
    four = openskill_ratings([TeamMatch([["cat"], ["m1", "m2", "m3", "m4"]], [1, 0])])
    assert len({four[f"m{i}"].mu for i in range(1, 5)}) == 1
    assert four["cat"].mu > 25 > four["m1"].mu
    one = openskill_ratings([TeamMatch([["cat"], ["mouse"] * 4], [0, 1])])
    assert one == openskill_ratings([TeamMatch([["cat"], ["mouse"]], [0, 1])])


def test_skills_build_on_each_other():
    """A second match starts from what the first one gave, and certainty grows."""
    first = openskill_ratings([TeamMatch([["a"], ["b"]], [1, 0])])["a"]
    second = openskill_ratings([TeamMatch([["a"], ["b"]], [1, 0]), TeamMatch([["a"], ["c"]], [1, 0])])["a"]
    assert second.mu > first.mu > 25
    assert second.sigma < first.sigma < 25 / 3


def test_matches_of_a_participant_against_itself_are_ignored():
    """A match is ignored if a participant is in two teams."""
    assert openskill_ratings([TeamMatch([["a", "b"], ["a"]], [1, 0])]) == {}


def test_without_matches_there_are_no_ratings():
    """An empty log gives an empty mapping."""
    assert openskill_ratings([]) == {}


def test_endless_wins_stay_finite():
    """And rise more and more slowly."""
    rise = [openskill_ratings([TeamMatch([["a"], ["b"]], [1, 0])] * n)["a"].mu for n in (50, 100, 150)]
    assert 0 < rise[2] - rise[1] < rise[1] - rise[0]


def test_known_strengths_are_put_in_order():
    """After a few hundred matches."""
    rng, log = np.random.default_rng(0), []
    for _ in range(400):
        a, b = rng.choice(5, 2, replace=False).tolist()
        won = float(rng.random() < expected_score(200.0 * a, 200.0 * b))
        log.append(TeamMatch([[str(a)], [str(b)]], [won, 1 - won]))
    skills = openskill_ratings(log)
    assert sorted(skills, key=lambda name: skills[name].mu) == ["0", "1", "2", "3", "4"]
