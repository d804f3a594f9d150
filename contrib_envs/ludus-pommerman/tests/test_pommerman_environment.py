"""The environment keeps the contract, and its spec describes the game."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.testing import check_environment
from ludus_pommerman.config import PommermanConfig
from ludus_pommerman.environment import Pommerman
from ludus_pommerman.plugin import ludus_register_environments


@pytest.mark.parametrize(
    "options",
    [
        {"variant": "ffa"},
        {"variant": "team", "privileged": True, "kill": 0.5, "wood_reward": 0.1, "item": 0.1},
        {"variant": "radio"},
        {"variant": "one-vs-one", "view": 3},
        {"variant": "collapse", "first_collapse": 12},
    ],
    ids=lambda options: options["variant"],
)
def test_the_environment_keeps_the_contract(options):
    """Up to the end of matches, in all variants."""
    check_environment(ludus_register_environments()[0], steps=60, options={"time_limit": 40, **options})


@pytest.mark.parametrize(
    ("variant", "size", "teams", "view"),
    [
        ("ffa", 11, (0, 1, 2, 3), 11),
        ("team", 11, (0, 1, 0, 1), 4),
        ("radio", 11, (0, 1, 0, 1), 4),
        ("one-vs-one", 8, (0, 1), 8),
        ("collapse", 11, (0, 1, 2, 3), 11),
    ],
)
def test_the_spec_describes_the_variant(variant, size, teams, view):
    """Size of the board, teams, and what the seat in the upper left corner sees."""
    environment = Pommerman(PommermanConfig(variant=variant), num_matches=1)
    role = environment.spec.roles[0]
    assert (role.teams, environment.spec.turn, environment.spec.max_ticks) == (teams, "simultaneous", 800)
    assert role.observation_space["board"].shape == (size, size)
    board = environment.reset(np.array([1], np.uint64)).roles["player"].observation["board"][0, 0]
    assert (board != 5).sum() == min(view + 2, size) ** 2


def test_radio_adds_two_words():
    """Of eight symbols each."""
    radio, team = (Pommerman(PommermanConfig(variant=name), num_matches=1).spec.roles[0] for name in ("radio", "team"))
    assert radio.action_space.nvec.tolist() == [6, 8, 8]
    assert radio.observation_space["message"].shape == (2,)
    assert team.action_space.n == 6
    assert "message" not in team.observation_space.spaces
