"""Rating matches: the least certain pair, tournaments, and mixtures."""

from __future__ import annotations

from collections import Counter

import attrs
import numpy as np
import pytest
from ludus.errors import ConfigError
from ludus.matchmaker import Rating, Statistic
from ludus.testing import FakeLeague, check_matchmaker, check_rule, fake_leagues, fake_player
from ludus_matchmakers.rating import RatingMixture, Uncertain
from ludus_matchmakers.screening import Screening, Superior, Tournament, ranked

MAIN = fake_player("main", 6)
TOURNAMENT = Screening(candidates=3, top=1, enough_matches=10)


def rng(seed=0):
    """Return a generator."""
    return np.random.default_rng(seed)


def asked(matchmaker, league, *, questions=50):
    """Return the pairs that are asked for, without the order of the seats."""
    pairs = [matchmaker.next_evaluation(league, rng(seed)) for seed in range(questions)]
    return {None if pair is None else frozenset(pair) for pair in pairs}


@pytest.mark.parametrize(
    "matchmaker",
    [
        Uncertain(),
        Uncertain(pools=("*",), deviation=0.01),
        Tournament(screening=TOURNAMENT),
        RatingMixture(parts={"uncertain": Uncertain(), "t": Tournament()}, weights={"uncertain": 1, "t": 1}),
    ],
    ids=lambda matchmaker: type(matchmaker).__name__,
)
def test_matchmaker_passes_the_kit(matchmaker):
    """Pure, existing participants, one per team, on every kind of league."""
    check_matchmaker(matchmaker)


# -- the least certain pair ------------------------------------------------------------------------------------------


def test_the_least_certain_pair_comes_first():
    """Even pairs deviate most for equally many matches: √(x (1 - x) / (n + 1)) is larger at ½ than at 0.9."""
    results = {("main@6", "a"): (20, 0, 20), ("main@6", "b"): (38, 0, 2), ("a", "b"): (20, 0, 20)}
    league = FakeLeague(players=[MAIN], anchors=("a", "b"), results=results)
    assert asked(Uncertain(recent_models=0), league) == {frozenset({"main@6", "a"}), frozenset({"a", "b"})}
    more = {**results, ("main@6", "a"): (50, 0, 50), ("a", "b"): (50, 0, 49)}
    assert asked(
        Uncertain(recent_models=0, enough_matches=1000, deviation=0.01), attrs.evolve(league, results=more)
    ) == {frozenset({"a", "b"})}


def test_certain_pairs_are_not_chosen():
    """Enough matches, or a small deviation, end the rating matches of a pair."""
    results = {("main@6", "a"): (30, 0, 10)}
    league = FakeLeague(players=[MAIN], anchors=("a",), results=results)
    assert asked(Uncertain(recent_models=0, enough_matches=40), league) == {None}
    assert asked(Uncertain(recent_models=0, enough_matches=41, deviation=0.066), league) != {None}
    assert asked(Uncertain(recent_models=0, enough_matches=41, deviation=0.0671), league) == {None}


def test_the_newest_models_meet_recent_ones_of_all_players():
    """Their own, and the newest of others."""
    league = FakeLeague(players=[MAIN, fake_player("other", 3)])
    assert asked(Uncertain(recent_models=1), league) == {
        frozenset({"main@6", "main@5"}),
        frozenset({"main@6", "other@3"}),
        frozenset({"other@3", "other@2"}),
    }


def test_the_newest_models_meet_whole_pools():
    """A model added to a pool plays all models of it."""
    league = FakeLeague(players=[MAIN])
    assert asked(Uncertain(pools=("own",)), league) == {frozenset({"main@6", f"main@{n}"}) for n in range(1, 6)}


@pytest.mark.parametrize("pool", ["*", "own"])
def test_sides_meet_each_other(pool):
    """In an asymmetric game each new model meets the pool of the other side [AET §3.3]."""
    league = attrs.evolve(fake_leagues()["two sides"], anchors=())
    pairs = {Uncertain(pools=(pool,)).next_evaluation(league, rng(seed)) for seed in range(60)}
    assert pairs == {("cat@4", "mouse@1"), ("cat@4", "mouse@2"), *((f"cat@{n}", "mouse@2") for n in (1, 2, 3))}


# -- several askers --------------------------------------------------------------------------------------------------


class Asks:
    """A matchmaker that always asks for one pair."""

    def __init__(self, pair):
        self.pair = pair

    def next_evaluation(self, league, rng):
        """Return it."""
        return self.pair


def test_rating_matches_are_divided_by_weights():
    """Three of four go to the first."""
    parts = {"a": Asks(("x", "y")), "b": Asks(("y", "z"))}
    source = rng()
    mixed = RatingMixture(parts=parts, weights={"a": 3, "b": 1})
    found = Counter(mixed.next_evaluation(FakeLeague(players=[MAIN]), source) for _ in range(2000))
    assert found["x", "y"] / 2000 == pytest.approx(0.75, abs=0.03)


def test_a_part_without_a_pair_leaves_its_share_to_the_others():
    """A part of weight 0 is never chosen."""
    league, parts = FakeLeague(players=[MAIN]), {"a": Asks(None), "b": Asks(("y", "z")), "c": Asks(("x", "x"))}
    assert RatingMixture(parts=parts, weights={"a": 99, "b": 1, "c": 0}).next_evaluation(league, rng()) == ("y", "z")
    assert RatingMixture(parts=parts, weights={"a": 1, "b": 0}).next_evaluation(league, rng()) is None


# -- tournaments -----------------------------------------------------------------------------------------------------


def matches(*groups, count=10):
    """Return results of so many matches between every two of each group."""
    return {(a, b): (count, 0, 0) for group in groups for i, a in enumerate(group) for b in group[:i]}


def league(models=6, *, results=None, pools=None, ratings=None):
    """Return a league of one player with ratings."""
    rated = {name: Rating(float(mean), 1.0, 9) for name, mean in (ratings or {}).items()}
    return FakeLeague(players=[fake_player("main", models)], results=results or {}, pools=pools or {}, ratings=rated)


FIRST, SECOND = ("main@1", "main@2", "main@3"), ("main@4", "main@5", "main@6")


def test_candidates_play_each_other_group_by_group():
    """A group begins when it is complete, and ends when one of it is superior."""
    made = Tournament(screening=TOURNAMENT)
    pairs = {frozenset(pair) for pair in matches(FIRST)}
    assert asked(made, league(2)) == {None}
    assert asked(made, league(6)) == pairs
    assert asked(made, league(6, pools={"main/superior": ("main@2",)})) == {frozenset(p) for p in matches(SECOND)}
    assert asked(made, league(5, pools={"main/superior": ("main@2",)})) == {None}


def test_the_pair_with_the_fewest_matches_comes_first():
    """Until all have enough."""
    results = {("main@1", "main@2"): (9, 0, 0), ("main@1", "main@3"): (10, 0, 0), ("main@2", "main@3"): (9, 0, 0)}
    made = Tournament(screening=TOURNAMENT)
    assert asked(made, league(results=results)) == {frozenset(FIRST[:2]), frozenset(FIRST[1:])}
    assert asked(made, league(results=matches(FIRST))) == {None}


def test_the_top_pool_is_a_group_while_it_is_too_large():
    """New superior models meet the earlier ones."""
    pools = {"top": ("main@1", "main@4"), "main/superior": ("main@1", "main@4")}
    made = Tournament(screening=TOURNAMENT)
    assert asked(made, league(pools=pools)) == {frozenset({"main@1", "main@4"})}
    assert asked(made, league(pools={**pools, "top": ("main@4",)})) == {None}


def test_candidates_of_one_side_meet_candidates_of_the_other():
    """They cannot meet each other."""
    sides = attrs.evolve(fake_leagues()["two sides"], anchors=())
    made = Tournament(screening=Screening(candidates=2, enough_matches=1))
    pairs = {made.next_evaluation(sides, rng(seed)) for seed in range(60)}
    assert pairs == {(f"cat@{cat}", f"mouse@{mouse}") for cat in (1, 2) for mouse in (1, 2)}


def test_of_equal_models_the_newer_one_ranks_higher():
    """Otherwise the rating decides."""
    made = league(ratings={"main@1": 10, "main@2": 10, "main@3": 20})
    assert ranked(made, FIRST) == ["main@3", "main@2", "main@1"]


@pytest.mark.parametrize(("by", "best"), [("player/kicks", [3, 1, 2]), ("-player/kicks", [1, 3, 2]), ("", [2, 3, 1])])
def test_models_are_ranked_by_a_statistic_if_asked(by, best):
    """Most first, or fewest; models without it come last. Otherwise the rating decides."""
    kicks = {"main@1": 2.0, "main@3": 5.0}
    made = FakeLeague(
        players=[fake_player("main", 3)],
        ratings={"main@2": Rating(50.0, 1.0, 9)},
        behaviour={
            name: {"player/kicks": Statistic(mean=mean, deviation=1.0, matches=4)} for name, mean in kicks.items()
        },
    )
    assert ranked(made, FIRST, by=by) == [f"main@{number}" for number in best]


def test_superior_models_are_those_of_the_best_statistic():
    """Once all pairs have enough matches."""
    behaviour = {
        f"main@{number}": {"player/kicks": Statistic(mean=-number, deviation=1.0, matches=4)} for number in (1, 2, 3)
    }
    made = FakeLeague(players=[fake_player("main", 3)], results=matches(FIRST), behaviour=behaviour)
    rule = Superior(screening=attrs.evolve(TOURNAMENT, rank_by="player/kicks"), shared={})
    assert {change.model for change in rule.decide(made, rng())} == {"main@1"}


# -- superior models -------------------------------------------------------------------------------------------------


def decide(rule, made):
    """Return what changes, as (pool, model, enters)."""
    return [(change.pool, change.model, change.enters) for change in rule.decide(made, rng())]


SHARED = {"policies": ("main",), "methods": ()}
SUPERIOR = Superior(screening=TOURNAMENT, shared=SHARED)


def test_it_passes_the_kit_of_rules():
    """Pure, and every change can be made."""
    check_rule(Superior(screening=TOURNAMENT, shared={"methods": ()}))
    check_rule(
        Superior(screening=TOURNAMENT, shared={"methods": ()}),
        leagues={"played": league(results=matches(FIRST), pools={"top": ("main@1", "main@5"), "methods": ("main@3",)})},
    )


def test_the_best_of_a_group_enter_the_pools():
    """The player's own, those it shares, and the top pool: not those of others."""
    made = league(results=matches(FIRST), ratings={"main@2": 100})
    other = fake_player("other", 0)
    made = attrs.evolve(made, players={**made.players, "other": other})
    rule = attrs.evolve(SUPERIOR, shared={**SHARED, "foreign": ("other",)})
    assert decide(rule, made) == [(pool, "main@2", True) for pool in ("main/superior", "policies", "methods", "top")]
    assert decide(SUPERIOR, attrs.evolve(made, results=matches(FIRST, count=9))) == []


def test_a_pool_shared_by_no_player_is_an_error():
    """The first decision of the rule raises, not the first model that would enter."""
    with pytest.raises(ConfigError, match="there is no player 'other'; players are main"):
        decide(attrs.evolve(SUPERIOR, shared={"foreign": ("other",)}), league())


def test_the_best_of_the_top_pool_become_finalists():
    """Once they have played each other."""
    pools = {"top": ("main@1", "main@4"), "main/superior": ("main@1", "main@4"), "final": ("main@1",)}
    made = league(pools=pools, ratings={"main@4": 5}, results=matches(("main@1", "main@4")))
    assert decide(SUPERIOR, made) == [("top", "main@1", False), ("final", "main@1", False), ("final", "main@4", True)]
    assert decide(SUPERIOR, attrs.evolve(made, results={})) == []


def test_the_first_superior_models_are_finalists_at_once():
    """There are no models to compare them with."""
    pools = {"top": ("main@2",), "main/superior": ("main@2",)}
    assert decide(SUPERIOR, league(3, pools=pools)) == [("final", "main@2", True)]
    assert decide(SUPERIOR, league(3, pools={**pools, "final": ("main@2",)})) == []


def test_judged_models_are_not_finalists_again():
    """Neither the promoted nor the rejected."""
    pools = {"top": ("main@2",), "main/superior": ("main@2",), "rejected": ("main@2",), "final": ("main@2",)}
    rule = attrs.evolve(SUPERIOR, judged=("promoted", "rejected"))
    assert decide(rule, league(3, pools=pools)) == [("final", "main@2", False)]
    assert decide(rule, league(3, pools={**pools, "final": ()})) == []


def test_each_side_has_its_own_best():
    """Of two sides, both keep `top`."""
    sides = attrs.evolve(fake_leagues()["two sides"], pools={"top": ("cat@1", "mouse@1", "cat@2")})
    results = {(f"cat@{cat}", f"mouse@{mouse}"): (5, 0, 5) for cat in (1, 2, 3, 4) for mouse in (1, 2)}
    made = attrs.evolve(sides, results=results, ratings={"cat@1": Rating(9.0, 1.0, 9)})
    rule = Superior(screening=Screening(candidates=2, top=1, enough_matches=10, players=()), shared={})
    changes = decide(rule, made)
    assert ("top", "cat@2", False) in changes
    assert {change[1] for change in changes if change[0] == "final"} == {"cat@1", "mouse@1"}
