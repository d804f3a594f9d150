"""The statistics of a chase."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.environment import Scenario
from ludus_chase.config import ChaseConfig
from ludus_chase.environment import Chase
from ludus_chase.rewards import CAT_PARTS, MOUSE_PARTS


def draw(seen, rng):
    """Return random legal actions of a role, the highest numbered ones more often."""
    kinds = np.where(seen.action_mask[..., :18], rng.random((*seen.acting.shape, 18)), -1.0).argmax(axis=2)
    directions = np.where(seen.action_mask[..., 18:], rng.random((*seen.acting.shape, 16)), -1.0).argmax(axis=2)
    return np.stack([kinds, directions], axis=2)


def test_statistics_are_sums_of_events():
    """As the reward parts count them, until the match ends; a new match starts at 0."""
    game, matches = Chase(ChaseConfig(), num_matches=4), 4
    scenario = Scenario(name="custom", parameters={"preparation": 0})
    tick = game.reset(np.arange(matches, dtype=np.uint64), scenarios=[scenario] * matches)
    cat, mouse = tick.roles["cat"], tick.roles["mouse"]
    rng = np.random.default_rng(0)
    sums = {name: np.zeros((matches, 4)) for name in ("caught", "eliminated", "rescue", "push", "break_crack")}
    cat_sums = {name: np.zeros((matches, 1)) for name in ("catch", "eliminate", "place_trap", "wreck_scout")}
    for _ in range(600):
        game.step({"cat": draw(cat, rng), "mouse": draw(mouse, rng)})
        for name in sums:
            sums[name] += mouse.reward_parts[name] / MOUSE_PARTS[name]
        for name in cat_sums:
            cat_sums[name] += cat.reward_parts[name] / CAT_PARTS[name]
    assert sums["caught"].sum() + cat_sums["place_trap"].sum() > 0
    for statistic, part in zip(mouse.statistics.values(), sums.values(), strict=True):
        np.testing.assert_allclose(statistic, part, rtol=1e-4, atol=1e-4)
    for statistic, part in zip(cat.statistics.values(), cat_sums.values(), strict=True):
        np.testing.assert_allclose(statistic, part, rtol=1e-4, atol=1e-4)
    game.reset(np.array([9], np.uint64), indices=np.array([1]))
    assert not any(values[1].any() for values in (*cat.statistics.values(), *mouse.statistics.values()))


@pytest.mark.parametrize(("role", "names"), [("cat", 4), ("mouse", 5)])
def test_roles_declare_their_statistics(role, names):
    """By name."""
    assert len(Chase(ChaseConfig(), num_matches=1).spec.role(role).statistics) == names
