"""Checks of the values that matchmakers and rules return."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from ludus._league.validation import checked_changes, checked_evaluation, checked_pairing, checked_pool_changes
from ludus._store.model_files import save_arrays
from ludus.environment import Scenario
from ludus.errors import ContractError
from ludus.matchmaker import Pairing, PoolChange
from ludus.rule import Freeze, Share

GOOD = Pairing(opponents=("random",), reason="test")


@pytest.fixture
def league_and_spec(league):
    """Return a league with a frozen model, and its environment."""
    coordinator = league(anchors=("random",)).coordinator
    digest = save_arrays(coordinator.league.store.run_dir / "models", {"w": np.zeros(3)}, {"player": "main"})
    coordinator.league.freeze("main", hash=digest, decisions=1, version=1, manifest={})
    return coordinator.league, coordinator.training.spec


@pytest.mark.parametrize("opponent", ["random", "main@1", "main@1+"])
def test_playable_participants_may_be_opponents(league_and_spec, opponent):
    """Anchors, frozen models and present live weights."""
    league, spec = league_and_spec
    pairing = Pairing(opponents=(opponent,), reason="test")
    assert checked_pairing(pairing, league, spec) is pairing


@pytest.mark.parametrize(
    ("pairing", "problem"),
    [
        (("random",), r"next_fixture returned \('random',\); expected a ludus.matchmaker.Pairing"),
        (evolve(GOOD, opponents=()), "next_fixture named 0 opponents; expected 1, one for every other team"),
        (evolve(GOOD, opponents="random"), "opponents: expected a tuple of names, got 'random'"),
        (evolve(GOOD, opponents=(None,)), r"opponents: expected a tuple of names, got \(None,\)"),
        (evolve(GOOD, opponents=("main@0+",)), "opponents: 'main@0\\+' cannot play there now"),
        (evolve(GOOD, opponents=("nobody@3",)), "opponents: 'nobody@3' cannot play there now"),
        (
            evolve(GOOD, scenario=Scenario(name="zzz")),
            "next_fixture chose Scenario.*'zzz'.*; .* has the scenarios default",
        ),
        (evolve(GOOD, scenario="default"), "next_fixture chose 'default'; .* has the scenarios default"),
        (
            evolve(GOOD, scenario=Scenario(parameters={"x": np.float32(2)})),
            r"scenario default: x is .*2.0.*; expected a finite Python number",
        ),
        (evolve(GOOD, scenario=Scenario(parameters={"x": float("nan")})), "x is nan; expected a finite"),
    ],
)
def test_an_invalid_pairing_is_refused(league_and_spec, pairing, problem):
    """The message holds the value and what was expected."""
    league, spec = league_and_spec
    with pytest.raises(ContractError, match=problem):
        checked_pairing(pairing, league, spec)


@pytest.mark.parametrize("pair", [None, ("random", "main@1"), ["main@1", "main@1"]])
def test_frozen_models_and_anchors_are_rated(league_and_spec, pair):
    """None is valid, too."""
    league, _ = league_and_spec
    assert checked_evaluation(pair, league) == (None if pair is None else tuple(pair))


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        (("main@1+", "random"), "next_evaluation: 'main@1\\+' cannot play there now; choose an anchor or a model"),
        (("random",), "next_evaluation named 1 participants; expected 2"),
        ("random", "next_evaluation: expected a tuple of names, got 'random'"),
    ],
)
def test_an_invalid_evaluation_is_refused(league_and_spec, pair, problem):
    """Live weights cannot be rated, because they change."""
    league, _ = league_and_spec
    with pytest.raises(ContractError, match=problem):
        checked_evaluation(pair, league)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("main@1", "on_model_frozen returned 'main@1'; expected a ludus.matchmaker.PoolChange"),
        (
            PoolChange(pool="p", model="main@7", enters=True),
            "there is no frozen model 'main@7' in .* — fix its on_model_fr",
        ),
    ],
)
def test_an_impossible_pool_change_is_refused(league_and_spec, change, problem):
    """Before any change of the sequence is applied."""
    league, _ = league_and_spec
    good = PoolChange(pool="p", model="main@1", enters=True)
    assert checked_pool_changes(iter([good]), league) == [good]
    with pytest.raises(ContractError, match=problem):
        checked_pool_changes([good, change], league)


def test_a_rule_returns_changes(league_and_spec):
    """Other objects are refused."""
    league, _ = league_and_spec
    assert checked_changes([Freeze(player="main", reason="x")], league)
    with pytest.raises(ContractError, match=r"not a change of ludus\.rule in 'Freeze' — fix its decide"):
        checked_changes(["Freeze"], league)


def test_a_rule_leaves_one_player_with_a_share(league_and_spec):
    """The error is raised when the rule returns, not at the next fixture."""
    league, _ = league_and_spec
    waits = Share(player="main", share=0)
    assert checked_changes([waits, Share(player="main", share=1)], league)
    with pytest.raises(ContractError, match="every player's share of the ticks would be 0"):
        checked_changes([waits], league)


@pytest.mark.parametrize(
    ("checked", "problem"),
    [
        (checked_changes, "decide returned None; expected a sequence of changes"),
        (checked_pool_changes, "on_model_frozen returned None; expected a sequence of changes"),
    ],
)
def test_none_is_no_sequence_of_changes(league_and_spec, checked, problem):
    """No change is an empty sequence."""
    league, _ = league_and_spec
    assert checked([], league) == []
    with pytest.raises(ContractError, match=problem):
        checked(None, league)
