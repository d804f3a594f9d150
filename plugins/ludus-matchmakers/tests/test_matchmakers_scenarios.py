"""Scenarios on top of another matchmaker."""

from __future__ import annotations

from collections import Counter

import attrs
import numpy as np
import pytest
from ludus.environment import Scenario
from ludus.errors import ConfigError
from ludus.testing import check_matchmaker, fake_leagues, fake_player
from ludus_matchmakers.balance import newest_win_rate, opposing_players
from ludus_matchmakers.config import Modifier, ScenariosConfig
from ludus_matchmakers.history import UniformHistory
from ludus_matchmakers.scenarios import Scenarios
from ludus_matchmakers.self_play import LatestSelfPlay

SIDES = fake_leagues()["two sides"]


def played(*modifiers, league=SIDES, questions=2000, **given):
    """Return the scenarios of many fixtures of the cat."""
    made, rng = Scenarios(inner=LatestSelfPlay(), play=modifiers, **given), np.random.default_rng(0)
    return [made.next_fixture(league, "cat", rng) for _ in range(questions)]


def share(pairings, name):
    """Return how often a scenario is played."""
    return np.mean([pairing.scenario.name == name for pairing in pairings])


def balance(wins, losses, more=None):
    """Return a league in which live cats have won and lost so often."""
    return attrs.evolve(SIDES, results={("cat@4+", "mouse@2+"): (wins, 0, losses), **(more or {})})


def test_it_passes_the_kit():
    """Pure, on every kind of league."""
    corner = Modifier(scenario="corner", probability=0.5, parameters={"side": (0, 1), "speed": (0.5, 2.0)})
    check_matchmaker(Scenarios(inner=LatestSelfPlay(), play=[corner]))


def test_opponents_ratings_and_pools_are_those_of_the_matchmaker_inside():
    """Only the scenario is added."""
    made = Scenarios(inner=UniformHistory(), play=[Modifier(scenario="corner", probability=1.0)])
    pairing = made.next_fixture(SIDES, "cat", np.random.default_rng(0))
    assert pairing.opponents[0] in ("mouse@1", "mouse@2")
    assert pairing.scenario == Scenario(name="corner")
    assert pairing.reason.endswith("; scenario corner")
    assert made.next_evaluation(SIDES, np.random.default_rng(0)) == UniformHistory().next_evaluation(
        SIDES, np.random.default_rng(0)
    )
    assert made.on_model_frozen(SIDES, "cat", "cat@5") == UniformHistory().on_model_frozen(SIDES, "cat", "cat@5")


def test_a_modifier_for_an_unknown_player_raises():
    """Otherwise it would never apply, without a warning."""
    help_dog = Modifier(scenario="corner", probability=0.001, weaker="dog")
    with pytest.raises(ConfigError, match="there is no player 'dog'; players are cat, mouse"):
        played(help_dog, questions=1)


def test_specific_scenarios_are_played_with_their_probability():
    """[DIS §3.2.4]: two of 20 % each; where both are drawn, one of them at random."""
    pairings = played(
        Modifier(scenario="corner", probability=0.2), Modifier(scenario="kick-off", probability=0.2), questions=6000
    )
    assert share(pairings, "corner") == pytest.approx(0.2 * 0.8 + 0.04 / 2, abs=0.015)
    assert share(pairings, "kick-off") == pytest.approx(0.18, abs=0.015)
    assert share(pairings, "default") == pytest.approx(0.64, abs=0.02)


def test_parameters_are_drawn_from_their_ranges():
    """Whole numbers with both ends where both are whole, any number otherwise, single ones as they are."""
    parameters = {"level": (2, 4), "speed": (0.5, 1.5), "mice": 3}
    found = [one.scenario.parameters for one in played(Modifier(scenario="s", probability=1.0, parameters=parameters))]
    assert set(Counter(one["level"] for one in found)) == {2, 3, 4}
    speeds = [one["speed"] for one in found]
    assert 0.5 <= min(speeds) < 0.55
    assert 1.45 < max(speeds) <= 1.5
    assert {one["mice"] for one in found} == {3}


def test_draws_of_one_scenario_are_merged():
    """So several modifiers can act at once; later ones win."""
    pairings = played(
        Modifier(scenario="custom", probability=1.0, parameters={"a": 1, "b": 1}),
        Modifier(scenario="custom", probability=0.5, parameters={"b": 2}),
    )
    both = Counter(tuple(sorted(one.scenario.parameters.items())) for one in pairings)
    assert both[("a", 1), ("b", 2)] / 2000 == pytest.approx(0.5, abs=0.04)
    assert both[("a", 1), ("b", 1)] + both[("a", 1), ("b", 2)] == 2000


def test_modifiers_combine_in_one_match():
    """[AET §3.3]: 45, 35 and 15 % independently; a match has the parameters of all that are drawn."""
    aet = (
        Modifier(scenario="level", probability=0.45, parameters={"level": (2, 8)}),
        Modifier(scenario="case", probability=0.35, cases=({"health": 0.5}, {"eliminated": 1})),
        Modifier(scenario="boost", probability=0.15, parameters={"boost": 2.0, "boost_s": 30.0}),
    )
    pairings = played(*aet, questions=8000, combine="custom")
    found = [frozenset(one.scenario.parameters) for one in pairings]
    assert {one.scenario.name for one in pairings} == {"default", "custom"}
    for name, probability in (("level", 0.45), ("boost", 0.15), ("health", 0.175), ("eliminated", 0.175)):
        assert np.mean([name in names for names in found]) == pytest.approx(probability, abs=0.02), name
    all_three = {"level", "boost", "boost_s"}
    assert np.mean([names > all_three for names in found]) == pytest.approx(0.45 * 0.35 * 0.15, abs=0.01)
    assert share(pairings, "default") == pytest.approx(0.55 * 0.65 * 0.85, abs=0.02)
    reasons = {one.reason for one in pairings if one.scenario.parameters.keys() > all_three}
    assert reasons == {"latest-self-play; scenario level + case + boost"}


def test_combined_modifiers_need_parameters():
    """A scenario's own defaults are not known here."""
    with pytest.raises(ValueError, match="combine: expected parameters for every scenario, 'corner' has none"):
        ScenariosConfig(combine="custom", play=(Modifier(scenario="corner", probability=0.5),))


HELP = Modifier(scenario="help", probability=1.0, parameters={"level": 2}, weaker="mouse")


def test_modifiers_end_when_recent_matches_are_balanced():
    """Although the sides were unbalanced over the period; and a recent loss alone does not start them."""
    lost = {("cat@4", "mouse@2"): (900, 0, 100)}
    assert share(played(HELP, league=balance(180, 20, lost), questions=20), "help") == 1
    assert share(played(HELP, league=balance(110, 90, lost), questions=20), "help") == 0
    even = {("cat@4", "mouse@2"): (500, 0, 500)}
    assert share(played(HELP, league=balance(180, 20, even), questions=20), "help") == 0


def test_modifiers_begin_after_a_period():
    """Sides must have been unbalanced for so many seconds: models that are older do not count."""
    frozen = {"cat@4": 40.0, "mouse@2": 30.0}
    even_before = {("cat@4", "mouse@2"): (500, 0, 500)}
    league = attrs.evolve(balance(180, 20, even_before), elapsed_s=100.0, frozen=frozen)
    for period_s, helped in ((0.0, 0), (50.0, 1), (65.0, 1), (80.0, 0)):
        assert share(played(HELP, league=league, questions=20, period_s=period_s), "help") == helped, period_s
    early = attrs.evolve(balance(180, 20), elapsed_s=49.0, frozen=frozen)
    assert share(played(HELP, league=early, questions=20, period_s=50.0), "help") == 0


def test_environment_randomisation_helps_the_weaker_side_only():
    """[AET §3.3]: 45 % of the episodes while mice lose; never while cats lose or both are balanced."""
    help_mice = Modifier(scenario="mouse-level", probability=0.45, parameters={"mouse_level": (2, 8)}, weaker="mouse")
    assert share(played(help_mice, league=balance(180, 20)), "mouse-level") == pytest.approx(0.45, abs=0.03)
    assert share(played(help_mice, league=balance(20, 180)), "mouse-level") == 0
    assert share(played(help_mice, league=balance(110, 90)), "mouse-level") == 0
    reason = next(one.reason for one in played(help_mice, league=balance(180, 20)) if one.scenario.name != "default")
    assert reason == "latest-self-play; scenario mouse-level while mouse loses"


def test_balance_needs_enough_matches():
    """Before that, no side counts as weaker."""
    help_mice = Modifier(scenario="mouse-level", probability=1.0, weaker="mouse")
    assert share(played(help_mice, league=balance(9, 0), questions=20), "mouse-level") == 0
    assert share(played(help_mice, league=balance(9, 0), questions=20, enough_matches=9), "mouse-level") == 1


def test_balance_is_that_of_the_newest_models():
    """What happened before the last `models` of each side does not count."""
    old = {("cat@1", "mouse@2+"): (0, 0, 1000), ("cat@4", "mouse@2"): (60, 0, 40)}
    assert newest_win_rate(balance(100, 100, old), "cat", ["mouse"], models=1)[1] == 300
    assert newest_win_rate(balance(100, 100, old), "cat", ["mouse"], models=4)[1] == 1300
    rate, matches = newest_win_rate(balance(100, 100), "cat", ["mouse"], models=0)
    assert (rate, matches) == (0.5, 200)


def test_every_match_counts_once_in_the_balance():
    """Also those of models and live weights whose results live weights inherit, seen from either side."""
    results = {
        ("cat@4", "mouse@2"): (1, 2, 4),
        ("cat@4+", "mouse@2"): (8, 16, 32),
        ("mouse@2+", "cat@4"): (64, 128, 256),
        ("cat@3+", "mouse@2"): (0, 0, 512),
    }
    league = balance(1000, 2000, results)
    won, drawn, lost = 1 + 8 + 256 + 1000, 2 + 16 + 128, 4 + 32 + 64 + 2000
    matches = won + drawn + lost
    assert newest_win_rate(league, "cat", ["mouse"], models=1) == ((won + drawn / 2 + 1) / (matches + 2), matches)
    assert newest_win_rate(league, "mouse", ["cat"], models=1) == ((lost + drawn / 2 + 1) / (matches + 2), matches)


def test_opposing_players_can_be_met():
    """The other sides of an asymmetric game, all other players of a symmetric one."""
    assert opposing_players(SIDES, "cat") == ("mouse",)
    league = attrs.evolve(SIDES, players=[fake_player("a"), fake_player("b"), fake_player("c")])
    assert opposing_players(league, "b") == ("a", "c")


@pytest.mark.parametrize("parameters", [{"level": (2.0, 1.0)}, {"level": (1.0, 2.0, 3.0)}, {"level": float("inf")}])
def test_a_range_has_two_ends(parameters):
    """The lower one first."""
    with pytest.raises(ValueError, match="a table of numbers and of ranges"):
        Modifier(scenario="s", probability=1.0, parameters=parameters)


def test_the_default_plays_nothing():
    """There is no scenario that every game has."""
    assert ScenariosConfig().play == ()
