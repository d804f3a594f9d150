"""Scheduling of players by their shares."""

from __future__ import annotations

from collections import Counter

import pytest
from ludus._league.fixtures import ShareScheduler


def assign(scheduler, shares, *, count):
    """Return the number of blocks of 4 matches that each player gets."""
    return Counter(scheduler.next_player(shares, matches=4) for _ in range(count))


@pytest.fixture
def scheduler():
    """Return a scheduler of two players without matches."""
    return ShareScheduler(assigned={"a": 0.0, "b": 0.0})


def test_players_get_their_shares(scheduler):
    """The player furthest behind its share is next; among equals the first."""
    assert scheduler.next_player({"a": 1.0, "b": 2.0}, matches=4) == "b"
    assert scheduler.assigned == {"a": 0.0, "b": 2.0}
    assert assign(scheduler, {"a": 1.0, "b": 2.0}, count=299) == {"a": 100, "b": 199}
    assert assign(ShareScheduler(assigned={"a": 0.0, "b": 0.0}), {"a": 1.0, "b": 1.0}, count=1) == {"a": 1}


def test_longer_matches_mean_fewer_matches(scheduler):
    """Shares are shares of ticks."""
    scheduler.record_matches("a", matches=10, ticks=900)
    scheduler.record_matches("b", matches=10, ticks=100)
    assert assign(scheduler, {"a": 1.0, "b": 1.0}, count=100) == {"a": 10, "b": 90}


def test_unknown_length_is_the_mean_of_the_others(scheduler):
    """A new player does not fill the rows before its first match has ended."""
    scheduler.record_matches("a", matches=10, ticks=900)
    assert assign(scheduler, {"a": 1.0, "b": 1.0}, count=100) == {"a": 50, "b": 50}


def test_length_is_a_running_mean(scheduler):
    """256 new matches weigh as much as all before."""
    scheduler.record_matches("a", matches=1, ticks=10)
    assert scheduler.match_ticks["a"] == 10
    scheduler.record_matches("a", matches=256, ticks=256 * 30)
    assert scheduler.match_ticks["a"] == 20


def test_a_returning_player_does_not_catch_up(scheduler):
    """Nor does it lose what it was ahead."""
    assign(scheduler, {"a": 1.0}, count=100)
    scheduler.rejoin("b", ["a"])
    assert assign(scheduler, {"a": 1.0, "b": 1.0}, count=100) == {"a": 50, "b": 50}
    ahead = dict(scheduler.assigned)
    scheduler.assigned["b"] += 40
    scheduler.rejoin("b", ["a"])
    assert scheduler.assigned == {"a": ahead["a"], "b": ahead["b"] + 40}


def test_a_returning_player_without_others_is_unchanged(scheduler):
    """There is no other player to compare with."""
    scheduler.assigned["b"] = 7.0
    scheduler.rejoin("b", [])
    assert scheduler.assigned["b"] == 7.0
