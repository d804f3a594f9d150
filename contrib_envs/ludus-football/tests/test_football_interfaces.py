"""Interfaces of football."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.installed import open_interfaces
from ludus.interface import SeatView, Spaces
from ludus.option import presets_of
from ludus.testing import check_interface
from ludus_football.features import feature_groups
from ludus_football.interfaces import LocalFeatures, make_rewards
from ludus_football.reward_config import RewardFactorsConfig
from ludus_football.rewards import PARTS


def dis_spaces(size) -> Spaces:
    """Return the spaces of seats with an observation of a size."""
    return Spaces(spaces.Box(-np.inf, np.inf, (size,), np.float32), spaces.Discrete(19))


def reward_view() -> SeatView:
    """Return a view in which every part is 1."""
    ones = np.ones(2, np.float32)
    return SeatView(
        observation={}, action_mask=None, reward=len(PARTS) * ones, reward_parts={part: ones.copy() for part in PARTS}
    )


@pytest.mark.parametrize(("capacity", "size"), [(5, 214), (11, 370)])
def test_local_features_keep_their_groups(capacity, size):
    """94 numbers stay: the groups of the own player, the ball and the players next to it, in order."""
    interface = open_interfaces(["football-local"])
    assert interface.bind(dis_spaces(size)).observation.shape == (94,)
    numbers = np.arange(size, dtype=np.float32)[None]
    view = SeatView(observation={"obs": numbers}, action_mask=None, reward=np.zeros(1, np.float32))
    kept = interface.observe(view, np.array([0])).observation["obs"]
    groups = {group.name: numbers[0, group.slice] for group in feature_groups(capacity)}
    names = (
        "controlling player",
        "ball",
        "closest teammate",
        "closest opponent",
        "available actions",
        "match state",
        "sticky actions",
    )
    assert kept[0].tolist() == np.concatenate([groups[name] for name in names]).tolist()


def test_interfaces_keep_the_contract():
    """The kit finds no violation."""
    check_interface(LocalFeatures, dis_spaces(214), masked=True)


@pytest.mark.parametrize("observation", [dis_spaces(115).observation, spaces.Box(0, 255, (72, 96, 4), np.uint8)])
def test_other_observations_are_refused(observation):
    """The message names the option of the environment."""
    with pytest.raises(ContractError, match=r"football-local: expected a vector of 214 or 370 numbers.*\"dis\""):
        LocalFeatures().bind(Spaces(observation, spaces.Discrete(19)))


@pytest.mark.parametrize(
    ("preset", "dropped"),
    [
        ("dis-main", {"hold", "secondary_attack", "slide"}),
        ("dis-possession", {"secondary_attack", "slide"}),
        ("dis-passing", {"hold", "slide"}),
        ("dis-goal-clipping", {"hold", "secondary_attack", "slide", "excess"}),
    ],
)
def test_presets_select_parts(preset, dropped):
    """A preset keeps the other parts as they are."""
    interface = make_rewards(RewardFactorsConfig(**presets_of(RewardFactorsConfig)[preset]))
    view = interface.observe(reward_view(), np.array([0, 1]))
    assert {name for name, values in view.reward_parts.items() if not values.any()} == dropped
    assert view.reward.tolist() == [len(PARTS) - len(dropped)] * 2


def test_every_part_has_a_factor():
    """By default nothing changes."""
    view = make_rewards(RewardFactorsConfig()).observe(reward_view(), np.array([0, 1]))
    assert view.reward.tolist() == [len(PARTS)] * 2
    half = make_rewards(RewardFactorsConfig(win=0.5)).observe(reward_view(), np.array([0, 1]))
    assert half.reward.tolist() == [len(PARTS) - 0.5] * 2
