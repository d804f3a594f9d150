"""The opponents of each matchmaker, their frequencies, and reasons."""

from __future__ import annotations

from functools import partial

import attrs
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus.errors import ConfigError
from ludus.matchmaker import Pairing, PoolChange
from ludus.testing import FakeLeague, check_matchmaker, fake_leagues, fake_player, opponent_shares
from ludus_matchmakers.history import PFSP, UniformHistory, pfsp_probabilities
from ludus_matchmakers.mixture import Mixture
from ludus_matchmakers.self_play import Anchors, LatestSelfPlay

MAIN = fake_player("main", 3)
#: Win rates of 0.9, 0.5 and 0.1 against models 1, 2 and 3; half of the results are draws.
RESULTS = {("main@3+", f"main@{n}"): (points - 50, 100, 150 - points) for n, points in ((1, 150), (2, 100), (3, 50))}
LEAGUE = FakeLeague(players=[MAIN], results=RESULTS)
SIDES = fake_leagues()["two sides"]


def rng():
    """Return a generator with a fixed seed."""
    return np.random.default_rng(0)


def mixture(**weights):
    """Mix the matchmakers of this package."""
    parts = {"latest-self-play": LatestSelfPlay(), "uniform-history": UniformHistory(), "pfsp": PFSP()}
    names = {name.replace("_", "-"): share for name, share in weights.items()}
    return Mixture(parts={name: parts[name] for name in names}, weights=names)


@pytest.mark.parametrize(
    "matchmaker",
    [
        PFSP(weighting="even", prior_matches=0.0),
        PFSP(p=50.0, prior_matches=0.0),
        mixture(latest_self_play=0.5, uniform_history=0.25, pfsp=0.25),
    ],
    ids=lambda matchmaker: type(matchmaker).__name__,
)
def test_matchmaker_passes_the_kit(matchmaker):
    """Pure, existing opponents, one per other team, on every kind of league."""
    check_matchmaker(matchmaker)


# -- anchors -------------------------------------------------------------------------------------------------------


def test_anchors_are_met_equally_often():
    """Frozen models are not chosen."""
    league = FakeLeague(players=[MAIN], anchors=("weak", "strong"))
    shares = opponent_shares(Anchors(), league, "main")
    assert shares == {"weak": pytest.approx(0.5, abs=0.04), "strong": pytest.approx(0.5, abs=0.04)}
    assert opponent_shares(Anchors(["strong"]), league, "main", questions=20) == {"strong": 1.0}


def test_an_anchor_plays_the_team_it_is_made_for():
    """The cat cannot meet the cat's bot."""
    league = attrs.evolve(SIDES, anchors=("cat-bot", "mouse-bot"), anchor_teams={"cat-bot": 0, "mouse-bot": 1})
    assert opponent_shares(Anchors(), league, "cat", questions=20) == {"mouse-bot": 1.0}


def test_without_an_anchor_the_fallback_is_chosen():
    """The league continues, and the reason names the missing anchor."""
    expected = Pairing(opponents=("main@3+",), reason="no anchor for this team")
    assert Anchors().next_fixture(LEAGUE, "main", rng()) == expected


def test_an_unknown_anchor_is_named():
    """The error lists the existing ones."""
    league = FakeLeague(players=[MAIN], anchors=("weak",))
    with pytest.raises(ConfigError, match="no anchor 'string'; anchors are weak"):
        Anchors(["string"]).next_fixture(league, "main", rng())


# -- latest self-play ----------------------------------------------------------------------------------------------


def test_a_symmetric_player_meets_its_own_live_weights():
    """Always, whatever is frozen."""
    assert opponent_shares(LatestSelfPlay(), LEAGUE, "main", questions=50) == {"main@3+": 1.0}


def test_one_side_meets_the_live_weights_of_the_other():
    """Each side names the other's."""
    assert LatestSelfPlay().next_fixture(SIDES, "cat", rng()).opponents == ("mouse@2+",)
    assert LatestSelfPlay().next_fixture(SIDES, "mouse", rng()).opponents == ("cat@4+",)


def test_players_to_meet_are_met_equally_often():
    """With two players named, each gets half."""
    league = FakeLeague(players=[MAIN, fake_player("a", 0), fake_player("b", 1)])
    shares = opponent_shares(LatestSelfPlay(["a", "b"]), league, "main")
    assert shares == {"a@0+": pytest.approx(0.5, abs=0.04), "b@1+": pytest.approx(0.5, abs=0.04)}


# -- history -------------------------------------------------------------------------------------------------------


def test_uniform_history_meets_every_model_equally_often():
    """One third each."""
    shares = opponent_shares(UniformHistory(), LEAGUE, "main")
    assert shares == {model: pytest.approx(1 / 3, abs=0.04) for model in MAIN.models}


def test_uniform_history_can_take_other_pools():
    """Only members of the pools named are met."""
    league = attrs.evolve(LEAGUE, pools={"best": ("main@2",)})
    assert opponent_shares(UniformHistory(["best"]), league, "main", questions=20) == {"main@2": 1.0}


def test_without_a_model_live_weights_are_chosen():
    """The reason names the fallback."""
    pairing = UniformHistory().next_fixture(fake_leagues()["nothing frozen"], "main-agent", rng())
    assert (pairing.opponents, pairing.reason) == (("main-agent@0+",), "no model in its pools yet")
    assert UniformHistory(["own/long"]).next_fixture(LEAGUE, "main", rng()) == attrs.evolve(
        pairing, opponents=("main@3+",)
    )


def test_history_of_one_side_is_the_pool_of_the_other():
    """A cat meets frozen mice."""
    assert set(opponent_shares(UniformHistory(), SIDES, "cat")) == {"mouse@1", "mouse@2"}


# -- PFSP ----------------------------------------------------------------------------------------------------------


def test_hard_pfsp_follows_the_formula():
    """[AET eq. 4] with p = 1 and win rates ¾, ½, ¼: 1 - x is ¼, ½, ¾, so shares of 1/6, 1/3, 1/2."""
    shares = opponent_shares(PFSP(prior_matches=0.0), LEAGUE, "main", questions=5000)
    assert shares == {
        "main@1": pytest.approx(1 / 6, abs=0.02),
        "main@2": pytest.approx(1 / 3, abs=0.02),
        "main@3": pytest.approx(1 / 2, abs=0.02),
    }


def test_even_pfsp_follows_the_formula():
    """X (1 - x) is 3/16, 4/16, 3/16."""
    probabilities = pfsp_probabilities(np.array([0.75, 0.5, 0.25]), weighting="even")
    np.testing.assert_allclose(probabilities, [0.3, 0.4, 0.3])


def test_the_exponent_sharpens_and_flattens():
    """P = 2 squares the weights, p = 0 is uniform."""
    rates = np.array([0.75, 0.5])
    np.testing.assert_allclose(pfsp_probabilities(rates, p=2.0), [0.2, 0.8])
    np.testing.assert_allclose(pfsp_probabilities(rates, p=0.0), [0.5, 0.5])


@pytest.mark.parametrize(("weighting", "rate"), [("hard", 1.0), ("even", 1.0), ("even", 0.0)])
def test_where_every_weight_vanishes_the_choice_is_uniform(weighting, rate):
    """All opponents beaten, or none: nothing is NaN."""
    assert pfsp_probabilities(np.full(4, rate), weighting=weighting).tolist() == [0.25] * 4


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
    st.sampled_from(["hard", "even"]),
    st.floats(0, 1000),
)
@settings(deadline=None, max_examples=200)
def test_pfsp_probabilities_are_probabilities(rates, weighting, p):
    """Finite, not negative, summing to 1, for any win rates and exponent."""
    probabilities = pfsp_probabilities(np.array(rates), weighting=weighting, p=p)
    assert (probabilities >= 0).all()
    assert probabilities.sum() == pytest.approx(1)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=10))
@settings(deadline=None, max_examples=50)
def test_harder_opponents_are_never_met_less(rates):
    """A lower win rate gives at least the same probability."""
    order = np.argsort(rates)
    probabilities = pfsp_probabilities(np.array(rates))[order]
    assert (np.diff(probabilities) <= 1e-12).all()


def test_unknown_opponents_count_as_even():
    """A model without matches has the win rate ½, so it is chosen more often than a beaten one."""
    league = FakeLeague(players=[fake_player("main", 2)], results={("main@2+", "main@1"): (98, 0, 0)})
    shares = opponent_shares(PFSP(), league, "main")
    assert shares["main@2"] == pytest.approx(0.5 / 0.51, abs=0.01)


def test_the_reason_of_pfsp_gives_win_rate_and_probability():
    """Stored with every match."""
    league = FakeLeague(players=[fake_player("main", 1)], results={("main@1+", "main@1"): (3, 0, 1)})
    assert PFSP(prior_matches=0.0).next_fixture(league, "main", rng()).reason == "pfsp: win rate 0.75, p 1"


# -- mixture -------------------------------------------------------------------------------------------------------


def test_a_mixture_keeps_its_shares():
    """80 % latest and 20 % PFSP, as AET has it, with the PFSP part by the formula."""
    shares = opponent_shares(mixture(latest_self_play=80, pfsp=20), LEAGUE, "main", questions=5000)
    assert shares["main@3+"] == pytest.approx(0.8, abs=0.02)
    assert shares["main@3"] > shares["main@2"] > shares["main@1"]


def test_the_reason_of_a_mixture_names_the_part():
    """The part's name is in the reason once."""
    reasons = {mixture(pfsp=1).next_fixture(LEAGUE, "main", rng()).reason}
    reasons |= {mixture(latest_self_play=1).next_fixture(LEAGUE, "main", rng()).reason}
    assert {reason.split(": ")[0] for reason in reasons} == {"mixture → pfsp", "mixture → latest-self-play"}


def test_a_mixture_names_a_part_whose_reason_does_not():
    """The fallback of a part also has its name in the reason."""
    pairing = mixture(pfsp=1).next_fixture(fake_leagues()["nothing frozen"], "main-agent", rng())
    assert pairing.reason == "mixture → pfsp: no model in its pools yet"


def test_a_part_with_share_0_is_never_chosen():
    """Switching a branch off is possible."""
    assert opponent_shares(mixture(latest_self_play=1, pfsp=0), LEAGUE, "main", questions=200) == {"main@3+": 1.0}


def test_a_mixture_changes_pools_as_its_parts_do_once():
    """There are no duplicates."""
    parts = {"a": UniformHistory(long_models=1), "b": PFSP(long_models=1)}
    changes = Mixture(parts=parts, weights={"a": 1, "b": 1}).on_model_frozen(LEAGUE, "main", "main@3")
    assert changes == [PoolChange(pool="main/long", model="main@3", enters=True)]


@pytest.mark.parametrize(("capacity", "leaving"), [(2, ["main@1", "main@2"]), (4, []), (1000, [])])
def test_the_capacity_of_a_mixture_is_its_own(capacity, leaving):
    """Neither fewer models stay, as a part with a smaller one would have it, nor more."""
    parts = {"a": UniformHistory(capacity=1), "b": PFSP(capacity=3), "c": LatestSelfPlay(capacity=500)}
    made = Mixture(parts=parts, weights=dict.fromkeys(parts, 1), capacity=capacity)
    changes = made.on_model_frozen(LEAGUE, "main", "main@4")
    assert [change.model for change in changes if not change.enters] == leaving
    assert [change.model for change in changes if change.enters] == ["main@4"]


# -- what all of them share ----------------------------------------------------------------------------------------


def test_frozen_models_enter_the_pool_of_their_player():
    """The pool is named after the player, with every matchmaker."""
    for matchmaker in (LatestSelfPlay(), UniformHistory(), PFSP()):
        changes = matchmaker.on_model_frozen(LEAGUE, "main", "main@4")
        assert list(changes) == [PoolChange(pool="main", model="main@4", enters=True)]


def test_rating_matches_end_after_enough_matches():
    """`enough_matches` and `recent_models` limit the rating matches."""
    rated = {("main@3", "main@2"): (4, 0, 0), ("main@2", "main@1"): (4, 0, 0)}
    league = FakeLeague(players=[MAIN], results=rated)
    rater = partial(LatestSelfPlay, pool_matches=0)
    assert rater(enough_matches=4, recent_models=1).next_evaluation(league, rng()) is None
    assert rater(enough_matches=5, recent_models=1).next_evaluation(league, rng()) == ("main@3", "main@2")
    assert rater(enough_matches=4, recent_models=2).next_evaluation(league, rng()) == ("main@3", "main@1")
