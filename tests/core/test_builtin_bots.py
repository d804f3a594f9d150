"""Seats that the environment fills: the match engine names the bots, and the testing kit checks their matches."""

from __future__ import annotations

import numpy as np
import pytest
from ludus import ContractError, Scenario
from ludus._league.validation import checked_pairing
from ludus.agent import BuiltinAgent, RandomAgent
from ludus.environment import Environment
from ludus.matchmaker import Pairing
from ludus.runs import play_matches
from ludus.scenario import checked_scenarios
from ludus.testing import check_environment
from ludus.testing._league import FakeLeague, fake_player
from ludus_dummy.config import CountConfig
from ludus_dummy.count import Count


def count(num_matches, kind=Count):
    """Return a game of counting."""
    return kind(CountConfig(), num_matches=num_matches)


class Recording(Count):
    """Keeps the scenarios of all matches."""

    def reset(self, seeds, *, indices=None, scenarios=None):
        self.started = [*getattr(self, "started", []), *(scenarios or [Scenario()] * len(seeds))]
        return super().reset(seeds, indices=indices, scenarios=scenarios)


def test_matches_start_with_the_bots_of_their_seats():
    """A seating without bots has none; scenario and bots go together."""
    environment = count(4, Recording)
    bot, other = BuiltinAgent("perfect"), RandomAgent(None, spec=environment.spec, role="player")
    start = Scenario(name="start-at", parameters={"count": 3.0})
    seatings = [[bot, other], [other, bot], [other, other]]
    play_matches(environment, seatings, matches=5, seed=1, scenario=start)
    found = {(scenario.name, scenario.parameters["count"], scenario.builtin) for scenario in environment.started}
    assert found == {("start-at", 3.0, ("perfect", "")), ("start-at", 3.0, ("", "perfect")), ("start-at", 3.0, ())}


class ActsForBots(Count):
    """Lets the seats of bots act."""

    def _write_tick(self):
        self._is_bot[:] = False
        return super()._write_tick()


class AnyBot(Count):
    """Accepts bots that it does not have."""

    def reset(self, seeds, *, indices=None, scenarios=None):
        known = [s if set(s.builtin) <= {"", "perfect"} else Scenario() for s in scenarios or ()] or None
        return super().reset(seeds, indices=indices, scenarios=known)


class Moody(Count):
    """Its bot depends on more than the seed."""

    moves = 0

    def step(self, actions):
        if self._is_bot.any():
            self.moves += 1
            actions = {"player": actions["player"] * 0 + (self.moves % 7 == 0)}
            self._player.action_mask[:] = True
        bots, self._is_bot = self._is_bot, self._is_bot & False
        limit = self.config.target - self._count[:, None, None] - 1
        try:
            super().step({"player": np.minimum(actions["player"], np.maximum(limit, 0))})
        finally:
            self._is_bot = bots
        return self._write_tick()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (ActsForBots, "seat [01] of the match acts, although a built-in bot fills it"),
        (AnyBot, "reset accepted the built-in bot 'no-such-bot'"),
        (Moody, "do not give the same match of the built-in bot perfect again"),
    ],
)
def test_the_kit_finds_wrong_bots(kind, message):
    """Each broken game differs from the valid one in one point."""
    with pytest.raises(ContractError, match=message):
        check_environment(lambda num_matches: count(num_matches, kind), steps=30)


def test_matches_of_bots_only_are_as_long_as_they_are():
    """The limit of ticks without an acting seat is for matches in which a participant waits."""
    check_environment(count, steps=30, max_idle_ticks=2)


def test_the_engine_reports_a_bot_that_acts():
    """A wrong game does not get actions for its bots."""
    environment: Environment = count(2, ActsForBots)
    bot, other = BuiltinAgent("perfect"), RandomAgent(None, spec=environment.spec, role="player")
    with pytest.raises(ContractError, match="a seat of the built-in bot 'perfect' acts in match 0"):
        play_matches(environment, [[bot, other]], matches=2, seed=1)


@pytest.mark.parametrize(
    ("builtin", "bots", "message"),
    [
        (("easy",), (), "the environment has no built-in bots; got easy"),
        (("easy",), (("easy",), ()), "expected a built-in bot or '' for each of 2 seats, got 1"),
        (("", "easy"), (("easy",), ()), "seat 1 has no built-in bot 'easy'; it has none"),
        (("hard", ""), (("easy",), ()), "seat 0 has no built-in bot 'hard'; it has easy"),
    ],
)
def test_bots_are_validated(builtin, bots, message):
    """Unknown bots and a wrong number of seats raise one line."""
    with pytest.raises(ContractError, match=message):
        checked_scenarios([Scenario(builtin=builtin)], 1, known={}, builtin=bots)


def test_a_matchmaker_names_anchors_and_no_bots():
    """Bots of a pairing come from its anchors, so that the log names them."""
    league = FakeLeague(num_teams=2, players=[fake_player("main", 1)], anchors=("bot",))
    pairing = Pairing(opponents=("bot",), reason="", scenario=Scenario(builtin=("", "perfect")))
    with pytest.raises(ContractError, match="an anchor of the agent builtin as opponent"):
        checked_pairing(pairing, league)
