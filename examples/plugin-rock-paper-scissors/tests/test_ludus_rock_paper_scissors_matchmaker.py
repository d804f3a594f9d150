"""Tests of the choices, and of the contract of matchmakers."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.testing import FakeLeague, check_matchmaker, fake_player, opponent_shares
from ludus_rock_paper_scissors.config import NemesisConfig
from ludus_rock_paper_scissors.matchmaker import BeatTheNemesis

MAIN = fake_player("main", 3)
#: Model 2 wins 9 of 10 matches, the others 1 of 10.
LEAGUE = FakeLeague(
    players=[MAIN], results={(MAIN.live, f"main@{n}"): (10 - lost, 0, lost) for n, lost in ((1, 1), (2, 9), (3, 1))}
)


def make(**options):
    """Make the matchmaker with options."""
    return BeatTheNemesis(NemesisConfig(**options))


@pytest.mark.parametrize("self_play", [0.0, 0.5, 1.0])
def test_contract(self_play):
    """`check_matchmaker` calls all methods for many leagues."""
    check_matchmaker(make(self_play=self_play))


def test_chooses_the_strongest_opponent():
    """Half of the fixtures are against model 2, the others against live weights."""
    expected = {"main@2": 0.5, "main@3+": 0.5}
    assert opponent_shares(make(), LEAGUE, "main") == pytest.approx(expected, abs=0.05)


def test_reason_holds_the_win_rate():
    """1 of 10 with a prior of two matches: (1 + 1) / 12."""
    pairing = make(self_play=0.0).next_fixture(LEAGUE, "main", np.random.default_rng(0))
    assert pairing.reason == "beat-the-nemesis: win rate 0.17"


def test_oldest_models_leave_the_pool():
    """The pool holds at most `capacity` models."""
    changes = make(capacity=3).on_model_frozen(LEAGUE, "main", "main@4")
    assert [(change.model, change.enters) for change in changes] == [("main@1", False), ("main@4", True)]
