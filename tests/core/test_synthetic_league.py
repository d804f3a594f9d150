"""`SyntheticLeague` counts results, models and pools like a real league."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.matchmaker import LeagueView, Pairing, PoolChange
from ludus.rule import Freeze, Reset, Share
from ludus.testing import EloWorld, SyntheticLeague, SyntheticPlayer
from ludus_dummy.config import ShareConfig
from ludus_dummy.league import ShareTable


class ConstantMatchmaker:
    """Returns the same opponent and the same pair in every call; every model enters the pool of its player."""

    def __init__(self, opponent=None, pair=None):
        self.opponent, self.pair = opponent, pair

    def next_fixture(self, league, player, rng):
        """Return the configured opponent, or else the live player."""
        return Pairing(opponents=(self.opponent or league.players[player].live,), reason="test")

    def next_evaluation(self, league, rng):
        """Return the configured pair."""
        return self.pair

    def on_model_frozen(self, league, player, model):
        """Return the change that adds the model to the pool."""
        return [PoolChange(pool=player, model=model, enters=True)]


class ChangesOnce:
    """A rule that returns its changes at the first call only."""

    def __init__(self, *changes):
        self.changes = changes

    def decide(self, league, rng):
        """Return the changes, and none at later calls."""
        changes, self.changes = self.changes, ()
        return changes


def make_league(*, rules=(), anchors=None, opponent=None, rating=None, **players):
    """Return a league whose players play against `opponent`, or against themselves."""
    players = players or {"main": {}}
    setup = {
        name: SyntheticPlayer(**{"matchmaker": ConstantMatchmaker(opponent), **options})
        for name, options in players.items()
    }
    return SyntheticLeague(
        world=EloWorld(), players=setup, rules=rules, anchors=anchors or {"zero": np.zeros(1)}, **(rating or {})
    )


def test_a_synthetic_league_is_a_league_view():
    """It has the attributes and methods that matchmakers and rules read."""
    made = make_league()
    view: LeagueView = made
    assert (view.num_teams, view.anchors, view.elapsed_s) == (2, ("zero",), 0.0)
    assert (made.team("main@0+"), made.team("zero"), made.pool("main")) == (None, None, ())
    assert make_league(cat={"team": 0}, mouse={"team": 1}).team("mouse@0+") == 1


def test_training_changes_the_live_strategy():
    """Three steps against even opponents add three times 0.02; decisions, matches and time increase."""
    made = make_league()
    made.run(3)
    assert made.strategies["main@0+"][0] == pytest.approx(0.06)
    assert (made.players["main"].decisions, made.num_matches, made.elapsed_s) == (3 * 128, 3 * 128, 3.0)
    assert made.fixture_counts == {("main", "main@0+"): 48}


def test_models_are_frozen_after_a_number_of_steps():
    """The strategy of a model is that of the player when it was frozen."""
    made = make_league(main={"freeze_every": 2})
    made.run(5)
    assert made.players["main"].models == made.pool("main") == ("main@1", "main@2")
    assert made.strategies["main@1"][0] == pytest.approx(0.04)
    assert made.strategies["main@2+"][0] == pytest.approx(0.1)
    assert (made.frozen_s("main@2"), made.players["main"].frozen_decisions) == (4.0, 512)


def test_results_follow_the_true_win_rates():
    """The payoff of the opponent has wins and losses exchanged."""
    made = make_league(opponent="zero", main={"start": np.array([np.log(3)]), "freeze_every": 0, "rate": 0.0})
    made.run(20)
    wins, draws, losses = made.payoff("main@0+", ["zero"])[0]
    assert (wins + losses, draws) == (20 * 128, 0)
    assert wins / (wins + losses) == pytest.approx(0.75, abs=0.03)
    assert made.payoff("zero", ["main@0+"])[0].tolist() == [losses, draws, wins]
    assert made.recent("main", ["zero"])[0, 0] < wins
    assert made.win_rates("main@0+", ["zero", "main@0+"]).tolist() == pytest.approx([0.75, 0.5])


def test_rating_matches_change_ratings():
    """Without a rating table there are no ratings."""
    rated = {"evaluation": ConstantMatchmaker(pair=("main@1", "zero"))}
    table = ShareTable(ShareConfig(), anchors=(), seats=(), sides={})
    for rating, matches in ((rated, 0), (rated | {"ratings": table}, 4 * 8)):
        made = make_league(main={"freeze_every": 1, "rate": 100.0}, rating=rating)
        made.run(1)
        assert made.rating("main@1").matches == matches
    assert made.rating("main@1").mean > 50 > made.rating("zero").mean


def test_steps_follow_shares():
    """A player with three times the share of another trains three times as often."""
    made = make_league(main={"share": 3.0}, other={})
    turns = [made.step() for _ in range(40)]
    assert turns.count("main") == 30


def test_rules_change_shares_and_pools():
    """A player whose share was 0 does not make up for missed steps."""
    made = make_league(main={"freeze_every": 1}, other={})
    made.step()
    made.rules = [ChangesOnce(PoolChange(pool="best", model="main@1", enters=True), Share(player="other", share=0.0))]
    made.run(10)
    assert made.pool("best") == ("main@1",)
    made.rules = [ChangesOnce(Share(player="other", share=1.0))]
    made.step()
    turns = [made.step() for _ in range(10)]
    assert turns.count("other") == 5


def test_rules_freeze_and_reset():
    """A reset player starts from the given model, or from the start strategy, and inherits no results."""
    made = make_league(main={"freeze_every": 0}, opponent="zero")
    made.run(4)
    made.rules = [ChangesOnce(Freeze(player="main", reason="strong"))]
    made.step()
    made.rules = [ChangesOnce(Reset(player="main", reason="again", init="main@1"))]
    made.step()
    assert made.reasons == ["main@1: strong", "main@2: again"]
    view = made.players["main"]
    assert (view.generation, view.generation_starts, view.generation_start_decisions) == (1, (0, 2), view.decisions)
    assert made.strategies[view.live] == made.strategies["main@1"] < made.strategies["main@2"]
    assert not made.payoff(view.live, ["zero"]).any()
    assert not made.recent("main", ["zero"]).any()
    made.rules = [ChangesOnce(Reset(player="main", reason="fresh"))]
    made.step()
    assert made.strategies["main@3+"] == 0


def test_a_given_strategy_can_be_frozen():
    """It becomes a model; the live strategy of the player does not change."""
    made = make_league()
    assert made.freeze("main", np.array([5.0])) == "main@1"
    assert (made.strategies["main@1"][0], made.strategies["main@1+"][0]) == (5.0, 0.0)


def test_equal_seeds_give_equal_results():
    """The payoffs of two leagues with the same seed are equal."""
    one, other = make_league(opponent="zero"), make_league(opponent="zero")
    for made in (one, other):
        made.run(10)
    assert one.payoff("main@1+", ["zero"]).tolist() == other.payoff("main@1+", ["zero"]).tolist()
