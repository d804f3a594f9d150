"""Ratings of teams are those of openskill."""

from __future__ import annotations

import itertools

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


@pytest.mark.parametrize("outcome", [(0.5, 0.5, 0.0, 0.5), (1.0, 2 / 3, 1 / 3, 0.0), (0.75, 0.25, 0.75, 0.25)])
def test_points_between_0_and_1_rank_the_teams(outcome):
    """The library gets whole ranks: it would take 0.5 and 0.0 for a tie."""
    found = openskill_ratings([TeamMatch(list("abcd"), outcome)])
    model = PlackettLuce()
    ranks = [sum(other > own for other in outcome) for own in outcome]
    expected = model.rate([[model.rating()] for _ in outcome], ranks=ranks)
    assert [found[name].mu for name in "abcd"] == pytest.approx([team[0].mu for team in expected])
    order = sorted(zip(outcome, (found[name].mu for name in "abcd"), strict=True))
    assert all(a[1] < b[1] for a, b in itertools.pairwise(order) if a[0] < b[0])


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
    """They hold no information."""
    assert openskill_ratings([TeamMatch([["a"], ["a"], ["a"]], [1, 0, 0])]) == {}


def test_a_participant_in_two_teams_gets_their_mean():
    """a, b, a: the mean of the first and the third team of the same match between three new participants."""
    found = openskill_ratings([TeamMatch([["a"], ["b"], ["a"]], [1.0, 0.5, 0.0])])
    apart = openskill_ratings([TeamMatch([["x"], ["b"], ["y"]], [1.0, 0.5, 0.0])])
    assert found["b"] == apart["b"]
    assert found["a"].mu == pytest.approx((apart["x"].mu + apart["y"].mu) / 2)
    assert found["a"].sigma == pytest.approx((apart["x"].sigma + apart["y"].sigma) / 2)
    assert found["a"].matches == 1


@pytest.mark.parametrize("seats", ["abab", "abaa", "aab"])
def test_no_seating_favours_one_of_two_equals(seats):
    """Over all winners of a match in which one team wins, the means of two equals do not move."""
    moved = {"a": 0.0, "b": 0.0}
    for winner in range(len(seats)):
        found = openskill_ratings([TeamMatch(list(seats), [float(i == winner) for i in range(len(seats))])])
        moved = {name: moved[name] + found[name].mu - 25 for name in moved}
    assert moved == pytest.approx({"a": 0.0, "b": 0.0})


@pytest.mark.parametrize("fixed", [True, False])
def test_four_teams_of_known_strengths_are_put_in_order(fixed):
    """Ranks of four teams by noisy performances; with a fixed seating two participants share four teams."""
    rng, log = np.random.default_rng(0), []
    for _ in range(300):
        names = ["0", "4", "0", "4"] if fixed else rng.choice(5, 4, replace=False).astype(str).tolist()
        performance = [float(name) + rng.gumbel() for name in names]
        log.append(TeamMatch([[name] for name in names], (np.argsort(np.argsort(performance)) / 3).tolist()))
    skills = openskill_ratings(log)
    assert sorted(skills, key=lambda name: skills[name].mu) == (["0", "4"] if fixed else ["0", "1", "2", "3", "4"])


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
