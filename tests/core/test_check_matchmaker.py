"""`check_matchmaker` reports every kind of broken matchmaker; `FakeLeague` behaves like a real league."""

from __future__ import annotations

import itertools

import attrs
import numpy as np
import pytest
from ludus._league.participants import inherited_weights
from ludus._league.payoffs import Payoffs
from ludus.environment import Scenario
from ludus.errors import ContractError
from ludus.matchmaker import Pairing, PoolChange, Rating
from ludus.testing import FakeLeague, check_matchmaker, fake_leagues, fake_player, opponent_shares


class Valid:
    """Plays the first participant that fits, rates nothing and adds every model to the pool."""

    def next_fixture(self, league, player, rng):
        own = league.players[player].team
        participants = [view.live for view in league.players.values()] + list(league.anchors)
        teams = [t for t in range(league.num_teams) if t != (0 if own is None else own)]
        fits = lambda name, team: own is None or league.team(name) in (team, None)  # noqa: E731
        return Pairing(
            opponents=tuple(next(name for name in participants if fits(name, team)) for team in teams), reason="first"
        )

    def next_evaluation(self, league, rng):
        return None

    def on_model_frozen(self, league, player, model):
        return [PoolChange(pool=player, model=model, enters=True)]


class Forgetful(Valid):
    """Keeps a counter."""

    def __init__(self):
        self.turn = itertools.count()

    def next_fixture(self, league, player, rng):
        return Pairing(opponents=super().next_fixture(league, player, rng).opponents, reason=str(next(self.turn)))


class Inventor(Valid):
    def next_fixture(self, league, player, rng):
        return Pairing(opponents=("nobody@1",) * (league.num_teams - 1), reason="why not")


class Mute(Valid):
    def next_fixture(self, league, player, rng):
        return None


class Raising(Valid):
    def next_evaluation(self, league, rng):
        return {}["pair"]


class PoolNone(Valid):
    def on_model_frozen(self, league, player, model):
        return None


class PoolNames(Valid):
    def on_model_frozen(self, league, player, model):
        return [model]


class Lonely(Valid):
    def next_fixture(self, league, player, rng):
        return Pairing(opponents=(), reason="nobody")


class OwnSide(Valid):
    """Plays itself in an asymmetric game."""

    def next_fixture(self, league, player, rng):
        return Pairing(opponents=(league.players[player].live,) * (league.num_teams - 1), reason="me")


class Drawer(Valid):
    """Returns NumPy strings."""

    def next_fixture(self, league, player, rng):
        drawn = rng.choice(super().next_fixture(league, player, rng).opponents, league.num_teams - 1)
        return Pairing(opponents=tuple(drawn), reason="drawn")


class Silent(Valid):
    def next_fixture(self, league, player, rng):
        return Pairing(opponents=super().next_fixture(league, player, rng).opponents, reason="")


class Nowhere(Valid):
    def next_fixture(self, league, player, rng):
        return attrs.evolve(super().next_fixture(league, player, rng), scenario=None)


class Endless(Valid):
    """Returns a scenario with an infinite parameter."""

    def next_fixture(self, league, player, rng):
        scenario = Scenario(parameters={"wind": float("inf")})
        return attrs.evolve(super().next_fixture(league, player, rng), scenario=scenario)


class Writer(Valid):
    """Writes into the league."""

    def next_fixture(self, league, player, rng):
        league.results["a", "b"] = (1, 0, 0)
        return super().next_fixture(league, player, rng)


class Alone(Valid):
    def next_evaluation(self, league, rng):
        return ("random",) if "random" in league.anchors else None


class RatesLive(Valid):
    """Rates live weights."""

    def next_evaluation(self, league, rng):
        return (next(iter(league.players.values())).live,) * league.num_teams


class KeepsLive(Valid):
    def on_model_frozen(self, league, player, model):
        return [PoolChange(pool=player, model=league.players[player].live, enters=True)]


class WrongSeats(Valid):
    """Puts the same model into every team."""

    def next_evaluation(self, league, rng):
        models = next(iter(league.players.values())).models
        return (models[-1],) * league.num_teams if models else None


class Moody(Valid):
    def __init__(self):
        self.turn = itertools.cycle([None, ("random", "random")])

    def next_evaluation(self, league, rng):
        return next(self.turn) if league.num_teams == 2 and "random" in league.anchors else None


class Twice(Valid):
    def on_model_frozen(self, league, player, model):
        return [*super().on_model_frozen(league, player, model)] * 2


class Evictor(Valid):
    def on_model_frozen(self, league, player, model):
        return [PoolChange(pool="elsewhere", model=model, enters=False)]


class Stranger(Valid):
    def on_model_frozen(self, league, player, model):
        return [PoolChange(pool=player, model="nobody@9", enters=True)]


class Wavering(Valid):
    def __init__(self):
        self.turn = itertools.count()

    def on_model_frozen(self, league, player, model):
        return [PoolChange(pool=f"pool-{next(self.turn)}", model=model, enters=True)]


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (Forgetful, "take all randomness from `rng` and keep no state"),
        (Inventor, "opponents: 'nobody@1' cannot play there now"),
        (Mute, "player 'main-agent': next_fixture returned None; expected a ludus.matchmaker.Pairing"),
        (Raising, r"league 'nothing frozen': .*test_check_matchmaker, line \d+, raised KeyError: 'pair'"),
        (PoolNone, "league 'nothing frozen': on_model_frozen returned None; expected a sequence of changes"),
        (PoolNames, "on_model_frozen returned 'main-agent@1'; expected a ludus.matchmaker.PoolChange"),
        (Lonely, "next_fixture named 0 opponents; expected 1, one for every other team"),
        (OwnSide, "league 'two sides': player 'cat': 'cat@4.' cannot play in team 1"),
        (Drawer, "opponents: expected a tuple of names, got"),
        (Silent, "returned no reason"),
        (Nowhere, "next_fixture chose None; expected a ludus.environment.Scenario"),
        (Endless, "scenario default: wind is inf; expected a finite Python number"),
        (Writer, "the league was modified"),
        (RatesLive, "league 'nothing frozen': next_evaluation: 'main-agent@0.' cannot play there now"),
        (KeepsLive, "league 'nothing frozen': there is no frozen model 'main-agent@1.'"),
        (Alone, "next_evaluation named 1 participants; expected 2"),
        (WrongSeats, "league 'two sides': 'cat@4' cannot play in team 1"),
        (Moody, "next_evaluation returned None and then"),
        (Twice, "already in the pool"),
        (Evictor, "not in the pool"),
        (Stranger, "there is no frozen model 'nobody@9'"),
        (Wavering, "on_model_frozen returned .* and then .*; keep no state"),
    ],
)
def test_a_broken_matchmaker_is_reported(broken, problem):
    """The message names the broken part of the contract."""
    with pytest.raises(ContractError, match=problem):
        check_matchmaker(broken(), questions=2)


def test_a_valid_matchmaker_passes():
    """No error is raised."""
    check_matchmaker(Valid(), questions=2)


def test_leagues_can_be_passed():
    """For configurations that name players."""
    with pytest.raises(ContractError, match="league 'mine'"):
        check_matchmaker(Silent(), leagues={"mine": FakeLeague(players=[fake_player("me")])})


def test_opponent_shares_count_opponents():
    """Shares of the first opponent sum to 1."""

    class Coin(Valid):
        def next_fixture(self, league, player, rng):
            return Pairing(opponents=("main@1" if rng.random() < 0.25 else "main@2",), reason="coin")

    shares = opponent_shares(Coin(), FakeLeague(players=[fake_player("main")]), "main")
    assert shares["main@1"] == pytest.approx(0.25, abs=0.03)
    assert sum(shares.values()) == pytest.approx(1)


# -- the fake league -----------------------------------------------------------------------------------------------


def test_fake_players_have_models_from_1_and_live_weights_after_the_last():
    """As a real player after that many frozen models."""
    view = fake_player("main", 2, team=1)
    assert (view.models, view.live, view.team) == (("main@1", "main@2"), "main@2+", 1)
    assert fake_player("new", 0).live == "new@0+"


def test_fake_payoffs_are_mirrored():
    """A result counts for both participants; other pairs have no results."""
    league = FakeLeague(players=[fake_player("main")], results={("main@1", "main@2"): (3, 2, 1)})
    assert league.payoff("main@1", ["main@2", "main@3"]).tolist() == [[3, 2, 1], [0, 0, 0]]
    assert league.payoff("main@2", ["main@1"]).tolist() == [[1, 2, 3]]
    assert league.payoff("main@2", []).shape == (0, 3)


def test_fake_live_participants_inherit_as_in_a_real_league():
    """Payoffs equal those of the core for the same results; `recent` has no inherited results."""
    cat, mouse = fake_player("cat", 4, team=0), attrs.evolve(fake_player("mouse", 2, team=1), generation_starts=(0, 1))
    results = {
        ("cat@4+", "mouse@2+"): (1, 2, 4),
        ("cat@4+", "mouse@2"): (8, 16, 32),
        ("cat@3", "mouse@1+"): (64, 128, 256),
        ("mouse@0+", "cat@4"): (512, 1024, 2048),
        ("cat@3+", "cat@1"): (5, 6, 7),
    }
    league = FakeLeague(players=[cat, mouse], results=results)
    core = Payoffs(lambda participant: inherited_weights(participant, league.players))
    for (one, other), count in results.items():
        core.add(one, other, np.array(count))
        core.add(other, one, np.array(count[::-1]))
    participants = [name for view in (cat, mouse) for name in (*view.models, view.live)]
    for name in participants:
        np.testing.assert_array_equal(league.payoff(name, participants), core.payoff(name, participants))
    assert league.recent("cat", ["mouse@2", "mouse@2+"]).tolist() == [[8, 16, 32], [1, 2, 4]]


def test_fake_pools_have_all_models_by_default():
    """An unknown pool is empty."""
    league = FakeLeague(players=[fake_player("main", 1), fake_player("b", 2)], pools={"b": ("b@2",), "best": ("b@1",)})
    assert [league.pool(name) for name in ("main", "b", "best", "none")] == [("main@1",), ("b@2",), ("b@1",), ()]


def test_fake_teams_and_ratings():
    """Participants have a team and a rating."""
    league = FakeLeague(
        players=[fake_player("cat", 1, team=0)],
        anchors=("bot", "any"),
        anchor_teams={"bot": 1},
        ratings={"bot": Rating(5.0, 1.0, 3)},
    )
    assert [league.team(name) for name in ("cat@1", "cat@1+", "bot", "any")] == [0, 0, 1, None]
    assert (league.rating("bot").mean, league.rating("any").matches) == (5.0, 0)


def test_fake_leagues_cover_special_cases():
    """No models, extreme win rates, many models, roles, and more than two teams."""
    leagues = fake_leagues()
    assert not leagues["nothing frozen"].pool("main-agent")
    assert len(leagues["500 models"].pool("main-agent")) == 500
    counts = leagues["all win rates 1"].payoff("main-agent@3+", leagues["all win rates 1"].pool("main-agent"))
    assert np.all(counts[:, 1:] == 0)
    assert {league.num_teams for league in leagues.values()} == {2, 4}
