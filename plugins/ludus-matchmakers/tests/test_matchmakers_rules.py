"""What the rules change, and when."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from ludus.errors import ConfigError
from ludus.rule import Freeze, Reset, Share
from ludus.testing import (
    EloWorld,
    FakeLeague,
    SyntheticLeague,
    SyntheticPlayer,
    check_rule,
    fake_leagues,
    fake_player,
)
from ludus_matchmakers.ada import ADA
from ludus_matchmakers.alphastar import AlphaStar
from ludus_matchmakers.generations import Generations
from ludus_matchmakers.history import PFSP
from ludus_matchmakers.rule_config import ADAConfig, AlphaStarConfig
from ludus_matchmakers.self_play import LatestFrozen, LatestSelfPlay
from ludus_matchmakers.timing import FreezeWhen, RestartFrom

SIDES = fake_leagues()["two sides"]
AETS = ADA(players=["cat", "mouse"], hard=["mouse"], enough_matches=1)


def rng(seed=0):
    """Return a generator."""
    return np.random.default_rng(seed)


def decide(rule, league, seed=0):
    """Return what changes."""
    return list(rule.decide(league, rng(seed)))


def players(*views, **changed):
    """Return views by name, some of their fields changed: ``main={"share": 0.0}``."""
    return {view.name: attrs.evolve(view, **changed.get(view.name, {})) for view in views}


@pytest.mark.parametrize(
    "rule",
    [
        ADA(enough_matches=1),
        Generations(enough_matches=1, converged=0.5),
        FreezeWhen(decisions=1, seconds=1.0),
        RestartFrom(decisions=1),
        AlphaStar(least_decisions=0, enough_matches=1),
        AlphaStar(least_decisions=0, most_decisions=1, reset=0.5),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_rule_passes_the_kit(rule):
    """Pure, and every change can be made, on every kind of league."""
    check_rule(rule)


# -- ADA -------------------------------------------------------------------------------------------------------------


def sides(wins, losses, *, cat=0.5, mouse=0.5):
    """Return a league in which live mice have won and lost so often against live cats."""
    views = players(*SIDES.players.values(), cat={"share": cat}, mouse={"share": mouse})
    return attrs.evolve(SIDES, players=views, results={("mouse@2+", "cat@4+"): (wins, 0, losses)})


@pytest.mark.parametrize(
    ("old", "wins", "ratio"),
    [
        (0.5, 19, 0.65),  # w_m = 20/100 with the prior, w_c = 0.8: 0.5 + 0.25 · 0.6
        (0.7, 19, 0.8),  # 0.85 is above the limit
        (0.8, 59, 0.6),  # w_m = 0.6: ahead, so the whole difference of -0.2 counts
        (0.6, 79, 0.5),  # 0 is below the limit
    ],
)
def test_ada_follows_the_equations(old, wins, ratio):
    """[AET eq. 5-6] with limits 0.5 and 0.8; the cat has the rest."""
    changes = decide(AETS, sides(wins, 98 - wins, mouse=old, cat=1 - old))
    found = {change.player: change.share for change in changes}
    assert found == {"mouse": pytest.approx(ratio), "cat": pytest.approx(1 - ratio)}


@pytest.mark.parametrize("high", [0.8, 0.0])
def test_ada_can_leave_the_hard_side_nothing(high):
    """With `low` 0: a hard side far ahead gets no share, and the cat gets all of it."""
    changes = decide(attrs.evolve(AETS, low=0.0, high=high), sides(88, 10, mouse=0.3, cat=0.7))
    assert {change.player: change.share for change in changes} == {"mouse": 0.0, "cat": 1.0}


def test_balanced_sides_keep_their_shares():
    """The rule returns no share that does not change."""
    assert decide(AETS, sides(50, 50)) == []


def test_the_sum_of_the_shares_stays():
    """In whatever unit they are, so that players besides the sides keep theirs."""
    changes = decide(AETS, sides(19, 79, mouse=2.0, cat=2.0))
    assert sum(change.share for change in changes) == pytest.approx(4.0)


def test_draws_count_half_for_ada():
    """Draws only are balanced."""
    assert decide(AETS, attrs.evolve(sides(0, 0), results={("mouse@2+", "cat@4+"): (0, 100, 0)})) == []


def test_ada_waits_for_enough_matches():
    """One match is not enough."""
    assert decide(attrs.evolve(AETS, enough_matches=51), sides(0, 50)) == []


def test_several_hard_sides_stay_below_the_limit_together():
    """Three sides with shares of 1/3: both hard ones are behind, and the third keeps a fifth."""
    views = [fake_player(name, 1, role=name, team=team) for team, name in enumerate(("a", "b", "c"))]
    results = {("a@1+", "c@1+"): (0, 0, 98), ("b@1+", "c@1+"): (0, 0, 98), ("a@1+", "b@1+"): (49, 0, 49)}
    league = FakeLeague(players=views, results=results, num_teams=3)
    found = {change.player: change.share for change in decide(ADA(hard=["a", "b"], low=0.1, enough_matches=1), league)}
    assert found["a"] == pytest.approx(found["b"])
    # each has w = 50/198 and the mean of the others (50/198 + 196/198... the third) as v
    mine, third = (1 + 49) / 198, (1 + 196) / 198
    step = 1 / 3 + 0.25 * ((mine + third) / 2 - mine)
    assert found["a"] / sum(found.values()) == pytest.approx(min(step, 0.4))


def test_hard_sides_are_some_of_the_sides():
    """If all sides are hard, no side is left for the rest of the shares."""
    with pytest.raises(ConfigError, match="expected hard to be some of the players"):
        decide(ADA(hard=["cat", "mouse"]), SIDES)
    with pytest.raises(ConfigError, match="no player 'dog'"):
        decide(ADA(players=["dog"]), SIDES)


def test_the_limits_of_ada_are_in_order():
    """Low is not above high."""
    with pytest.raises(ValueError, match=r"low: expected at most high = 0\.8, got 0\.9"):
        ADAConfig(low=0.9)


def test_ada_balances_a_league():
    """A side that starts 1.5 behind gets most of the matches until both win about half."""
    cat = SyntheticPlayer(matchmaker=LatestSelfPlay(), team=0, start=np.array([1.5]))
    mouse = SyntheticPlayer(matchmaker=LatestSelfPlay(), team=1)
    league = SyntheticLeague(world=EloWorld(), players={"cat": cat, "mouse": mouse}, rules=[AETS])
    league.run(40)
    assert league.players["mouse"].share == pytest.approx(2 * 0.8)
    league.run(1000)
    rate = league.win_rates(league.players["mouse"].live, [league.players["cat"].live])[0]
    assert rate == pytest.approx(0.5, abs=0.05)


# -- generations -----------------------------------------------------------------------------------------------------

RULE = Generations(enough_matches=10)


def generations(*, main=1, results=None, anchors=(), **changed):
    """Return a league of a main agent and an exploiter without a model."""
    views = players(fake_player("main", main), fake_player("exploiter", 0), **changed)
    return FakeLeague(players=views, results=results or {}, anchors=anchors)


def test_generation_0_beats_the_anchors():
    """Each anchor, with 85 % in enough matches; the exploiter has no opponent until then."""
    wait = Share(player="exploiter", share=0.0)
    league = generations(main=0, anchors=("weak", "strong"), results={("main@0+", "weak"): (10, 0, 0)})
    assert decide(RULE, league) == [wait]
    beaten = {("main@0+", "weak"): (10, 0, 0), ("main@0+", "strong"): (16, 2, 2)}
    assert decide(RULE, attrs.evolve(league, results=beaten)) == [
        Freeze(player="main", reason="converged: beats 2 with 0.85 or more"),
        wait,
    ]
    assert decide(attrs.evolve(RULE, enough_matches=21), attrs.evolve(league, results=beaten)) == [wait]


def test_without_opponents_generation_0_is_frozen_at_once():
    """Otherwise generation 1 would never begin."""
    (freeze, _) = decide(RULE, generations(main=0))
    assert freeze == Freeze(player="main", reason="generation 0: there is no opponent to beat")


def test_an_unknown_anchor_of_generation_0_raises():
    """Otherwise the rule would wait without end."""
    with pytest.raises(ConfigError, match="no anchor 'minmax3'; anchors are minimax3"):
        decide(attrs.evolve(RULE, anchors=["minmax3"]), generations(main=0, anchors=("minimax3",)))


def test_an_exploiter_begins_when_there_is_a_main_agent():
    """It gets its configured share."""
    league = generations(exploiter={"share": 0.0})
    assert decide(attrs.evolve(RULE, share=2.0), league) == [Share(player="exploiter", share=2.0)]


@pytest.mark.parametrize(("after", "models", "starts"), [(0, 0, True), (1, 0, False), (1, 1, True), (2, 1, False)])
def test_exploiters_start_after_converged_models(after, models, starts):
    """One by default: an exploiter never trains against a main agent that has not converged."""
    rule, league = attrs.evolve(RULE, exploiters_after=after), generations(main=models, anchors=("weak",))
    assert decide(rule, league) == ([] if starts else [Share(player="exploiter", share=0.0)])
    waiting = generations(main=models, anchors=("weak",), exploiter={"share": 0.0})
    assert decide(rule, waiting) == ([Share(player="exploiter", share=1.0)] if starts else [])


def test_models_that_no_rule_requested_have_not_converged():
    """The last model of an interrupted session starts no exploiter, and ends no generation."""
    interrupted = {"freeze_reasons": {"main@1": ""}}
    league = attrs.evolve(generations(anchors=("weak",)), **interrupted)
    assert decide(RULE, league) == [Share(player="exploiter", share=0.0)]
    beaten = {("main@1+", "main@1"): (10, 0, 0), ("main@1+", "weak"): (10, 0, 0)}
    assert decide(RULE, attrs.evolve(league, results=beaten))[0] == Freeze(
        player="main", reason="converged: beats 2 with 1.00 or more"
    )
    assert latest_opponent(league, requested=True) == "main@1+"
    assert latest_opponent(league, requested=False) == "main@1"
    later = attrs.evolve(generations(main=3), freeze_reasons={"main@3": ""})
    assert latest_opponent(later, requested=True) == "main@2"


def latest_opponent(league, **options):
    """Return the opponent of the exploiter."""
    return (
        LatestFrozen(against=("main",), **options)
        .next_fixture(league, "exploiter", np.random.default_rng(0))
        .opponents[0]
    )


def test_a_converged_exploiter_is_reset():
    """At 85 % against the newest model; not at less, and not by what it wins against live weights."""
    results = {("exploiter@0+", "main@1"): (17, 0, 3)}
    reset = Reset(player="exploiter", reason="converged: beats main@1 with 0.85")
    assert decide(RULE, generations(results=results)) == [reset]
    assert decide(RULE, generations(results={("exploiter@0+", "main@1"): (16, 0, 4)})) == []
    assert decide(RULE, generations(results={("exploiter@0+", "main@1+"): (20, 0, 0)})) == []


def born(models):
    """Return an exploiter whose second generation begins after so many models."""
    return {"generation_starts": (0, models)}


def test_it_waits_until_the_main_agent_has_converged_again():
    """There must be another main agent to exploit."""
    frozen = {"main@1": 10.0, "exploiter@1": 20.0}
    views = players(fake_player("main", 1), fake_player("exploiter", 1), exploiter=born(1))
    league = FakeLeague(players=views, frozen=frozen)
    assert decide(RULE, league) == [Share(player="exploiter", share=0.0)]
    waiting = players(*views.values(), exploiter={"share": 0.0})
    assert decide(RULE, attrs.evolve(league, players=waiting)) == []
    again = players(fake_player("main", 2), waiting["exploiter"])
    later = attrs.evolve(league, players=again, frozen={**frozen, "main@2": 30.0})
    assert decide(RULE, later) == [Share(player="exploiter", share=1.0)]


def test_players_that_converge_together_do_not_wait_for_each_other():
    """The main agent has a model that the exploiter never met, so the exploiter goes on."""
    views = players(fake_player("main", 2), fake_player("exploiter", 1), exploiter={**born(1), "share": 0.0})
    beaten = {
        ("main@2+", "main@1"): (10, 0, 0),
        ("main@2+", "main@2"): (10, 0, 0),
        ("main@2+", "exploiter@1"): (9, 0, 1),
    }
    league = FakeLeague(players=views, frozen={"main@1": 10.0, "main@2": 20.0, "exploiter@1": 20.0}, results=beaten)
    assert decide(RULE, league) == [Share(player="exploiter", share=1.0)]
    going_on = players(*views.values(), exploiter={"share": 1.0})
    assert decide(RULE, attrs.evolve(league, players=going_on)) == []


def test_the_main_agent_must_beat_all_models_again():
    """All models of the league, its own included, once one is newer than its last; then it is frozen, not reset."""
    frozen = {"main@1": 10.0, "exploiter@1": 20.0}
    views = players(fake_player("main", 1), fake_player("exploiter", 1), exploiter={**born(1), "share": 0.0})
    beaten = {("main@1+", "main@1"): (9, 0, 1), ("main@1+", "exploiter@1"): (18, 0, 2)}
    league = FakeLeague(players=views, frozen=frozen, results=beaten)
    assert decide(RULE, league) == [Freeze(player="main", reason="converged: beats 2 with 0.90 or more")]
    old = attrs.evolve(league, frozen={"main@1": 20.0, "exploiter@1": 10.0})
    assert not any(isinstance(change, Freeze) for change in decide(RULE, old))
    half = attrs.evolve(league, results={**beaten, ("main@1+", "main@1"): (8, 0, 2)})
    assert decide(RULE, half) == []


def test_generations_follow_each_other():
    """In a world of strength: models of both in turn, and exploiters are reset each time."""
    main = SyntheticPlayer(matchmaker=PFSP(["*"], uniform=0.1), freeze_every=0, rate=3.0)
    exploiter = SyntheticPlayer(matchmaker=LatestFrozen(), freeze_every=0, rate=6.0)
    league = SyntheticLeague(
        world=EloWorld(), players={"main": main, "exploiter": exploiter}, rules=[Generations(enough_matches=50)]
    )
    league.run(700)
    assert league.players["exploiter"].generation >= 2
    assert league.players["main"].generation == 0
    frozen = sorted((league.frozen_s(m), m.split("@")[0]) for p in league.players.values() for m in p.models)
    assert [name for _, name in frozen[:4]] == ["main", "exploiter", "main", "exploiter"]


# -- freezing and restarting -----------------------------------------------------------------------------------------


def learned(decisions, *, models=2, seconds=0.0, **more):
    """Return a league in which main has learned from so many decisions since its last model."""
    view = fake_player("main", models)
    view = attrs.evolve(view, decisions=view.frozen_decisions + decisions)
    return FakeLeague(players=[view], elapsed_s=seconds, frozen={"main@2": 100.0}, **more)


def test_models_are_frozen_by_decisions_or_seconds():
    """Since the last one; never without anything learned."""
    rule = FreezeWhen(decisions=50, seconds=60.0, win_rate=0.0)
    assert decide(rule, learned(49, seconds=159.0)) == []
    assert decide(rule, learned(50, seconds=159.0))[0].reason == "50 decisions since the last model"
    assert decide(rule, learned(1, seconds=160.0))[0].reason == "60 s since the last model"
    assert decide(rule, learned(0, seconds=999.0)) == []


def test_models_are_frozen_once_the_pool_is_beaten():
    """Every model of it, in enough matches."""
    results = {("main@2+", "main@1"): (70, 0, 30), ("main@2+", "main@2"): (40, 60, 0)}
    assert decide(FreezeWhen(), learned(1, results=results)) == [
        Freeze(player="main", reason="beats all opponents with 0.70 or more")
    ]
    assert decide(FreezeWhen(win_rate=0.71), learned(1, results=results)) == []
    assert decide(FreezeWhen(enough_matches=101), learned(1, results=results)) == []


def test_explorers_restart_from_the_main_agent():
    """From its newest model, as soon as they have learned enough since their last reset."""
    views = players(
        fake_player("main", 3), fake_player("explorer", 2), explorer={"decisions": 90, "generation_start_decisions": 40}
    )
    league = FakeLeague(players=views)
    assert decide(RestartFrom(decisions=50), league) == [
        Reset(player="explorer", reason="restarts from main@3", init="main@3")
    ]
    assert decide(RestartFrom(decisions=51), league) == []
    assert decide(RestartFrom(decisions=50, source="explorer", players=["explorer"]), league) == []


def test_explorers_restart_by_time():
    """Counted from the model before the present generation, or from the beginning."""
    views = players(fake_player("main", 1), fake_player("explorer", 2), explorer=born(2))
    league = FakeLeague(players=views, frozen={"explorer@2": 50.0}, elapsed_s=149.0)
    rule = RestartFrom(decisions=0, seconds=100.0)
    assert decide(rule, league) == []
    assert len(decide(rule, attrs.evolve(league, elapsed_s=150.0))) == 1
    first = attrs.evolve(league, players=players(*views.values(), explorer={"generation_starts": (0,)}))
    assert len(decide(rule, first)) == 1


# -- AlphaStar -------------------------------------------------------------------------------------------------------


def alphastar(since=0, results=None):
    """Return a league of three kinds of players that have learned from so many decisions since their last models."""
    views = [fake_player(name, 1) for name in ("main", "exploiter", "hunter")]
    views = [attrs.evolve(view, decisions=view.frozen_decisions + since) for view in views]
    return FakeLeague(players=views, results=results or {})


LEAGUE_RULE = AlphaStar(
    main_exploiters=["exploiter"],
    league_exploiters=["hunter"],
    least_decisions=10,
    most_decisions=20,
    enough_matches=10,
)


def test_after_most_decisions_every_player_is_due():
    """Main exploiters are reset, league exploiters in one of four cases, main agents never."""
    kinds = [tuple(type(change) for change in decide(LEAGUE_RULE, alphastar(20), seed)) for seed in range(400)]
    assert {kind[0] for kind in kinds} == {Freeze}
    assert all(len(kind) == 3 for kind in kinds)
    names = {change.player: type(change) for change in decide(LEAGUE_RULE, alphastar(20))}
    assert (names["main"], names["exploiter"]) == (Freeze, Reset)
    resets = np.mean([kind.count(Reset) - 1 for kind in kinds])
    assert resets == pytest.approx(0.25, abs=0.06)


def test_without_most_decisions_no_player_is_frozen_by_them():
    """0 means no limit, as in the other rules; otherwise every decision would freeze all players."""
    rule = attrs.evolve(LEAGUE_RULE, least_decisions=0, most_decisions=0)
    assert decide(rule, alphastar(0)) == decide(rule, alphastar(10**9)) == []


def test_the_limits_of_alphastar_are_in_order():
    """Least is not above most, unless that is 0."""
    with pytest.raises(ValueError, match="least_decisions: expected at most most_decisions = 10, got 1000"):
        AlphaStarConfig(least_decisions=1000, most_decisions=10)
    assert AlphaStarConfig(least_decisions=1000, most_decisions=0).least_decisions == 1000


def test_a_main_exploiter_must_beat_the_live_main_agent():
    """70 %, and only after the least decisions."""
    results = {("exploiter@1+", "main@1+"): (7, 0, 3)}
    assert decide(LEAGUE_RULE, alphastar(10, results)) == [
        Reset(player="exploiter", reason="beats all opponents with 0.70 or more")
    ]
    assert decide(LEAGUE_RULE, alphastar(9, results)) == []
    assert decide(LEAGUE_RULE, alphastar(10, {("exploiter@1+", "main@1"): (10, 0, 0)})) == []


def test_other_players_must_beat_every_model_of_the_league():
    """A single unbeaten model keeps them training."""
    models = ("main@1", "exploiter@1", "hunter@1")
    results = {(f"{name}@1+", model): (8, 0, 2) for name in ("main", "hunter") for model in models}
    assert [change.player for change in decide(LEAGUE_RULE, alphastar(10, results))] == ["main", "hunter"]
    results["main@1+", "exploiter@1"] = (6, 0, 4)
    assert [change.player for change in decide(LEAGUE_RULE, alphastar(10, results))] == ["hunter"]
