"""The matchmakers of the papers' leagues: opponents, their frequencies, and reasons."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus.errors import ConfigError
from ludus.matchmaker import PoolChange
from ludus.testing import FakeLeague, check_matchmaker, fake_leagues, fake_player, opponent_shares
from ludus_matchmakers import config as options, factories
from ludus_matchmakers.alphastar import Curriculum, Forgotten, num_before_harder_models
from ludus_matchmakers.history import PFSP, pfsp_probabilities
from ludus_matchmakers.msm import MSM, msm_probabilities
from ludus_matchmakers.nash import Nash, equilibrium
from ludus_matchmakers.self_play import LatestFrozen

MAIN, EXPLOITER = fake_player("main", 3), fake_player("exploiter", 2)
SIDES = fake_leagues()["two sides"]


def rng():
    """Return a generator with a fixed seed."""
    return np.random.default_rng(0)


def league(rates=None, **given):
    """Return a league; `rates` are win rates of main's live weights, of 100 matches each."""
    results = {("main@3+", name): (100 * rate, 0, 100 - 100 * rate) for name, rate in (rates or {}).items()}
    return FakeLeague(players=[MAIN, EXPLOITER], results=results, **given)


def make(factory, config):
    """Make a matchmaker that has parts of its own."""
    return factory(config, build=None)


@pytest.mark.parametrize(
    "matchmaker",
    [
        Curriculum(share=1.0, below=1.0),
        Forgotten(forgotten=1.0, exploited=1.0),
        MSM(alpha=0.0, prior_matches=0.0),
        Nash(models=2, prior_matches=0.0),
        PFSP(["*"], weighting="capped"),
    ],
    ids=lambda matchmaker: type(matchmaker).__name__,
)
def test_matchmaker_passes_the_kit(matchmaker):
    """Pure, existing opponents, one per other team, on every kind of league."""
    check_matchmaker(matchmaker)


# -- DIS -------------------------------------------------------------------------------------------------------------


def test_msm_follows_the_formula():
    """[DIS eq. 6] with temperature 0.3: win rates ¾ and ¼ give softmax(0.25 / 0.3, 0.75 / 0.3)."""
    weights = np.exp(np.array([0.25, 0.75]) / 0.3)
    np.testing.assert_allclose(msm_probabilities(np.array([0.75, 0.25])), weights / weights.sum())
    np.testing.assert_allclose(msm_probabilities(np.array([0.5, 0.5]), p=3.0), [0.5, 0.5])


def test_msm_divides_its_matches_as_the_paper_says():
    """60 % the current self; pools by their sizes; in a pool by the softmax; a model in two pools counts twice."""
    rates = {"main@1": 0.9, "main@2": 0.5, "main@3": 0.1}
    made = league(rates, pools={"main/superior": ("main@1",)})
    shares = opponent_shares(MSM(prior_matches=0.0), made, "main", questions=20_000)
    in_pool = np.exp(np.array([0.1, 0.5, 0.9]) / 0.3)
    in_pool *= 0.4 * 3 / 4 / in_pool.sum()
    assert shares == {
        "main@3+": pytest.approx(0.6, abs=0.015),
        "main@1": pytest.approx(in_pool[0] + 0.4 / 4, abs=0.01),
        "main@2": pytest.approx(in_pool[1], abs=0.01),
        "main@3": pytest.approx(in_pool[2], abs=0.015),
    }


def test_msm_heeds_the_exponent_of_the_importance():
    """With 0 all models are equally important, with 4 only what is hard is."""
    made = league({"main@1": 0.9, "main@2": 0.5, "main@3": 0.1})
    for p, expected in ((0.0, [1 / 3] * 3), (4.0, msm_probabilities(np.array([0.9, 0.5, 0.1]), p=4.0))):
        shares = opponent_shares(MSM(alpha=0.0, p=p, prior_matches=0.0), made, "main", questions=5000)
        assert [shares[f"main@{n}"] for n in (1, 2, 3)] == pytest.approx(list(expected), abs=0.03)


def test_msm_counts_draws_as_half_a_win():
    """1 - w - ½ d: draws only are as important as half wins and half losses."""
    draws = FakeLeague(players=[MAIN], results={("main@3+", f"main@{n}"): (0, 100, 0) for n in (1, 2, 3)})
    shares = opponent_shares(MSM(alpha=0.0, prior_matches=0.0), draws, "main", questions=3000)
    assert all(share == pytest.approx(1 / 3, abs=0.03) for share in shares.values())


def test_without_a_model_msm_is_self_play():
    """There is no other opponent."""
    empty = fake_leagues()["nothing frozen"]
    assert MSM(alpha=0.0).next_fixture(empty, "main-agent", rng()).opponents == ("main-agent@0+",)


def test_msm_names_the_pool():
    """Stored with every match."""
    reason = MSM(alpha=0.0).next_fixture(league(), "main", rng()).reason
    assert reason == "msm: own, win rate 0.50, p 0.33 in the pool"


def test_the_defaults_of_msm_are_those_of_the_paper():
    """Five pools, 60 %, temperature 0.3, a hundred models, and one every 12 hours."""
    made = make(factories.msm, options.MSMConfig())
    assert (made.alpha, made.p, made.temperature, made.capacity, made.long_s) == (0.6, 1.0, 0.3, 100, 12 * 3600)
    assert made.pools == ("own", "own/long", "own/superior", "policies", "methods")
    assert PoolChange(pool="main/long", model="main@3", enters=True) in made.on_model_frozen(
        league(frozen={"main@3": 12 * 3600.0}), "main", "main@3"
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0, 10), st.floats(0.01, 10))
@settings(deadline=None, max_examples=100)
def test_msm_probabilities_are_probabilities(rates, p, temperature):
    """Finite, positive, and never smaller for a harder opponent."""
    probabilities = msm_probabilities(np.array(rates), p=p, temperature=temperature)
    assert probabilities.sum() == pytest.approx(1)
    assert (np.diff(probabilities[np.argsort(rates)]) <= 1e-9).all()


# -- Minimax ---------------------------------------------------------------------------------------------------------


def test_the_minimax_main_agent_meets_opponents_in_proportion_to_their_win_rates():
    """0.9 of the matches by 1 - x over the whole league, 0.1 uniformly; x = 1 gets the latter only."""
    rates = {"main@1": 1.0, "main@2": 0.5, "main@3": 0.5, "exploiter@1": 0.75, "exploiter@2": 0.25}
    made = make(factories.minimax_main, options.MinimaxMainConfig(prior_matches=0.0))
    shares = opponent_shares(made, league(rates), "main", questions=20_000)
    for name, rate in rates.items():
        assert shares[name] == pytest.approx(0.9 * (1 - rate) / 2 + 0.1 / 5, abs=0.01)


def test_the_minimax_main_agent_begins_with_the_anchors():
    """Generation 0 has converged against them, so it must meet them."""
    made = make(factories.minimax_main, options.MinimaxMainConfig())
    begin = FakeLeague(players=[fake_player("main", 0)], anchors=("bot",))
    assert opponent_shares(made, begin, "main", questions=10) == {"bot": 1.0}


def test_an_exploiter_meets_the_newest_model_of_the_main_agent():
    """Not its live weights; they are the fallback before there is a model."""
    assert opponent_shares(LatestFrozen(), league(), "exploiter", questions=20) == {"main@3": 1.0}
    assert opponent_shares(LatestFrozen(["exploiter"]), league(), "main", questions=20) == {"exploiter@2": 1.0}
    alone = fake_leagues()["nothing frozen"]
    assert LatestFrozen().next_fixture(alone, "main-agent", rng()).opponents == ("main-agent@0+",)


def test_an_exploiter_of_one_side_meets_the_other():
    """The newest mouse."""
    assert opponent_shares(LatestFrozen(), SIDES, "cat", questions=20) == {"mouse@2": 1.0}


def test_an_unknown_player_is_named():
    """The error lists the existing ones."""
    with pytest.raises(ConfigError, match="no player 'mian'; players are main, exploiter"):
        LatestFrozen(["mian"]).next_fixture(league(), "main", rng())


# -- AlphaStar -------------------------------------------------------------------------------------------------------


def test_capped_weights_are_those_of_league_exploiters():
    """Min(½, 1 - x): 0.1, ½ and ½ for win rates 0.9, 0.4 and 0."""
    probabilities = pfsp_probabilities(np.array([0.9, 0.4, 0.0]), weighting="capped")
    np.testing.assert_allclose(probabilities, np.array([0.1, 0.5, 0.5]) / 1.1)


def test_a_main_agent_divides_its_matches_35_50_15():
    """Nothing is forgotten here, so the 15 % are self-play, too."""
    rates = {"main@1": 0.8, "main@2": 0.8, "main@3": 0.8, "exploiter@1": 0.8, "exploiter@2": 0.8}
    made = make(factories.alphastar_main, options.AlphaStarMainConfig())
    shares = opponent_shares(made, league(rates), "main", questions=10_000)
    assert shares.pop("main@3+") == pytest.approx(0.5, abs=0.02)
    assert all(share == pytest.approx(0.1, abs=0.01) for share in shares.values())
    assert len(shares) == 5


def test_what_is_forgotten_gets_its_15_percent():
    """Model 1 is lost to while model 2 is beaten: of PFSP (1 - x)² it gets 0.81 of 0.81 + 4 · 0.04."""
    rates = {"main@1": 0.1, "main@2": 0.8, "main@3": 0.8, "exploiter@1": 0.8, "exploiter@2": 0.8}
    made = make(factories.alphastar_main, options.AlphaStarMainConfig(prior_matches=0.0))
    shares = opponent_shares(made, league(rates), "main", questions=10_000)
    verified = 0.81 / (0.81 + 0.04)  # main@3 was not beaten more than main@2, so it does not count as old
    assert shares["main@3+"] == pytest.approx(0.35, abs=0.02)
    assert shares["main@1"] == pytest.approx(0.5 * 0.81 / 0.97 + 0.15 * verified, abs=0.02)
    assert shares["main@3"] == pytest.approx(0.5 * 0.04 / 0.97, abs=0.01)


def test_exploiters_are_verified_first():
    """While one of their models is beaten less than 30 %."""
    rates = {"main@1": 0.0, "exploiter@1": 0.2, "exploiter@2": 1.0}
    made = Forgotten(exploiters=["exploiter"], prior_matches=0.0)
    assert opponent_shares(made, league(rates), "main", questions=50) == {"exploiter@1": 1.0}
    rates["exploiter@1"] = 0.3
    assert "exploiter@1" not in opponent_shares(made, league(rates), "main", questions=50)
    assert (
        made.next_fixture(league(rates | {"main@2": 1.0}), "main", rng()).reason
        == "forgotten: forgotten, win rate 0.00"
    )


@pytest.mark.parametrize(
    ("rates", "old"), [([], 0), ([0.9], 0), ([0.9, 0.5, 0.1], 0), ([0.1, 0.9, 0.5], 2), ([0.5, 0.4, 0.6], 3)]
)
def test_new_models_that_get_harder_are_not_forgotten(rates, old):
    """Only what lies before the last rise counts, the model of the rise included."""
    assert num_before_harder_models(np.array(rates)) == old


def test_an_exploiter_that_cannot_win_learns_from_earlier_models():
    """Half of the time, by x (1 - x) over the frozen models of the main agent."""
    results = {
        ("exploiter@2+", "main@3+"): (10, 0, 90),
        ("exploiter@2+", "main@1"): (50, 0, 50),
        ("exploiter@2+", "main@2"): (100, 0, 0),
        ("exploiter@2+", "main@3"): (0, 0, 100),
    }
    made = attrs.evolve(league(), results=results)
    shares = opponent_shares(Curriculum(["main"], prior_matches=0.0), made, "exploiter", questions=2000)
    assert shares == {"main@3+": pytest.approx(0.5, abs=0.03), "main@1": pytest.approx(0.5, abs=0.03)}


def test_an_exploiter_that_wins_meets_the_live_weights():
    """From 20 % on; the same applies without matches."""
    results = {("exploiter@2+", "main@3+"): (20, 0, 80)}
    made = Curriculum(["main"], prior_matches=0.0)
    assert opponent_shares(made, attrs.evolve(league(), results=results), "exploiter", questions=50) == {"main@3+": 1.0}
    assert opponent_shares(made, league(), "exploiter", questions=50) == {"main@3+": 1.0}


# -- PSRO ------------------------------------------------------------------------------------------------------------


def test_rock_paper_scissors_has_a_uniform_equilibrium():
    """On both sides; a fourth choice that loses to all is never played."""
    rates = np.full((4, 4), 0.5)
    rates[0, 1] = rates[1, 2] = rates[2, 0] = 1.0
    rates[1, 0] = rates[2, 1] = rates[0, 2] = 0.0
    rates[3, :3], rates[:3, 3] = 0.0, 1.0
    for side in equilibrium(rates):
        np.testing.assert_allclose(side, [1 / 3, 1 / 3, 1 / 3, 0], atol=0.01)


def test_an_uneven_game_has_its_equilibrium():
    """Rows (¾, ¼ | ¼, ½): the row plays 1/3, 2/3 … by equal wins: p ¾ + (1-p) ¼ = p ¼ + (1-p) ½ gives p = 1/3."""
    row, column = equilibrium(np.array([[0.75, 0.25], [0.25, 0.5]]))
    np.testing.assert_allclose(row, [1 / 3, 2 / 3], atol=0.02)
    np.testing.assert_allclose(column, [1 / 3, 2 / 3], atol=0.02)


def test_without_matches_the_equilibrium_is_uniform():
    """Also without a prior."""
    for prior in (0.0, 2.0):
        shares = opponent_shares(Nash(prior_matches=prior), league(), "main", questions=3000)
        assert shares == {model: pytest.approx(1 / 3, abs=0.03) for model in MAIN.models}


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 10_000))
@settings(deadline=None, max_examples=40)
def test_no_pure_strategy_beats_the_equilibrium(rows, columns, seed):
    """More than the tolerance, in any game."""
    rates = np.random.default_rng(seed).random((rows, columns))
    row, column = equilibrium(rates)
    assert (rates @ column).max() - (row @ rates).min() < 0.01
    assert (row.sum(), column.sum()) == (pytest.approx(1), pytest.approx(1))


def test_nash_chooses_the_models_that_beat_the_others():
    """Model 3 beats both others, so it alone is played."""
    results = {("main@3", "main@1"): (90, 0, 10), ("main@3", "main@2"): (90, 0, 10)}
    made = FakeLeague(players=[MAIN], results=results)
    assert opponent_shares(Nash(), made, "main", questions=50) == {"main@3": 1.0}
    assert Nash().next_fixture(made, "main", rng()).reason == "nash: p 1 of 1"


def test_nash_considers_the_newest_models_only():
    """So that the game stays small."""
    assert set(opponent_shares(Nash(models=2), league(), "main", questions=200)) == {"main@2", "main@3"}


def test_nash_considers_the_newest_models_of_all_pools_together():
    """Not those of whichever pool comes last; anchors are no models and stay."""
    frozen = {"main@1": 10.0, "exploiter@1": 20.0, "main@2": 30.0, "exploiter@2": 40.0, "main@3": 50.0}
    made = league(frozen=frozen, anchors=("bot",))
    met = opponent_shares(Nash(["*"], models=3), made, "main", questions=300)
    assert set(met) == {"main@2", "exploiter@2", "main@3"}
    met = opponent_shares(Nash(["anchors", "*"], models=1), made, "main", questions=300)
    assert set(met) == {"bot", "main@3"}


def test_nash_of_two_sides_is_that_of_the_other_side():
    """Mouse 2 beats every cat, so a cat meets mouse 2."""
    results = {("mouse@2", f"cat@{n}"): (90, 0, 10) for n in (1, 2, 3, 4)}
    made = attrs.evolve(SIDES, results=results)
    assert opponent_shares(Nash(), made, "cat", questions=50) == {"mouse@2": 1.0}
