"""The interface that shows the nearest things first."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.interface import SeatView, Spaces
from ludus.testing import check_interface
from ludus_chase.config import NearestConfig
from ludus_chase.layout import INDEX
from ludus_chase.nearest import make_nearest

CHEESE, HOLE = INDEX["mouse"]["cheeses"], INDEX["mouse"]["holes"]


@pytest.fixture
def seen(scene):
    """Return a function of scene and options that returns the first mouse's observation through the interface."""

    def make(match, **keep):
        interface = make_nearest(NearestConfig(keep=keep))
        role, tick = match.environment.spec.role("mouse"), match.tick.roles["mouse"]
        space = interface.bind(Spaces(role.observation_space, role.action_space)).observation
        leaves = {name: leaf[0, :1] for name, leaf in tick.observation.items()}
        view = SeatView(observation=leaves, action_mask=None, reward=np.zeros(1, np.float32))
        found = interface.observe(view, np.zeros(1, np.int64)).observation
        assert set(found) == set(space.spaces)
        assert all(found[name].shape[1:] == leaf.shape for name, leaf in space.spaces.items())
        return {name: leaf[0] for name, leaf in found.items()}

    return make


@pytest.fixture
def match(scene):
    """Return a scene whose mice know cheeses 5, 2 and 8 cells east of the first mouse, and two holes."""
    match = scene()
    for number, far in enumerate((5.0, 2.0, 8.0)):
        match.things([number], 6.0 + far, 8.0)
    return match.look()


@pytest.mark.parametrize("role", ["cat", "mouse"])
def test_the_interface_keeps_the_contract(scene, role):
    """On random numbers, for both roles."""
    seen = scene().environment.spec.role(role)
    keep = {"cheeses": 1, "holes": 2, "items": 0, "teammates": 2, "mice": 2}
    check_interface(lambda: make_nearest(NearestConfig(keep=keep)), Spaces(seen.observation_space, seen.action_space))


def test_the_nearest_entity_comes_first(match, seen):
    """Entities are ordered by distance; unknown ones come last."""
    far = seen(match, cheeses=3)["cheeses"][:, CHEESE["far"]] * 120
    assert far == pytest.approx([2.0, 5.0, 8.0], abs=0.01)
    assert seen(match, cheeses=5)["cheeses_present"].tolist() == [1, 1, 1, 0, 0]


def test_groups_are_cut_to_the_given_length(match, seen):
    """0 removes a group; a group that is not named is unchanged."""
    leaves = seen(match, cheeses=1, items=0)
    assert leaves["cheeses"].shape == (1, len(CHEESE))
    assert "items" not in leaves
    assert "items_present" not in leaves
    np.testing.assert_array_equal(leaves["holes"], match.tick.roles["mouse"].observation["holes"][0, 0])


def test_useless_entities_come_last(match, seen):
    """Cheese that a teammate carries comes after all cheese on the floor."""
    match.agent(2, 7.5, 8.0, hold=1)
    match.world.cheese[0, 1] = 1
    match.look()
    shown = seen(match, cheeses=3)["cheeses"]
    assert shown[:2, CHEESE["floor"]].tolist() == [1, 1]
    assert shown[:2, CHEESE["far"]] * 120 == pytest.approx([5.0, 8.0], abs=0.01)


def test_groups_of_the_other_role_are_ignored(match):
    """The interface of a cat ignores groups that only mice have."""
    interface = make_nearest(NearestConfig(keep={"teammates": 1, "mice": 2, "doors": 1}))
    cat = match.environment.spec.role("cat")
    leaves = interface.bind(Spaces(cat.observation_space, cat.action_space)).observation
    assert leaves["mice"].shape == (2, 18)
    assert leaves["doors"].shape == (1, 3)
    assert "teammates" not in leaves.spaces


def test_other_observations_raise():
    """The message names the expected position of the interface."""
    interface = make_nearest(NearestConfig(keep={"holes": 1}))
    with pytest.raises(ContractError, match="list this interface first"):
        interface.bind(Spaces(spaces.Box(0, 1, (3,)), spaces.Discrete(2)))


@pytest.mark.parametrize("keep", [{"cheese": 1}, {"holes": -1}, {"holes": 1.5}, [1]])
def test_invalid_options_raise(keep):
    """Unknown groups, negative numbers and fractions."""
    with pytest.raises(ValueError, match="whole numbers"):
        NearestConfig(keep=keep)
