"""Playing time by shares."""

from __future__ import annotations

from collections import Counter

import pytest
from ludus._league.player_shares import ShareScheduler


def dealt_out(time, shares, *, count):
    """Return how many blocks of 4 matches everybody gets."""
    return Counter(time.next_player(shares, matches=4) for _ in range(count))


@pytest.fixture
def time():
    """Return the playing time of two players that have had none."""
    return ShareScheduler(assigned={"a": 0.0, "b": 0.0})


def test_everybody_gets_its_share(time):
    """Whoever has waited longer is next; among equals the first."""
    assert time.next_player({"a": 1.0, "b": 2.0}, matches=4) == "b"
    assert time.assigned == {"a": 0.0, "b": 2.0}
    assert dealt_out(time, {"a": 1.0, "b": 2.0}, count=299) == {"a": 100, "b": 199}
    assert dealt_out(ShareScheduler(assigned={"a": 0.0, "b": 0.0}), {"a": 1.0, "b": 1.0}, count=1) == {"a": 1}


def test_who_plays_long_matches_plays_fewer(time):
    """Shares are of ticks."""
    time.record_matches("a", matches=10, ticks=900)
    time.record_matches("b", matches=10, ticks=100)
    assert dealt_out(time, {"a": 1.0, "b": 1.0}, count=100) == {"a": 10, "b": 90}


def test_matches_of_unknown_length_count_like_those_of_the_others(time):
    """So nobody fills the rows before its first match has ended."""
    time.record_matches("a", matches=10, ticks=900)
    assert dealt_out(time, {"a": 1.0, "b": 1.0}, count=100) == {"a": 50, "b": 50}


def test_matches_of_late_make_the_length(time):
    """256 new ones count like all before."""
    time.record_matches("a", matches=1, ticks=10)
    assert time.match_ticks["a"] == 10
    time.record_matches("a", matches=256, ticks=256 * 30)
    assert time.match_ticks["a"] == 20


def test_who_comes_back_is_not_owed_what_it_missed(time):
    """Nor given what it was ahead of the others."""
    dealt_out(time, {"a": 1.0}, count=100)
    time.rejoin("b", ["a"])
    assert dealt_out(time, {"a": 1.0, "b": 1.0}, count=100) == {"a": 50, "b": 50}
    ahead = dict(time.assigned)
    time.assigned["b"] += 40
    time.rejoin("b", ["a"])
    assert time.assigned == {"a": ahead["a"], "b": ahead["b"] + 40}


def test_who_comes_back_alone_goes_on(time):
    """There is nobody to compare with."""
    time.assigned["b"] = 7.0
    time.rejoin("b", [])
    assert time.assigned["b"] == 7.0
