"""Scenarios, names of actions, rendering, and what bad input reports."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.environment import Scenario
from ludus.errors import ContractError
from ludus_moba.actions import action_name, parse_action
from ludus_moba.config import MobaConfig
from ludus_moba.environment import Moba
from ludus_moba.layout import CHANNELS, observation_space
from ludus_moba.rules import CRYSTAL, HERO, INNER, OUTER
from ludus_moba.scenario import SCENARIOS


def start(name, **parameters):
    """Return the world of a match in a scenario."""
    environment = Moba(MobaConfig(), num_matches=1)
    environment.reset(np.array([3], np.uint64), scenarios=[Scenario(name=name, parameters=parameters)])
    return environment._world


def test_the_seed_draws_heroes():
    """All 16 pairs of four heroes occur."""
    environment = Moba(MobaConfig(), num_matches=256)
    environment.reset(np.arange(256, dtype=np.uint64))
    assert len(np.unique(environment._world.kind @ [4, 1])) == 16


def test_the_pool_restricts_heroes():
    """The option `heroes`."""
    environment = Moba(MobaConfig(heroes=("warrior", "assassin")), num_matches=64)
    environment.reset(np.arange(64, dtype=np.uint64))
    assert set(environment._world.kind.ravel()) == {2, 3}


def test_late_matches_start_strong():
    """Level 15, without outer turrets; the inner ones can be attacked."""
    world = start("late")
    assert (world.level == 15).all()
    assert (world.health[:, :, OUTER] == 0).all()
    assert world.attackable[0, 0, INNER]
    assert not world.attackable[0, 0, CRYSTAL]


def test_scenarios_set_health_and_levels():
    """Of each seat."""
    world = start("custom", level_1=7, health_0=0.25, mana_1=0.5, x_0=33.0)
    assert world.level[0].tolist() == [1, 7]
    assert world.health[0, 0, HERO] == pytest.approx(0.25 * world.max_health[0, 0, HERO])
    assert world.mana[0, 1] == pytest.approx(0.5 * world.max_mana[0, 1])
    assert world.x[0, 0, HERO] == 33.0


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_starts(name):
    """With its defaults."""
    assert start(name).running.all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"level_0": 16}, "expected a whole number from 1 to 15 for level_0, got 16"),
        ({"hero_1": 0.5}, "expected a whole number from -1 to 3 for hero_1, got 0.5"),
        ({"health_0": 0.0}, "expected a number from 0.01 to 1 for health_0, got 0.0"),
    ],
)
def test_bad_parameters_are_one_line(parameters, message):
    """The line names scenario, parameter and range."""
    with pytest.raises(ContractError, match=f"scenario custom: {message}"):
        start("custom", **parameters)


def test_an_illegal_button_names_the_legal_ones(arena):
    """And changes nothing."""
    match = arena()
    with pytest.raises(ContractError, match=r"seat 0 of role 'hero' in match 0 chose .* a button of 0 \(none\)"):
        match.step("skill3")
    assert match.world.ticks[0] == 0


def test_a_hidden_target_is_illegal(arena):
    """The enemy hero out of sight."""
    with pytest.raises(ContractError, match="a target of 0"):
        arena().step("attack:at=hero")


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("none", [0, 7, 7, 7, 7, 0]),
        ("move:to=14,0", [1, 14, 0, 7, 7, 0]),
        ("attack:at=crystal", [2, 7, 7, 7, 7, 18]),
        ("skill2:aim=3,4:at=melee2", [4, 7, 7, 3, 4, 3]),
    ],
)
def test_names_of_actions(text, labels):
    """They can be typed and printed."""
    assert parse_action(text).tolist() == labels
    assert action_name(np.array(labels)) == text


@pytest.mark.parametrize("text", ["jump", "move:to=15,0", "move:to=3", "attack:at=dragon", "move:14,7"])
def test_texts_that_are_no_actions(text):
    """They are refused with what was expected."""
    with pytest.raises(ValueError, match="expected"):
        parse_action(text)


def test_text_shows_both_heroes(arena):
    """With the time and a line about each."""
    text = arena("warrior", "mage").environment.render(0)
    assert "left warrior, level 1" in text
    assert "right mage, level 1" in text
    assert text.count("H\x1b") == 2


def test_the_scene_shows_units(arena):
    """Two heroes and six structures carry labels."""
    scene = arena().environment.render_frame(0)
    labels = [shape.text for shape in scene.shapes if hasattr(shape, "text")]
    assert sorted(labels) == ["C", "C", "H", "H", "T", "T", "T", "T"]


def test_the_map_shows_what_is_near(arena):
    """The own hero in the middle, an enemy minion four cells ahead, nothing behind the field's edge but terrain."""
    match = arena().hero(0, 60.0, 15.0).unit(1, 1, 54.0)
    drawn = match.seen.observation["map"][0, 0]
    assert drawn.shape == (16, 16, len(CHANNELS))
    assert drawn[8, 8, CHANNELS.index("heroes")] == 255
    assert drawn[12, 8, CHANNELS.index("enemy-units")] == 255
    assert drawn[..., CHANNELS.index("enemy-units")].astype(bool).sum() == 1
    edge = match.hero(0, 0.5, 15.0).seen.observation["map"][0, 0, :, :, CHANNELS.index("terrain")]
    assert (edge[:8] == 255).all()


def test_the_map_is_optional():
    """Its leaf is missing then."""
    assert "map" not in observation_space(with_map=False).spaces
    assert "map" not in Moba(MobaConfig(map=False), num_matches=1).spec.roles[0].observation_space.spaces


def test_both_seats_see_the_same_from_their_sides(arena):
    """With equal heroes at mirrored places."""
    match = arena(scenario={"x_0": 55.0, "x_1": 55.0})
    for name, leaf in match.seen.observation.items():
        np.testing.assert_array_equal(leaf[0, 0], leaf[0, 1], err_msg=name)
