"""The small functions of which matchmakers are made."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus.errors import ConfigError
from ludus.matchmaker import PoolChange
from ludus.testing import FakeLeague, fake_player
from ludus_matchmakers.tools import (
    enter_pool,
    fallback_opponents,
    least_certain_pair,
    live_opponents,
    other_teams,
    pool_opponents,
    seat_pair,
    win_rates,
)

MAIN = fake_player("main", 3)
CAT = fake_player("cat", 4, role="cat", team=0)
MOUSE = fake_player("mouse", 2, role="mouse", team=1)
SIDES = FakeLeague(players=[CAT, MOUSE], anchors=("random", "cat-bot"), anchor_teams={"cat-bot": 0})


def rng():
    """Return a generator with a fixed seed."""
    return np.random.default_rng(0)


# -- teams -----------------------------------------------------------------------------------------------


def test_other_teams_of_a_symmetric_player_are_any_teams():
    """One opponent for each of the other teams, whichever they are."""
    assert other_teams(FakeLeague(players=[MAIN]), "main") == (None,)
    assert other_teams(FakeLeague(players=[MAIN], num_teams=4), "main") == (None, None, None)


def test_other_teams_of_one_side_are_the_others_in_order():
    """A player of team 1 of 3 needs opponents for 0 and 2."""
    league = FakeLeague(players=[MOUSE], num_teams=3)
    assert other_teams(league, "mouse") == (0, 2)


# -- opponents -----------------------------------------------------------------------------------------------------


def test_a_symmetric_player_meets_itself():
    """Live: its own weights. Frozen: its own pool."""
    league = FakeLeague(players=[MAIN, fake_player("other")])
    assert live_opponents(league, "main", None) == ("main@3+",)
    assert pool_opponents(league, "main", None) == ("main@1", "main@2", "main@3")


def test_one_side_meets_the_other_side():
    """Live weights and pools of all players of the other team."""
    league = attrs.evolve(SIDES, players=[CAT, MOUSE, fake_player("mouse-2", 1, role="mouse", team=1)])
    assert live_opponents(league, "cat", 1) == ("mouse@2+", "mouse-2@1+")
    assert pool_opponents(league, "cat", 1) == ("mouse@1", "mouse@2", "mouse-2@1")


def test_players_to_meet_can_be_named():
    """An exploiter meets the main agent only."""
    league = FakeLeague(players=[MAIN, fake_player("exploiter", 0)])
    assert live_opponents(league, "exploiter", None, against=["main"]) == ("main@3+",)


def test_naming_an_unknown_player_is_an_error_with_the_names_there_are():
    """A misspelt player name raises."""
    with pytest.raises(ConfigError, match="no player 'mian'; players are main"):
        live_opponents(FakeLeague(players=[MAIN]), "main", None, against=["mian"])


def test_named_pools_are_joined_without_duplicates_and_without_members_of_other_teams():
    """Members of several pools appear once; the own side never."""
    league = attrs.evolve(SIDES, pools={"best": ("mouse@2", "cat@1"), "mouse": ("mouse@1", "mouse@2")})
    assert pool_opponents(league, "cat", 1, pools=["best", "mouse"]) == ("mouse@2", "mouse@1")


@pytest.mark.parametrize(
    ("league", "player", "team", "expected"),
    [
        (FakeLeague(players=[MAIN]), "main", None, ("main@3+",)),
        (SIDES, "mouse", 0, ("cat@4+",)),
        (FakeLeague(players=[CAT], anchors=("a", "b"), anchor_teams={"a": 0}), "cat", 1, ("b",)),
    ],
)
def test_fallback_opponents(league, player, team, expected):
    """Live weights first, then anchors that fit."""
    assert fallback_opponents(league, player, team) == expected


def test_no_fallback_for_a_team_without_participants():
    """A cat never takes the seats of mice."""
    with pytest.raises(
        ConfigError, match="no participant plays team 1 against 'cat': add a player of its role, or an anchor"
    ):
        fallback_opponents(FakeLeague(players=[CAT]), "cat", 1)


# -- win rates -----------------------------------------------------------------------------------------------------


def test_draws_count_half():
    """Without a prior, 1 win, 2 draws and 1 loss is ½, and 1 win with 1 draw is ¾."""
    assert win_rates(np.array([[1, 2, 1], [1, 1, 0]]), prior_matches=0).tolist() == [0.5, 0.75]


def test_unknown_opponents_have_one_half():
    """With and without a prior."""
    assert win_rates(np.zeros((1, 3))).tolist() == win_rates(np.zeros((1, 3)), prior_matches=0).tolist() == [0.5]


def test_the_prior_keeps_few_matches_from_proving_certainty():
    """One win with a prior of two matches: (1 + 1) / (1 + 2)."""
    assert win_rates(np.array([[1, 0, 0]])).tolist() == [pytest.approx(2 / 3)]


@given(
    st.lists(st.tuples(*[st.floats(0, 1e6, allow_subnormal=False)] * 3), max_size=5),
    st.floats(0, 100, allow_subnormal=False),
)
@settings(deadline=None, max_examples=50)
def test_win_rates_are_rates_and_those_of_the_opponent_complement_them(counts, prior):
    """Every rate is in [0, 1], and exchanging wins and losses gives 1 minus it."""
    mine = np.array(counts, np.float64).reshape(-1, 3)
    rates = win_rates(mine, prior_matches=prior)
    assert ((rates >= 0) & (rates <= 1)).all()
    np.testing.assert_allclose(rates + win_rates(mine[:, ::-1], prior_matches=prior), 1)


# -- pools ---------------------------------------------------------------------------------------------------------


def test_a_model_enters_a_pool_with_room():
    """Nothing leaves below capacity."""
    league = FakeLeague(players=[MAIN])
    assert enter_pool(league, "main", "main@4", capacity=4) == [PoolChange(pool="main", model="main@4", enters=True)]


def test_the_oldest_leave_a_full_pool():
    """As many leave as are too many, the oldest first."""
    changes = enter_pool(FakeLeague(players=[MAIN]), "main", "main@4", capacity=2)
    assert [(change.model, change.enters) for change in changes] == [
        ("main@1", False),
        ("main@2", False),
        ("main@4", True),
    ]


def test_a_model_that_is_in_the_pool_changes_nothing():
    """Adding the same model twice causes no change."""
    assert enter_pool(FakeLeague(players=[MAIN]), "main", "main@3", capacity=1) == []


# -- ratings -------------------------------------------------------------------------------------------------------


def rate(league, **options):
    """Return the next pair to rate as a set, None when there is none."""
    pair = least_certain_pair(league, rng(), **options)
    return None if pair is None else set(pair)


def test_the_newest_model_meets_anchors_first():
    """Not the older ones, and before any other pair."""
    assert rate(FakeLeague(players=[MAIN], anchors=("bot",))) == {"main@3", "bot"}


def test_the_pair_with_the_fewest_matches_comes_first():
    """Among anchors, the one met less."""
    league = FakeLeague(players=[MAIN], anchors=("a", "b"), results={("main@3", "a"): (1, 0, 0), ("a", "b"): (5, 0, 0)})
    assert rate(league) == {"main@3", "b"}


def test_anchors_are_rated_against_each_other():
    """Once known against the newest model, bots meet bots until they are known, too."""
    known = {("main@3", "a"): (99, 0, 1), ("main@3", "b"): (99, 0, 1)}
    assert rate(FakeLeague(players=[MAIN], anchors=("a", "b"), results=known)) == {"a", "b"}
    assert rate(FakeLeague(players=[fake_player("main", 0)], anchors=("a", "b"))) == {"a", "b"}


def test_then_the_newest_model_meets_its_predecessors_and_the_newest_of_others():
    """Within `recent_models`, whichever pair has the fewest matches."""
    other = fake_player("other", 2)
    results = {("main@3", "main@2"): (3, 0, 0), ("other@2", "other@1"): (2, 0, 0), ("main@2", "main@1"): (9, 0, 0)}
    league = FakeLeague(players=[MAIN, other], results={**results, ("main@3", "other@2"): (1, 0, 0)})
    assert rate(league, recent_models=1) == {"main@3", "other@2"}
    assert rate(league, recent_models=2) == {"main@3", "main@1"}


def test_no_pair_is_rated_after_enough_matches():
    """Enough matches everywhere end the rating matches."""
    results = {("main@3", "main@2"): (2, 0, 0), ("main@3", "main@1"): (0, 2, 0)}
    league = FakeLeague(players=[MAIN], results=results)
    assert rate(league, enough_matches=2) is None
    assert rate(league, enough_matches=3) is not None


def test_models_of_one_side_meet_recent_models_of_the_other():
    """In an asymmetric game, predecessors cannot be met; each seat gets a model of its team."""
    league = FakeLeague(players=[CAT, MOUSE], results={("cat@4", "mouse@2"): (9, 0, 0)})
    pairs = {least_certain_pair(league, np.random.default_rng(seed), recent_models=2) for seed in range(20)}
    assert pairs == {("cat@4", "mouse@1"), ("cat@3", "mouse@2")}


def test_anchors_made_for_one_team_meet_the_other_team_only():
    """cat-bot plays team 0, so it meets the newest mouse and the bot that plays anything."""
    pairs = {least_certain_pair(SIDES, np.random.default_rng(seed)) for seed in range(40)}
    others = {("cat@4", "random"), ("random", "mouse@2"), ("cat-bot", "mouse@2"), ("cat-bot", "random")}
    assert pairs == others | {("random", "random")}


def test_a_model_that_was_skipped_is_rated_once():
    """main@4 was frozen before main@3 had a match; main@3 follows the first matches of main@4, before the others."""
    rated = {("main@4", "random"): (1, 0, 0), ("main@4", "main@1"): (5, 0, 0), ("main@4", "main@2"): (1, 0, 0)}
    league = FakeLeague(players=[fake_player("main", 4)], anchors=("random",), results=rated)
    assert least_certain_pair(league, rng()) == ("main@4", "main@3")
    assert least_certain_pair(league, rng(), recent_models=0) == ("main@3", "random")
    rated = rated | {("main@3", "random"): (0, 0, 1)}
    assert set(least_certain_pair(attrs.evolve(league, results=rated), rng(), recent_models=0)) == {"main@4", "random"}


def test_skipped_models_are_rated_without_anchors_and_on_sides():
    """They meet the next model, or the newest one of the other side."""
    rated = {("main@4", "main@3"): (1, 0, 0), ("main@1", "main@3"): (1, 0, 0)}
    league = FakeLeague(players=[fake_player("main", 4)], results=rated)
    assert least_certain_pair(league, rng(), recent_models=1) == ("main@2", "main@3")
    sides = FakeLeague(players=[CAT, MOUSE], results={("cat@4", "mouse@2"): (9, 0, 0), ("cat@4", "mouse@1"): (9, 0, 0)})
    pairs = {least_certain_pair(sides, np.random.default_rng(seed), recent_models=1) for seed in range(20)}
    assert pairs == {("cat@1", "mouse@2"), ("cat@2", "mouse@2"), ("cat@3", "mouse@2")}


def test_an_anchor_meets_itself_where_sides_differ():
    """Random cats against random mice: what the other scores are compared with; then it needs no more matches."""
    league = FakeLeague(players=[CAT, MOUSE], anchors=("random",))
    enough = {("cat@4", "mouse=random"): (99, 0, 1), ("mouse@2", "cat=random"): (99, 0, 1)}
    assert least_certain_pair(attrs.evolve(league, results=enough), rng()) == ("random", "random")
    enough |= {("mouse=random", "cat=random"): (50, 0, 50)}
    assert least_certain_pair(attrs.evolve(league, results=enough), rng()) != ("random", "random")
    symmetric = FakeLeague(players=[MAIN], anchors=("random",))
    pairs = {least_certain_pair(symmetric, np.random.default_rng(seed)) for seed in range(20)}
    assert ("random", "random") not in pairs


def test_ties_are_broken_by_the_generator():
    """The same generator state gives the same pair, others give others."""
    league = FakeLeague(players=[MAIN], anchors=("a", "b", "c"))
    assert len({least_certain_pair(league, np.random.default_rng(seed)) for seed in range(30)}) == 6
    assert least_certain_pair(league, rng()) == least_certain_pair(league, rng())


def test_further_teams_are_filled_by_other_participants():
    """In a game of four teams each participant has one: the newest model, anchors, then older models."""
    league = FakeLeague(players=[fake_player("main", 4)], num_teams=4)
    assert seat_pair(league, "main@1", "main@2") == ("main@1", "main@2", "main@4", "main@3")
    league = attrs.evolve(league, anchors=("random", "bot"))
    assert seat_pair(league, "main@1", "random") == ("main@1", "random", "main@4", "bot")


def test_a_pair_without_others_fills_all_teams_alternately():
    """With one model and one anchor the two take turns, after the others that exist."""
    league = FakeLeague(players=[fake_player("main", 1)], anchors=("random",), num_teams=4)
    assert seat_pair(league, "main@1", "random") == ("main@1", "random", "main@1", "random")
    league = attrs.evolve(league, anchors=("random", "bot"))
    assert seat_pair(league, "random", "bot") == ("random", "bot", "main@1", "bot")
    assert seat_pair(attrs.evolve(league, num_teams=5), "random", "bot") == ("random", "bot", "main@1", "bot", "random")


def test_a_pair_is_completed_by_those_made_for_the_other_teams():
    """A third side is filled by its newest model; without one there is no match."""
    dog = fake_player("dog", 1, role="dog", team=2)
    assert seat_pair(attrs.evolve(SIDES, players=[CAT, MOUSE, dog], num_teams=3), "mouse@1", "cat@1") == (
        "cat@1",
        "mouse@1",
        "dog@1",
    )
    nobody = FakeLeague(players=[CAT, MOUSE], num_teams=3)
    assert seat_pair(nobody, "cat@1", "mouse@1") is None


def test_live_weights_complete_no_pair():
    """The evaluator has none: a side without a model waits for one, or is filled by an anchor."""
    dog = fake_player("dog", 0, role="dog", team=2)
    sides = FakeLeague(players=[CAT, MOUSE, dog], num_teams=3)
    assert seat_pair(sides, "cat@1", "mouse@1") is None
    assert least_certain_pair(sides, rng()) is None
    helped = attrs.evolve(sides, anchors=("dog-bot",), anchor_teams={"dog-bot": 2})
    assert seat_pair(helped, "cat@1", "mouse@1") == ("cat@1", "mouse@1", "dog-bot")


def test_two_of_one_side_cannot_meet():
    """There is one seat for their team."""
    assert seat_pair(SIDES, "cat@1", "cat@2") is None
