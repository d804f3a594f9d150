"""The environment keeps the contract, and its spec describes the game."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.testing import check_environment
from ludus_skirmish.config import SkirmishConfig
from ludus_skirmish.environment import Skirmish
from ludus_skirmish.plugin import ludus_register_environments


@pytest.mark.parametrize("seats", ["army", "unit"])
@pytest.mark.parametrize("battle", ["5i", "3i2z", "mab"])
def test_the_environment_keeps_the_contract(battle, seats):
    """Up to the end of matches, by both kinds of seats."""
    options = {"battle": battle, "seats": seats, "time_limit_s": 12.0, "sight": 7.0 if battle == "3i2z" else 0.0}
    check_environment(ludus_register_environments()[0], steps=60, options=options)


def test_an_army_is_a_seat():
    """With one label per unit: 12 choices, and one for each enemy."""
    spec = Skirmish(SkirmishConfig(), num_matches=1).spec
    (role,) = spec.roles
    assert (role.name, role.teams, spec.tick_s, spec.max_ticks) == ("army", (0, 1), 0.25, 240)
    assert role.action_space.nvec.tolist() == [17] * 5
    assert spec.zero_sum
    assert spec.symmetric
    assert spec.perfect_information


def test_a_unit_is_a_seat():
    """50 of them in the mixed battle, with exploding units that break the zero sum."""
    spec = Skirmish(SkirmishConfig(battle="mab", seats="unit", sight=8.0), num_matches=1).spec
    (role,) = spec.roles
    assert (role.name, role.num_seats, role.action_space.n) == ("unit", 50, 37)
    assert not spec.zero_sum
    assert not spec.perfect_information


@pytest.mark.parametrize(("weights", "expected"), [({"taken": -0.5}, False), ({"kill": 0.0, "loss": 0.0}, True)])
def test_weights_decide_the_zero_sum(weights, expected):
    """Gains must be the losses of the other side."""
    assert Skirmish(SkirmishConfig(**weights), num_matches=1).spec.zero_sum is expected


def test_both_kinds_of_seats_play_the_same_game():
    """The same choices of all units lead to the same units."""
    armies = Skirmish(SkirmishConfig(battle="mab"), num_matches=3)
    units = Skirmish(SkirmishConfig(battle="mab", seats="unit"), num_matches=3)
    seeds, rng = np.arange(3, dtype=np.uint64), np.random.default_rng(0)
    tick = units.reset(seeds)
    armies.reset(seeds)
    for _ in range(60):
        keys = rng.random(tick.roles["unit"].action_mask.shape) * tick.roles["unit"].action_mask
        choice = keys.argmax(axis=2)
        tick = units.step({"unit": choice[..., None]})
        armies.step({"army": choice.reshape(3, 2, 25)})
    np.testing.assert_array_equal(armies._world.health, units._world.health)
    assert (armies._world.tally > 0).any()
