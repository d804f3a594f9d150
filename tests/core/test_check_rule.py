"""`check_rule` finds every way in which a rule can break its contract."""

from __future__ import annotations

import itertools

import pytest
from ludus import ContractError
from ludus.rule import Freeze, PoolChange, Reset, Share
from ludus.testing import FakeLeague, check_rule, fake_player

LEAGUES = {"small": FakeLeague(players=[fake_player("main"), fake_player("other")], pools={"old": ("main@1",)})}


class Says:
    """A rule that answers the same to everything."""

    def __init__(self, *changes):
        self.changes = changes

    def decide(self, league, rng):
        """Return the answer."""
        return self.changes


class Counts:
    """A rule that remembers how often it was asked."""

    def __init__(self):
        self.asked = itertools.count()

    def decide(self, league, rng):
        """Return something else every time."""
        return [Share(player="main", share=next(self.asked))]


class Raises:
    """A rule with a mistake."""

    def decide(self, league, rng):
        """Look for what is not there."""
        return league.players["nobody"]


class Mute:
    """A rule that forgets its answer."""

    def decide(self, league, rng):
        """Answer nothing."""


class Meddles:
    """A rule that writes."""

    def decide(self, league, rng):
        """Close a pool."""
        league.pools.pop("old", None)
        return []


@pytest.mark.parametrize(
    "change",
    [
        Share(player="main", share=0.0),
        Freeze(player="main", reason="it is time"),
        Reset(player="other", reason="converged", init="main@2"),
        Reset(player="other", reason="converged"),
        PoolChange(pool="old", model="main@1", enters=False),
        PoolChange(pool="new", model="other@3", enters=True),
    ],
)
def test_what_is_allowed(change):
    """Every kind of change passes."""
    check_rule(Says(change), leagues=LEAGUES)


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (Says(Share(player="nobody", share=1.0)), "there is no player 'nobody'"),
        (Says("main"), "no change of ludus.rule in 'main'"),
        (Says(Share(player="main", share=0), Share(player="other", share=0)), "every player's share of the ticks is 0"),
        (Says(Freeze(player="main", reason="")), "gives no reason"),
        (Says(Reset(player="main", reason="x", init="main@9")), "there is no frozen model 'main@9'"),
        (Says(PoolChange(pool="old", model="main@9", enters=True)), "there is no frozen model 'main@9'"),
        (Says(PoolChange(pool="old", model="main@1", enters=True)), "changes nothing"),
        (Counts(), "remember nothing"),
        (Raises(), r"test_check_rule, line \d+, raised KeyError: 'nobody'"),
        (Mute(), "decide answered None; expected a sequence of changes"),
        (Meddles(), "it may only read it"),
    ],
)
def test_what_is_not(rule, problem):
    """The message says what is wrong, and in which league."""
    with pytest.raises(ContractError, match=f"league 'small'.*{problem}"):
        check_rule(rule, leagues=LEAGUES)
