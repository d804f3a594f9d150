"""Scenarios, names of actions, rendering, and what bad input reports."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.environment import Scenario
from ludus.errors import ContractError
from ludus_skirmish import kinds
from ludus_skirmish.actions import action_name, parse_action
from ludus_skirmish.config import SkirmishConfig
from ludus_skirmish.environment import Skirmish
from ludus_skirmish.scenario import SCENARIOS


def start(name="default", battle="mab", matches=1, **parameters):
    """Return the world of matches in a scenario."""
    environment = Skirmish(SkirmishConfig(battle=battle), num_matches=matches)
    scenarios = [Scenario(name=name, parameters=parameters)] * matches
    environment.reset(np.arange(matches, dtype=np.uint64), scenarios=scenarios)
    return environment._world


def test_the_seed_draws_armies():
    """One to five units of each kind, the same on both sides, at mirrored places."""
    world = start(matches=200)
    numbers = world.alive[:, 0].reshape(200, 5, 5).sum(axis=2)
    assert [np.unique(column).tolist() for column in numbers.T] == [[1, 2, 3, 4, 5]] * 5
    for array in (world.alive, world.x, world.y, world.health):
        np.testing.assert_array_equal(array[:, 0], array[:, 1])


@pytest.mark.parametrize(("battle", "slot_kinds"), [("5i", [0] * 5), ("3i2z", [0, 0, 0, 1, 1])])
def test_small_battles_have_fixed_armies(battle, slot_kinds):
    """Walkers and blades."""
    world = start(battle=battle)
    assert world.kind[0].tolist() == [slot_kinds] * 2
    assert world.alive.all()


def test_bodies_do_not_overlap_at_the_start():
    """More than a little."""
    world = start(battle="5i", matches=50)
    x, y = world.x[:, 0], world.y[:, 0]
    distance = np.hypot(x[:, :, None] - x[:, None], y[:, :, None] - y[:, None]) + 10 * np.eye(5)
    assert distance.min() > 1.2


def test_status_is_drawn():
    """Health, shield and readiness of each unit, between the share and 1, the same on both sides."""
    world = start("random-status", battle="5i", matches=50)
    for points, most in ((world.health, 220), (world.shield, 110)):
        assert 0.3 * most <= points.min() < 0.4 * most
        assert 0.9 * most < points.max() <= most
        np.testing.assert_array_equal(points[:, 0], points[:, 1])
    assert set(np.unique(world.wait).tolist()) > {0, 1, 2}


def test_a_handicap():
    """Less health of one side."""
    world = start("handicap", battle="5i")
    assert world.health[0, :, 0].tolist() == pytest.approx([154, 220])
    assert world.shield[0, :, 0].tolist() == [110, 110]


def test_numbers_of_units_may_be_given():
    """By kind and side; the others are drawn."""
    world = start("custom", flyer_0=0, flyer_1=3, bomber_0=2, bomber_1=2)
    flyers, bombers = world.alive[0, :, :5].sum(axis=1), world.alive[0, :, 20:].sum(axis=1)
    assert (flyers.tolist(), bombers.tolist()) == ([0, 3], [2, 2])


@pytest.mark.parametrize("battle", kinds.BATTLES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_starts(name, battle):
    """With its defaults, in every battle."""
    assert start(name, battle).running.all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"health_0": 0.0}, "expected a number from 0.01 to 1 for health_0, got 0.0"),
        ({"flyer_1": 0.5}, "expected a whole number from -1 to 5 for flyer_1, got 0.5"),
        ({"walker_0": 1}, "expected a whole number from -1 to 0 for walker_0, got 1"),
        (
            dict.fromkeys(["flyer_1", "archer_1", "brute_1", "runner_1", "bomber_1"], 0),
            "expected at least one unit of side 1, got none",
        ),
    ],
)
def test_bad_parameters_are_one_line(parameters, message):
    """The line names scenario, parameter and range."""
    with pytest.raises(ContractError, match=f"scenario custom: {message}"):
        start("custom", **parameters)


def test_an_illegal_choice_names_the_legal_ones(field):
    """And changes nothing."""
    match = field([("brute", 12, 12)], [("flyer", 13, 12)])
    expected = r"seat 0 of role 'army' in match 0 chose 9 for label 0; expected one of 0 \(stop\), 1 \(move:e\)"
    with pytest.raises(ContractError, match=expected):
        match.step("attack")
    assert match.world.ticks[0] == 0


def test_an_illegal_choice_of_a_unit_names_its_seat():
    """Where units are seats."""
    environment = Skirmish(SkirmishConfig(seats="unit"), num_matches=1)
    environment.reset(np.zeros(1, np.uint64))
    action = np.zeros((1, 10, 1), np.int64)
    action[0, 7] = 17
    with pytest.raises(ContractError, match="seat 7 of role 'unit' in match 0 chose 17 for label 0"):
        environment.step({"unit": action})


@pytest.mark.parametrize(
    ("text", "labels"),
    [("stop move:e", [0, 1]), ("attack attack:1", [9, 13]), ("attack:ground attack:air", [10, 11])],
)
def test_names_of_actions(text, labels):
    """They can be typed and printed."""
    assert parse_action(text, 2, 2).tolist() == labels
    assert action_name(np.array(labels)) == text


def test_one_word_orders_all_units():
    """The same choice for each."""
    assert parse_action("attack", 5, 5).tolist() == [9] * 5


@pytest.mark.parametrize("text", ["jump", "attack:5", "move:x", "stop stop", "attack:-1"])
def test_texts_that_are_no_actions(text):
    """They are refused with what was expected."""
    with pytest.raises(ValueError, match="expected one"):
        parse_action(text, 5, 5)


def test_text_shows_all_units(field):
    """By a letter, in the colours of their sides, with a line about each army."""
    text = field([("archer", 3, 5), ("bomber", 5, 5)], [("brute", 20, 9)]).environment.render(0)
    assert [text.count(f"m{letter}\x1b") for letter in "axu"] == [1, 1, 1]
    assert "left: 2 units, health 117, shields 0, kills 0" in text
    lines = text.splitlines()
    assert "a\x1b" in lines[4 + 5]
    assert "u\x1b" in lines[4 + 9]


def test_the_scene_shows_units_and_attacks(field):
    """Bodies with letters and bars, and a line for each attack of the last tick."""
    match = field([("archer", 12, 12)], [("walker", 15, 12)]).step("attack:0")
    shapes = match.environment.render_frame(0).shapes
    kinds_of_shapes = [type(shape).__name__ for shape in shapes]
    assert (kinds_of_shapes.count("Circle"), kinds_of_shapes.count("Line"), kinds_of_shapes.count("Label")) == (2, 1, 2)
    (line,) = (shape for shape in shapes if type(shape).__name__ == "Line")
    assert (line.x1, line.y1, line.x2, line.y2) == pytest.approx((12, 12, 15, 12))
    assert match.step().environment.render_frame(0).caption.startswith("0.5 s")


def test_both_seats_see_the_same_from_their_sides():
    """At the start of a match, whose sides are mirror images."""
    environment = Skirmish(SkirmishConfig(battle="mab"), num_matches=3)
    tick = environment.reset(np.arange(3, dtype=np.uint64)).roles["army"]
    for name, leaf in tick.observation.items():
        np.testing.assert_array_equal(leaf[:, 0], leaf[:, 1], err_msg=name)


def test_units_see_others_relative_to_themselves():
    """Their places in units of 10, and a mark of the own row and of enemies in reach."""
    environment = Skirmish(SkirmishConfig(seats="unit"), num_matches=1)
    tick = environment.reset(np.zeros(1, np.uint64)).roles["unit"]
    world, leaves = environment._world, tick.observation
    own, enemy = leaves["own"][0, 2], leaves["enemy"][0, 2]
    assert own[:, 21].tolist() == [0, 0, 1, 0, 0]
    assert own[2, 18:21].tolist() == [0, 0, 0]
    assert own[4, 18] == pytest.approx((world.x[0, 0, 4] - world.x[0, 0, 2]) / 10)
    assert enemy[1, 20] == pytest.approx(world.distance[0, 0, 2, 1] / 10)
    np.testing.assert_array_equal(enemy[:, 21], world.distance[0, 0, 2] <= world.reach[0, 0, 2])
    np.testing.assert_array_equal(leaves["self"][0, 2], own[2, :18])
