"""Which pools are chosen from, and which models stay in them."""

from __future__ import annotations

import attrs
import pytest
from ludus.matchmaker import PoolChange
from ludus.testing import FakeLeague, fake_leagues, fake_player, opponent_shares
from ludus_matchmakers.history import PFSP, UniformHistory
from ludus_matchmakers.mixture import Mixture
from ludus_matchmakers.self_play import LatestSelfPlay
from ludus_matchmakers.tools import enter_long_pool, pool_opponents

MAIN, OTHER = fake_player("main", 3), fake_player("other", 2)
LEAGUE = FakeLeague(
    players=[MAIN, OTHER],
    anchors=("bot",),
    pools={"main/long": ("main@1",), "other/long": ("other@1",), "best": ("other@2", "main@1")},
)
SIDES = fake_leagues()["two sides"]


@pytest.mark.parametrize(
    ("pools", "models"),
    [
        ([], {"main@1", "main@2", "main@3"}),
        (["own"], {"main@1", "main@2", "main@3"}),
        (["*"], {"main@1", "main@2", "main@3", "other@1", "other@2"}),
        (["own/long"], {"main@1"}),
        (["*/long"], {"main@1", "other@1"}),
        (["other"], {"other@1", "other@2"}),
        (["best", "own/long"], {"other@2", "main@1"}),
        (["nowhere"], set()),
        (["own/long", "anchors"], {"main@1", "bot"}),
    ],
)
def test_pools_are_named(pools, models):
    """The own pool, those of all players, those with a suffix, and plain names; without duplicates."""
    found = pool_opponents(LEAGUE, "main", None, pools=pools)
    assert set(found) == models
    assert len(found) == len(models)


def test_an_empty_pool_is_warned_of_once(caplog):
    """Its name may be misspelt. A player without models and a pool with members cause no warning."""
    league = attrs.evolve(LEAGUE, players=[*LEAGUE.players.values(), fake_player("late", 0)])
    for _ in range(3):
        assert pool_opponents(league, "main", None, pools=["best", "late", "mian", "*"])
    (warning,) = caplog.messages
    assert warning.startswith("the pool 'mian' is empty and not named after a player (there are main, other, late)")


def test_in_an_asymmetric_game_own_pools_are_those_of_the_other_side():
    """A cat learns from mice, also from the pools with a suffix, and never meets cats."""
    league = attrs.evolve(SIDES, pools={"mouse/long": ("mouse@1",), "cat/long": ("cat@1",)})
    assert pool_opponents(league, "cat", 1, pools=["own/long"]) == ("mouse@1",)
    assert pool_opponents(league, "cat", 1, pools=["*"]) == ("mouse@1", "mouse@2")
    assert pool_opponents(league, "cat", 1, pools=["anchors"]) == ("random",)


def test_aet_meets_the_other_side_four_times_of_five_live_and_else_by_pfsp():
    """[AET §3.3]: the cat's win rates of ¾ and ¼ against mice 1 and 2 give 0.2 · ¼ and 0.2 · ¾."""
    league = attrs.evolve(
        SIDES,
        results={
            ("cat@4+", "mouse@1"): (75, 0, 25),
            ("cat@4+", "mouse@2"): (0, 50, 50),
            ("mouse@2+", "cat@1"): (9, 0, 0),
        },
    )
    parts = {"latest-self-play": LatestSelfPlay(), "pfsp": PFSP(prior_matches=0.0)}
    aet = Mixture(parts=parts, weights={"latest-self-play": 0.8, "pfsp": 0.2})
    shares = opponent_shares(aet, league, "cat", questions=6000)
    assert shares == {
        "mouse@2+": pytest.approx(0.8, abs=0.02),
        "mouse@1": pytest.approx(0.05, abs=0.01),
        "mouse@2": pytest.approx(0.15, abs=0.02),
    }


def test_a_share_of_the_matches_can_be_uniform():
    """With win rates 1, 1, 0, PFSP alone would meet the third only; with 30 % uniform it gets 0.7 + 0.1."""
    results = {("main@3+", "main@1"): (9, 0, 0), ("main@3+", "main@2"): (9, 0, 0), ("main@3+", "main@3"): (0, 0, 9)}
    league = FakeLeague(players=[MAIN], results=results)
    shares = opponent_shares(PFSP(uniform=0.3, prior_matches=0.0), league, "main", questions=4000)
    assert shares["main@3"] == pytest.approx(0.8, abs=0.02)
    assert shares["main@1"] == pytest.approx(0.1, abs=0.02)


# -- models that are kept --------------------------------------------------------------------------------------------


def grown(models, *, long=(), frozen=None, seconds=0.0):
    """Return a league in which a player has so many models, some of them in its long pool."""
    return FakeLeague(
        players=[fake_player("main", models)], pools={"main/long": long}, frozen=frozen or {}, elapsed_s=seconds
    )


def test_every_so_many_models_one_is_kept():
    """The third, the sixth and so on; a repeated model causes no change."""
    enters = [PoolChange(pool="main/long", model="main@3", enters=True)]
    assert enter_long_pool(grown(2), "main", "main@2", every_models=3) == []
    assert enter_long_pool(grown(3), "main", "main@3", every_models=3) == enters
    assert enter_long_pool(grown(3, long=("main@3",)), "main", "main@3", every_models=3) == []
    assert enter_long_pool(grown(5, long=("main@3",)), "main", "main@5", every_models=3) == []
    assert enter_long_pool(grown(6, long=("main@3",)), "main", "main@6", every_models=3) != []


def test_retired_models_count():
    """A policy of retention that keeps fewer models than that does not keep others out of the pool."""
    player = attrs.evolve(fake_player("main", 6), models=("main@5", "main@6"))
    league = FakeLeague(players=[player], pools={"main/long": ("main@3",)})
    assert enter_long_pool(league, "main", "main@6", every_models=3) != []
    assert enter_long_pool(league, "main", "main@6", every_models=4) == []


def test_every_so_many_seconds_a_model_is_kept():
    """Since the one that was kept last, or since the beginning."""
    frozen = {"main@1": 50.0, "main@2": 120.0, "main@3": 219.0}
    assert enter_long_pool(grown(1, frozen=frozen), "main", "main@1", every_s=100.0) == []
    assert enter_long_pool(grown(2, frozen=frozen), "main", "main@2", every_s=100.0) != []
    assert enter_long_pool(grown(3, long=("main@2",), frozen=frozen), "main", "main@3", every_s=100.0) == []
    assert enter_long_pool(grown(3, long=("main@2",), frozen=frozen), "main", "main@3", every_s=99.0) != []


def test_models_of_others_in_the_long_pool_do_not_count():
    """A user may add them: the next model of the player's own enters when it would have without them."""
    enters = [PoolChange(pool="main/long", model="main@3", enters=True)]
    league = attrs.evolve(LEAGUE, pools={"main/long": ("other@2",)}, frozen={"main@3": 100.0, "other@2": 99.0})
    assert enter_long_pool(league, "main", "main@3", every_models=3) == enters
    assert enter_long_pool(league, "main", "main@3", every_s=100.0) == enters
    later = attrs.evolve(league, pools={"main/long": ("main@1", "other@2")})
    assert enter_long_pool(later, "main", "main@3", every_models=2) == enters
    assert enter_long_pool(later, "main", "main@3", every_models=3) == []


def test_by_default_no_model_is_kept():
    """There is no long pool then."""
    assert enter_long_pool(grown(9), "main", "main@9") == []


def test_matchmakers_keep_models_both_ways():
    """A model enters the first-in-first-out pool and the permanent pool."""
    changes = UniformHistory(capacity=2, long_models=3).on_model_frozen(LEAGUE, "main", "main@3")
    assert PoolChange(pool="main/long", model="main@3", enters=True) not in changes
    fresh = attrs.evolve(LEAGUE, pools={})
    changes = UniformHistory(capacity=2, long_models=3).on_model_frozen(fresh, "main", "main@3")
    assert PoolChange(pool="main/long", model="main@3", enters=True) in changes
