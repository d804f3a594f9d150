"""The table of payoffs by pair."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings, strategies as st
from ludus._store.payoffs import accumulate, count_payoffs as count_lineup, counted_pairs
from ludus.environment import Seat
from ludus.records import Fixture


def fixture(seats, *, kind="train"):
    """Return a fixture of these participants."""
    return Fixture(id=1, kind=kind, player="", participants=tuple(seats), seed=0, matches=1, reason="")


def count_arrays(fixtures, starts, number, outcome, *, seats):
    """Return the payoffs of the matches of several fixtures, each of which has the rows from one start to the next."""
    totals = {}
    for fixture, numbers, points in zip(
        fixtures, np.split(number, starts[1:]), np.split(outcome, starts[1:]), strict=False
    ):
        pairs = counted_pairs(fixture.participants, tuple(seats))
        accumulate(totals, count_lineup(fixture.kind, pairs, number=numbers, outcome=points))
    return totals


def count_payoffs(fixtures, starts, outcome, *, teams):
    """Return the payoffs of matches that are numbered from 0 within each fixture."""
    sizes = np.diff([*starts, len(outcome)])
    number = np.concatenate([np.zeros(0, np.int64), *map(np.arange, sizes)])
    seats = [Seat("player", index, team) for index, team in enumerate(teams)]
    return count_arrays(fixtures, starts, number, outcome, seats=seats)


def counts(payoffs):
    """Return the payoffs with lists for arrays."""
    return {key: count.tolist() for key, count in payoffs.items()}


def naive(groups):
    """Count match by match; the pair of teams changes with the match."""
    total = {}
    for seats, teams, outcomes in groups:
        sides = sorted(set(zip(seats, teams, strict=True)))
        names = {name for name, _ in sides}
        for number, outcome in enumerate(outcomes):
            for a, b in itertools.combinations(sorted(names), 2):
                pairs = [(i, j) for x, i in sides for y, j in sides if (x, y) == (a, b) and i != j]
                if pairs:
                    i, j = pairs[number % len(pairs)]
                    which = 0 if outcome[i] > outcome[j] else 1 if outcome[i] == outcome[j] else 2
                    total.setdefault(("train", a, b), [0, 0, 0])[which] += 1
                    total.setdefault(("train", b, a), [0, 0, 0])[2 - which] += 1
    return total


def test_two_players():
    """One win, one draw and one loss are seen from both sides."""
    outcome = np.array([[1, 0], [0.5, 0.5], [1, 0], [0, 1]], np.float32)
    result = count_payoffs([fixture("ab")], np.array([0]), outcome, teams=[0, 1])
    assert counts(result) == {("train", "a", "b"): [2, 1, 1], ("train", "b", "a"): [1, 1, 2]}


def test_a_match_against_oneself_counts_for_nobody():
    """Matches of a participant against itself are not counted."""
    result = count_payoffs([fixture("aa")], np.array([0]), np.array([[1, 0]], np.float32), teams=[0, 1])
    assert result == {}


def test_team_mates_do_not_meet():
    """Two against two: four pairs across the teams, none within, and a doubled participant counts once."""
    result = count_payoffs([fixture("abcc")], np.array([0]), np.array([[0, 1]], np.float32), teams=[0, 0, 1, 1])
    assert counts(result) == {
        ("train", "a", "c"): [0, 0, 1],
        ("train", "c", "a"): [1, 0, 0],
        ("train", "b", "c"): [0, 0, 1],
        ("train", "c", "b"): [1, 0, 0],
    }


def test_three_teams_meet_in_pairs():
    """The order of the outcomes decides every pair."""
    result = count_payoffs([fixture("abc")], np.array([0]), np.array([[0.5, 1, 0.5]], np.float32), teams=[0, 1, 2])
    assert counts(result)["train", "a", "b"] == [0, 0, 1]
    assert counts(result)["train", "a", "c"] == [0, 1, 0]
    assert counts(result)["train", "b", "c"] == [1, 0, 0]


def test_a_pair_in_several_teams_has_one_result_per_match():
    """a, b, a, b: the matches count in turn the teams (0, 1), (0, 3), (2, 1) and (2, 3)."""
    outcome = np.array([[1, 0, 0.5, 0.5]] * 4, np.float32)
    result = count_payoffs([fixture("abab")], np.array([0]), outcome, teams=[0, 1, 2, 3])
    assert counts(result) == {("train", "a", "b"): [3, 1, 0], ("train", "b", "a"): [0, 1, 3]}


def test_equals_are_equal_in_every_seating():
    """One of three teams wins, each equally often, and a holds two of them: a and b score one half."""
    outcome = np.repeat(np.eye(3, dtype=np.float32), 2, axis=0)
    result = count_payoffs([fixture("aab")], np.array([0]), outcome, teams=[0, 1, 2])
    wins, _, losses = result["train", "a", "b"]
    assert wins == losses


def test_an_anchor_is_counted_by_its_side():
    """Where teams have different roles, it also meets itself; models have one role each."""
    seats = [Seat("cat", 0, 0), Seat("mouse", 0, 1), Seat("mouse", 1, 1)]
    fixtures = [fixture(("bot", "bot", "bot")), fixture(("cat@1", "bot", "bot"))]
    outcome = np.array([[1, 0], [0, 1]], np.float32)
    result = count_arrays(fixtures, np.array([0, 1]), np.zeros(2, np.int64), outcome, seats=seats)
    assert counts(result) == {
        ("train", "cat=bot", "mouse=bot"): [1, 0, 0],
        ("train", "mouse=bot", "cat=bot"): [0, 0, 1],
        ("train", "cat@1", "mouse=bot"): [0, 0, 1],
        ("train", "mouse=bot", "cat@1"): [1, 0, 0],
    }


def test_kinds_are_kept_apart():
    """Training and evaluation matches of one pair have sums of their own."""
    fixtures = [fixture("ab"), fixture("ab", kind="eval")]
    result = count_payoffs(fixtures, np.array([0, 1]), np.array([[1, 0], [0, 1]], np.float32), teams=[0, 1])
    assert counts(result)["train", "a", "b"] == [1, 0, 0]
    assert counts(result)["eval", "a", "b"] == [0, 0, 1]


def test_nothing_gives_nothing():
    """No fixtures, no counts."""
    assert count_payoffs([], np.zeros(0, np.int64), np.zeros((0, 2), np.float32), teams=[0, 1]) == {}


@settings(deadline=None, max_examples=60)
@given(
    teams=st.lists(st.integers(0, 2), min_size=2, max_size=5),
    data=st.data(),
)
def test_it_agrees_with_counting_one_by_one(teams, data):
    """Any seats, teams and outcomes give what the definition gives."""
    num_teams = 1 + max(teams)
    points = st.sampled_from([0.0, 0.5, 1.0])
    rows = st.lists(st.lists(points, min_size=num_teams, max_size=num_teams), min_size=1, max_size=4)
    seats = st.lists(st.sampled_from("abc"), min_size=len(teams), max_size=len(teams))
    groups = [(data.draw(seats), teams, data.draw(rows)) for _ in range(data.draw(st.integers(1, 3)))]
    fixtures = [fixture(seats) for seats, _, _ in groups]
    starts = np.cumsum([0, *(len(rows) for _, _, rows in groups[:-1])])
    outcome = np.array([row for _, _, rows in groups for row in rows], np.float32)
    assert counts(count_payoffs(fixtures, starts, outcome, teams=teams)) == naive(groups)
