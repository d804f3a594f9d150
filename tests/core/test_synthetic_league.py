"""The synthetic league keeps the books of a real one."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.matchmaker import LeagueView, Pairing, PoolChange
from ludus.rule import Freeze, Reset, Share
from ludus.testing import EloWorld, SyntheticLeague, SyntheticPlayer
from ludus_dummy.config import ShareConfig
from ludus_dummy.rating import ShareTable


class Meets:
    """A matchmaker that always names the same opponent, and lets models enter the pool of their player."""

    def __init__(self, opponent=None, pair=None):
        self.opponent, self.pair = opponent, pair

    def next_fixture(self, league, player, rng):
        """Return the opponent, the live weights where there is none."""
        return Pairing(opponents=(self.opponent or league.players[player].live,), reason="test")

    def next_evaluation(self, league, rng):
        """Return the pair."""
        return self.pair

    def on_model_frozen(self, league, player, model):
        """Let it enter."""
        return [PoolChange(pool=player, model=model, enters=True)]


class Says:
    """A rule that says one thing, once."""

    def __init__(self, *changes):
        self.changes = changes

    def decide(self, league, rng):
        """Return it, and from then on nothing."""
        changes, self.changes = self.changes, ()
        return changes


def league(*, rules=(), anchors=None, meets=None, rating=None, **players):
    """Return a league of players that meet themselves."""
    players = players or {"main": {}}
    made = {name: SyntheticPlayer(**{"matchmaker": Meets(meets), **given}) for name, given in players.items()}
    return SyntheticLeague(
        world=EloWorld(), players=made, rules=rules, anchors=anchors or {"zero": np.zeros(1)}, **(rating or {})
    )


def test_it_is_a_league_view():
    """Matchmakers and rules see what they see in a run."""
    made = league()
    view: LeagueView = made
    assert (view.num_teams, view.anchors, view.elapsed_s) == (2, ("zero",), 0.0)
    assert (made.team("main@0+"), made.team("zero"), made.pool("main")) == (None, None, ())
    assert league(cat={"team": 0}, mouse={"team": 1}).team("mouse@0+") == 1


def test_training_moves_the_live_strategy():
    """Against even opponents by the step of the world; decisions, matches and time are counted."""
    made = league()
    made.run(3)
    assert made.strategies["main@0+"][0] == pytest.approx(0.06)
    assert (made.players["main"].decisions, made.played, made.elapsed_s) == (3 * 128, 3 * 128, 3.0)
    assert made.met == {("main", "main@0+"): 48}


def test_models_are_frozen_in_turn():
    """After so many steps, and their strategies stay."""
    made = league(main={"freeze_every": 2})
    made.run(5)
    assert made.players["main"].models == made.pool("main") == ("main@1", "main@2")
    assert made.strategies["main@1"][0] == pytest.approx(0.04)
    assert made.strategies["main@2+"][0] == pytest.approx(0.1)
    assert (made.frozen_s("main@2"), made.players["main"].frozen_decisions) == (4.0, 512)


def test_results_follow_the_true_win_rates():
    """Of many matches; the other side sees the mirror image."""
    made = league(meets="zero", main={"start": np.array([np.log(3)]), "freeze_every": 0, "rate": 0.0})
    made.run(20)
    wins, draws, losses = made.payoff("main@0+", ["zero"])[0]
    assert (wins + losses, draws) == (20 * 128, 0)
    assert wins / (wins + losses) == pytest.approx(0.75, abs=0.03)
    assert made.payoff("zero", ["main@0+"])[0].tolist() == [losses, draws, wins]
    assert made.recent("main", ["zero"])[0, 0] < wins
    assert made.win_rates("main@0+", ["zero", "main@0+"]).tolist() == pytest.approx([0.75, 0.5])


def test_rated_pairs_move_ratings():
    """By the table that is given; without one nobody is rated."""
    rated = {"evaluation": Meets(pair=("main@1", "zero"))}
    table = ShareTable(ShareConfig(), anchors=(), seats=())
    for rating, matches in ((rated, 0), (rated | {"ratings": table}, 4 * 8)):
        made = league(main={"freeze_every": 1, "rate": 100.0}, rating=rating)
        made.run(1)
        assert made.rating("main@1").matches == matches
    assert made.rating("main@1").mean > 50 > made.rating("zero").mean


def test_players_train_by_their_shares():
    """Three times the share, three times the steps."""
    made = league(main={"share": 3.0}, other={})
    turns = [made.step() for _ in range(40)]
    assert turns.count("main") == 30


def test_rules_change_shares_and_pools():
    """As the coordinator does: one that has waited is not owed what it missed."""
    made = league(main={"freeze_every": 1}, other={})
    made.step()
    made.rules = [Says(PoolChange(pool="best", model="main@1", enters=True), Share(player="other", share=0.0))]
    made.run(10)
    assert made.pool("best") == ("main@1",)
    made.rules = [Says(Share(player="other", share=1.0))]
    made.step()
    turns = [made.step() for _ in range(10)]
    assert turns.count("other") == 5


def test_rules_freeze_and_reset():
    """With their reasons; a new generation starts from what it is told and inherits nothing."""
    made = league(main={"freeze_every": 0}, meets="zero")
    made.run(4)
    made.rules = [Says(Freeze(player="main", reason="strong"))]
    made.step()
    made.rules = [Says(Reset(player="main", reason="again", init="main@1"))]
    made.step()
    assert made.reasons == ["main@1: strong", "main@2: again"]
    view = made.players["main"]
    assert (view.generation, view.generation_starts, view.generation_start_decisions) == (1, (0, 2), view.decisions)
    assert made.strategies[view.live] == made.strategies["main@1"] < made.strategies["main@2"]
    assert not made.payoff(view.live, ["zero"]).any()
    assert not made.recent("main", ["zero"]).any()
    made.rules = [Says(Reset(player="main", reason="fresh"))]
    made.step()
    assert made.strategies["main@3+"] == 0


def test_a_model_can_be_given():
    """For pools that are there from the beginning; what the player has learned stays."""
    made = league()
    assert made.freeze("main", np.array([5.0])) == "main@1"
    assert (made.strategies["main@1"][0], made.strategies["main@1+"][0]) == (5.0, 0.0)


def test_equal_seeds_repeat():
    """Everything, results included."""
    one, other = league(meets="zero"), league(meets="zero")
    for made in (one, other):
        made.run(10)
    assert one.payoff("main@1+", ["zero"]).tolist() == other.payoff("main@1+", ["zero"]).tolist()
