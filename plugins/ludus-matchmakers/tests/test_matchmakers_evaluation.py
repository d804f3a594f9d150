"""Win rates from evaluation matches of a new model against the opposing pool, as in AET [AET §3.3]."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from ludus.testing import EloWorld, FakeLeague, SyntheticLeague, SyntheticPlayer, fake_player
from ludus_matchmakers.ada import ADA
from ludus_matchmakers.balance import evaluated_win_rate
from ludus_matchmakers.history import PFSP
from ludus_matchmakers.self_play import LatestSelfPlay
from ludus_matchmakers.tools import least_certain_pair, win_rate_counts

CAT, MOUSE = fake_player("cat", 2, role="cat", team=0), fake_player("mouse", 2, role="mouse", team=1)


def rng(seed=0):
    """Return a generator."""
    return np.random.default_rng(seed)


def shares(league, **options):
    """Return how often PFSP chooses each opponent of the mouse, in 4,000 fixtures."""
    matchmaker, generator = PFSP(prior_matches=0.0, **options), rng()
    chosen = Counter(matchmaker.next_fixture(league, "mouse", generator).opponents[0] for _ in range(4000))
    return {name: count / 4000 for name, count in chosen.items()}


# -- PFSP ------------------------------------------------------------------------------------------------------------


def test_pfsp_follows_evaluation_matches_by_hand():
    """The mouse wins 0.8 and 0.4 of them: weights 0.2 and 0.6. Training matches in scenarios give the reverse."""
    league = FakeLeague(
        players=[CAT, MOUSE],
        results={("mouse@2+", "cat@1"): (0, 0, 90), ("mouse@2+", "cat@2"): (90, 0, 0)},
        evaluations={("mouse@2", "cat@1"): (8, 0, 2), ("mouse@2", "cat@2"): (3, 2, 5)},
    )
    assert shares(league) == pytest.approx({"cat@1": 0.25, "cat@2": 0.75}, abs=0.03)
    assert shares(league, results="training") == {"cat@1": 1.0}


def test_a_newer_model_counts_twice_as_much():
    """Evaluations of mouse@1 count half: 10 · (1, 0) and 5 · (0, 1) make a win rate of 2/3."""
    evaluations = {("mouse@2", "cat@1"): (10, 0, 0), ("mouse@1", "cat@1"): (0, 0, 10)}
    league = FakeLeague(players=[CAT, MOUSE], evaluations=evaluations)
    assert win_rate_counts(league, "mouse", ["cat@1"], results="evaluation").tolist() == [[10, 0, 5]]


def test_losses_of_predecessors_to_their_successors_do_not_count():
    """In self-play main@1 has lost to main@2, which is no result of main@3."""
    evaluations = {("main@1", "main@2"): (1, 0, 9), ("main@3", "main@1"): (8, 0, 2)}
    results = {("main@3+", "main@2"): (6, 0, 4)}
    league = FakeLeague(players=[fake_player("main", 3)], results=results, evaluations=evaluations)
    counts = win_rate_counts(league, "main", ["main@1", "main@2"], results="evaluation")
    assert counts.tolist() == [[8, 0, 2], [6, 0, 4]]


def test_an_opponent_without_evaluations_has_the_counts_of_training():
    """A league without evaluation matches works as before."""
    league = FakeLeague(
        players=[CAT, MOUSE],
        results={("mouse@2+", "cat@1"): (1, 2, 3), ("mouse@2+", "cat@2"): (4, 5, 6)},
        evaluations={("mouse@2", "cat@1"): (7, 0, 0)},
    )
    assert win_rate_counts(league, "mouse", ["cat@1", "cat@2"], results="evaluation").tolist() == [[7, 0, 0], [4, 5, 6]]


# -- ADA -------------------------------------------------------------------------------------------------------------


def balance(evaluations, trained, **options):
    """Return the ratio of the mouse, which starts with one half, after one decision of ADA."""
    league = FakeLeague(players=[MOUSE, CAT], evaluations=evaluations, results=trained)
    changed = {change.player: change.share for change in ADA(hard=("mouse",), **options).decide(league, rng())}
    return changed.get("mouse", 1.0) / 2


def test_ada_follows_the_win_rates_of_the_models_by_hand():
    """The mouse wins 0.25 and 0.65, 0.45 on average, and the cat 0.75: 0.5 + 0.25 · (0.75 - 0.45) = 0.575."""
    evaluations = {("mouse@1", "cat@1"): (64, 0, 34), ("mouse@2", "cat@2"): (24, 0, 74)}
    league = FakeLeague(
        players=[MOUSE, CAT],
        evaluations=evaluations,
        pools={"cat": ("cat@1", "cat@2"), "mouse": ("mouse@2",)},
    )
    (mouse, _) = ADA(hard=("mouse",)).decide(league, rng())
    assert (mouse.player, mouse.share / 2) == ("mouse", pytest.approx(0.5 + 0.25 * (0.75 - (0.25 + 33 / 51) / 2)))


def test_every_model_of_the_pool_has_equal_weight():
    """9 of 10 against one cat and 1 of 90 against another are about one half, not 10 of 100."""
    evaluations = {("mouse@2", "cat@1"): (9, 0, 1), ("mouse@2", "cat@2"): (1, 0, 89)}
    league = FakeLeague(players=[MOUSE, CAT], evaluations=evaluations)
    rate, matches = evaluated_win_rate(league, "mouse", ["cat"])
    assert (rate, matches) == (pytest.approx((10 / 12 + 2 / 92) / 2), 100)


def test_scenarios_do_not_move_ada():
    """Training matches, in which modifiers help the mouse, count only by request, or before the first evaluations."""
    even = {("mouse@2", "cat@2"): (50, 0, 50), ("mouse@2", "cat@1"): (50, 0, 50)}
    helped = {("mouse@2+", "cat@2+"): (0, 0, 98)}
    assert balance(even, helped) == 0.5
    assert balance(even, helped, results="training") == pytest.approx(0.5 + 0.25 * (0.99 - 0.01))
    assert balance({}, helped) == pytest.approx(0.5 + 0.25 * (0.99 - 0.01))


# -- the evaluation matches ------------------------------------------------------------------------------------------


def pool_pairs(league, *, pool_matches=20, pool_budget=200):
    """Return the pairs that are rated next, once nothing else is to be rated."""
    options = {"enough_matches": 1, "recent_models": 0, "pool_matches": pool_matches, "pool_budget": pool_budget}
    return {least_certain_pair(league, rng(seed), **options) for seed in range(40)}


def test_a_new_model_meets_the_opposing_pool():
    """The cats and mice that were met least come first; a pair with enough matches needs no more."""
    met = {(f"cat@{i}", f"mouse@{j}"): (1, 0, 0) for i in (1, 2) for j in (1, 2)}
    league = FakeLeague(players=[CAT, MOUSE], results=met, evaluations={("cat@2", "mouse@2"): (5, 0, 0)})
    assert pool_pairs(league) == {("cat@2", "mouse@1"), ("cat@1", "mouse@2")}
    enough = {("cat@2", "mouse@1"): (20, 0, 0), ("cat@1", "mouse@2"): (20, 0, 0)}
    league = FakeLeague(players=[CAT, MOUSE], results=met, evaluations={("cat@2", "mouse@2"): (5, 0, 0)} | enough)
    assert pool_pairs(league) == {("cat@2", "mouse@2")}
    assert pool_pairs(league, pool_matches=5) == {None}
    assert pool_pairs(league, pool_matches=0) == {None}


def test_the_budget_of_a_model_ends_its_matches():
    """And only its own matches count: those of the model before are in the win rates, not in the budget."""
    met = {("main@3", f"main@{i}"): (1, 0, 0) for i in (1, 2)} | {("main@2", "main@1"): (9, 0, 0)}
    evaluations = {("main@3", "main@2"): (30, 0, 10), ("main@2", "main@1"): (10, 0, 0)}
    league = FakeLeague(players=[fake_player("main", 3)], results=met, evaluations=evaluations)
    assert pool_pairs(league, pool_budget=41) == {("main@3", "main@1")}
    assert pool_pairs(league, pool_budget=40) == {None}


def test_evaluations_of_a_league_find_the_hard_models():
    """In a simulated league the win rates of evaluation are near the true ones, against all models of the pool."""
    mouse = SyntheticPlayer(matchmaker=PFSP(), team=1, rate=0.5)
    cat = SyntheticPlayer(matchmaker=PFSP(), team=0)
    rater = LatestSelfPlay(enough_matches=8, recent_models=1, pool_matches=16, pool_budget=400)
    league = SyntheticLeague(
        world=EloWorld(step=0.05), players={"cat": cat, "mouse": mouse}, evaluation=rater, rated_pairs=12, seed=1
    )
    league.run(400)
    cats = league.pool("cat")
    counts = win_rate_counts(league, "mouse", cats, results="evaluation")
    assert len(cats) > 10
    assert (league.payoff(league.players["mouse"].live, cats, evaluated=True).sum(axis=1) > 0).all()
    found = (counts[:, 0] + 1) / (counts.sum(axis=1) + 2)
    true = league.win_rates(league.players["mouse"].models[-1], cats)
    assert np.corrcoef(found, true)[0, 1] > 0.6
    assert np.abs(found - true).mean() < 0.15
