"""`check_rule` reports every kind of broken rule."""

from __future__ import annotations

import itertools

import pytest
from ludus import ContractError
from ludus.rule import Freeze, PoolChange, Reset, Share
from ludus.testing import FakeLeague, check_rule, fake_player

LEAGUES = {"small": FakeLeague(players=[fake_player("main"), fake_player("other")], pools={"old": ("main@1",)})}


class Returns:
    """Always returns the same changes."""

    def __init__(self, *changes):
        self.changes = changes

    def decide(self, league, rng):
        """Return the changes."""
        return self.changes


class Counts:
    """Counts its calls."""

    def __init__(self):
        self.calls = itertools.count()

    def decide(self, league, rng):
        """Return another share each time."""
        return [Share(player="main", share=next(self.calls))]


class Raises:
    """Raises an exception."""

    def decide(self, league, rng):
        """Read a missing player."""
        return league.players["nobody"]


class ReturnsNone:
    """Returns no changes."""

    def decide(self, league, rng):
        """Return None."""


class ModifiesLeague:
    """Writes into the league."""

    def decide(self, league, rng):
        """Remove a pool."""
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
def test_valid_changes_pass(change):
    """Every kind of change passes."""
    check_rule(Returns(change), leagues=LEAGUES)


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (Returns(Share(player="nobody", share=1.0)), "there is no player 'nobody'"),
        (Returns("main"), "not a change of ludus.rule in 'main'"),
        (
            Returns(Share(player="main", share=0), Share(player="other", share=0)),
            "every player's share of the ticks would be 0",
        ),
        (Returns(Freeze(player="main", reason="")), "has no reason"),
        (Returns(Reset(player="main", reason="x", init="main@9")), "there is no frozen model 'main@9'"),
        (Returns(PoolChange(pool="old", model="main@9", enters=True)), "there is no frozen model 'main@9'"),
        (Returns(PoolChange(pool="old", model="main@1", enters=True)), "changes nothing"),
        (Counts(), "keep no state"),
        (Raises(), r"test_check_rule, line \d+, raised KeyError: 'nobody'"),
        (ReturnsNone(), "decide returned None; expected a sequence of changes"),
        (ModifiesLeague(), "the league was modified"),
    ],
)
def test_a_broken_rule_is_reported(rule, problem):
    """The message has problem and league."""
    with pytest.raises(ContractError, match=f"league 'small'.*{problem}"):
        check_rule(rule, leagues=LEAGUES)
