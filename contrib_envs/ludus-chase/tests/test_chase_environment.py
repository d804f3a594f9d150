"""The environment around the rules: contract, what is seen and remembered, rewards, scenarios, text."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces
from ludus.environment import Playable, Scenario
from ludus.errors import ContractError
from ludus.interface import Spaces
from ludus.rendering import Box, Circle, Label, Line
from ludus.testing import check_environment
from ludus_chase.actions import CAT_ACTIONS, MOUSE_ACTIONS, action_name, parse_action
from ludus_chase.config import ChaseConfig, NearestConfig
from ludus_chase.environment import Chase
from ludus_chase.layout import CAT_LEAVES, INDEX, MOUSE_LEAVES, table
from ludus_chase.nearest import make_nearest
from ludus_chase.plugin import ludus_register_environments
from ludus_chase.rewards import CAT_PARTS, MOUSE_PARTS
from ludus_chase.scenario import COLUMN, PARAMETERS, SCENARIOS
from ludus_chase.world import Cheese, Status, Thing

SHORT = {"preparation_s": 1.0, "push_s": 5.0, "escape_s": 5.0}


# -- contract ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({**SHORT, "mini_image": True}, 70),
        ({"columns": 2, "rows": 4, "tick_ms": 500, "time_over": "draw", "push_s": 10.0, "preparation_s": 2.0}, 35),
        ({"columns": 4, "rows": 2, "cheeses": 2, "preparation_s": 0.0, "time_over": "count", "push_s": 5.0}, 35),
    ],
)
def test_the_environment_keeps_the_contract(options, steps):
    """Up to the end of matches, for several options."""
    check_environment(ludus_register_environments()[0], steps=steps, options=options)


def test_the_spec_describes_the_game():
    """One cat against a team of four mice; 18 actions and 16 directions; 50 + 750 + 300 ticks."""
    spec = Chase(ChaseConfig(), num_matches=1).spec
    assert [(role.name, role.teams) for role in spec.roles] == [("cat", (0,)), ("mouse", (1, 1, 1, 1))]
    assert all(role.action_space.nvec.tolist() == [18, 16] for role in spec.roles)
    assert (spec.turn, spec.tick_s, spec.max_ticks) == ("asynchronous", 0.2, 1100)
    used = {role.name: [n for n, row in enumerate(role.labels_used) if row[1]] for role in spec.roles}
    assert used == {"cat": [16, 17], "mouse": [16, 17]}


def test_random_mice_never_win(play):
    """As in the paper, random mice hardly ever push a cheese."""
    environment = Chase(ChaseConfig(tick_ms=400), num_matches=64)
    points = [tick.outcome[tick.terminated, 1] for tick in play(environment, seed=1, steps=400)]
    points = np.concatenate(points)
    assert len(points) == 64
    assert points.sum() == 0


def test_random_play_keeps_invariants(play):
    """Cheese, items, health and statuses stay consistent."""
    environment = Chase(ChaseConfig(hit_damage=100.0, hit_reach=6.0), num_matches=32)
    statuses = set()
    for _ in play(environment, seed=3, steps=400):
        world = environment._world
        statuses |= set(world.status.ravel().tolist())
        assert ((world.health >= 0) & (world.health <= 100)).all()
        held = world.hold[:, 1:] * (world.stage > 0)[:, None] - (world.stage == 0)[:, None]
        for cheese in range(5):
            assert np.array_equal((held == cheese).sum(axis=1), world.cheese[:, cheese] == 1)
        for item in range(6):
            assert ((world.item == item).sum(axis=1) + world.present[:, Thing.ITEMS.start + item] <= 1).all()
        assert np.array_equal((world.status == 2).sum(axis=1), world.hold[:, 0] >= 0)
        assert np.array_equal(
            (world.status == Status.TIED).sum(axis=1), (world.amount[:, Thing.ROCKETS] > 0).sum(axis=1)
        )
    assert {0, 1, 2} <= statuses


# -- what is seen --------------------------------------------------------------------------------------------------


def shown(match, role, leaf, name, seat=0):
    """Return the values of a leaf by name."""
    array = match.tick.roles[role].observation[leaf][0, seat]
    return np.round(array[..., INDEX[role][leaf][name]], 4).tolist()


def test_the_layout_is_printed():
    """One line per leaf of either role."""
    printed = subprocess.run(
        [sys.executable, "-m", "ludus_chase.layout"], capture_output=True, text=True, check=True
    ).stdout
    assert printed == f"{table()}\n"
    assert len(printed.splitlines()) == len(MOUSE_LEAVES) + len(CAT_LEAVES) + 2


def test_names_match_widths():
    """The names of each leaf are unique and as many as its numbers."""
    environment = Chase(ChaseConfig(), num_matches=1)
    for role, leaves in (("mouse", MOUSE_LEAVES), ("cat", CAT_LEAVES)):
        space = environment.spec.role(role).observation_space
        for leaf, (rows, names) in leaves.items():
            assert len(set(names)) == len(names)
            assert space[leaf].shape == ((rows, len(names)) if rows else (len(names),))


@pytest.mark.parametrize("role", ["cat", "mouse"])
@pytest.mark.parametrize("keep", [{}, {"cheeses": 1, "holes": 9}])
def test_masks_are_neither_scaled_nor_normalized(role, keep):
    """Presence leaves are binary, so that interfaces and algorithms leave them unchanged, also in `chase-nearest`."""
    seen = Chase(ChaseConfig(), num_matches=1).spec.role(role)
    interface = make_nearest(NearestConfig(keep=keep))
    space = interface.bind(Spaces(seen.observation_space, seen.action_space)).observation
    groups = [name for name, leaf in space.items() if len(leaf.shape) == 2]
    assert "doors" in groups
    assert all(space[f"{name}_present"] == spaces.MultiBinary(len(space[name].low)) for name in groups)


def test_agents_see_themselves(scene):
    """Position, position in the room, health, cheese, index."""
    match = scene().agent(1, 30, 20, health=50, hold=2, fast=15)
    match.world.cheese[0, 2] = 1
    match.look()
    values = {name: shown(match, "mouse", "self", name) for name in ("x", "y", "room-x", "room-y", "health", "fast")}
    expected = {"x": 30 / 72, "y": 20 / 72, "room-x": 0.25, "room-y": 0.25, "health": 0.5, "fast": 0.1}
    assert values == {name: pytest.approx(value, abs=1e-4) for name, value in expected.items()}
    assert shown(match, "mouse", "self", "burdened") == 1
    assert [shown(match, "mouse", "self", f"number-{n}", seat=2) for n in (1, 2, 3, 4)] == [0, 0, 1, 0]


def test_only_rooms_with_a_teammate_are_visible(scene):
    """A thing in another room is unknown; a thing seen before keeps its last position."""
    match = scene().things([Thing.CHEESES.start], 10, 10).things([Thing.CHEESES.start + 1], 30, 20).look()
    present = match.tick.roles["mouse"].observation["cheeses_present"]
    assert present[0, :, :2].tolist() == [[1, 0]] * 4
    assert match.tick.roles["cat"].observation["cheeses_present"][0, 0, :2].tolist() == [0, 0]
    match.agent(4, 30, 22).look()
    assert present[0, :, :2].tolist() == [[1, 1]] * 4
    match.agent(4, 18, 8).things([Thing.CHEESES.start + 1], 50, 20).look()
    assert shown(match, "mouse", "cheeses", "dx")[1] == pytest.approx((30 - 6) / 72, abs=1e-4)


def test_moved_things_become_unknown(scene):
    """As soon as an agent of the team is in the room."""
    match = scene().things([Thing.CHEESES.start], 10, 10).look().things([Thing.CHEESES.start], 70, 20).look()
    assert match.tick.roles["mouse"].observation["cheeses_present"][0, 0, 0] == 0


def test_opponents_are_remembered(scene):
    """Position and age of the last sighting, in units of 30 s."""
    match = scene().agent(0, 12, 8).look()
    assert shown(match, "mouse", "cat", "visible") == [1]
    assert shown(match, "cat", "mice", "visible") == [1] * 4
    match.agent(0, 60, 40).look()
    match.step(times=14)
    assert shown(match, "mouse", "cat", "visible") == [0]
    assert shown(match, "mouse", "cat", "age") == [pytest.approx(0.1)]
    assert shown(match, "mouse", "cat", "dx") == [pytest.approx(6 / 72, abs=1e-4)]
    assert match.tick.roles["cat"].observation["mice_present"].tolist() == [[[1] * 4]]


def test_teammates_are_always_known(scene):
    """The three teammates in order, until they are out of the game."""
    match = scene().agent(3, 60, 10, status=Status.DOWN, clock=75).agent(4, 60, 10, status=Status.ELIMINATED).look()
    seen = match.tick.roles["mouse"].observation
    assert seen["teammates_present"][0, 0].tolist() == [1, 1, 0]
    assert shown(match, "mouse", "teammates", "is-down") == [0, 1, 0]
    assert shown(match, "mouse", "teammates", "clock") == [0, 0.5, 0]
    assert shown(match, "mouse", "teammates", "dx") == [pytest.approx(4 / 72, abs=1e-4), pytest.approx(0.75), 0]
    assert shown(match, "mouse", "teammates", "dx", seat=1)[0] == pytest.approx(-4 / 72, abs=1e-4)


def test_all_agents_know_the_state_of_the_match(scene):
    """Stage, time, cheeses, mice."""
    match = scene(scenario={"pushed": 2, "eliminated": 1}).step(times=75)
    for role in ("cat", "mouse"):
        names = ("pushing", "breaking", "time-left", "cheeses-pushed", "cheeses-left", "eliminated", "mice-left")
        values = [shown(match, role, "global", name) for name in names]
        assert values == pytest.approx([1, 0, 0.9, 0.4, 0.6, 0.25, 0.75])


def test_agents_remember_actions_and_positions(scene):
    """The last action, and the movement within 5 and 10 ticks."""
    match = scene().step(m1="east", times=7)
    assert shown(match, "mouse", "memory", "last-east") == 1
    assert shown(match, "mouse", "memory", "moved-x-5") == pytest.approx(5 / 72, abs=1e-4)
    match.step(m1="south")
    assert shown(match, "mouse", "memory", "moved-y-5") == pytest.approx(1 / 72, abs=1e-4)
    assert [shown(match, "mouse", "memory", f"last-{name}") for name in ("east", "south")] == [0, 1]


def test_doors_are_visible(scene):
    """All doors of the house, and those of the agent's room by side."""
    match = scene()
    house, seen = match.environment._house, match.tick.roles["mouse"].observation
    assert np.array_equal(seen["doors_present"][0, 0] > 0, house.open[0, :-1])
    own = [shown(match, "mouse", "self", f"door-{side}-open") for side in ("west", "north")]
    assert own == [0, 0]
    sides = match.environment._plan.sides[:4]
    assert shown(match, "mouse", "self", "door-east-open") == house.open[0, sides[0]]


def test_privileged_leaves_hold_the_true_state(scene):
    """Positions of all agents, visible or not."""
    match = scene().agent(2, 36, 24, status=Status.DOWN).look()
    for role in ("cat", "mouse"):
        agents = match.tick.roles[role].privileged["all_agents"][0].reshape(-1, 5, 16)
        assert agents[:, 2, :2] == pytest.approx(np.array([[36 / 72, 24 / 72]] * len(agents)))
        assert (agents[:, 2, 9] == 1).all()
        things = match.tick.roles[role].privileged["all_things"][0].reshape(-1, 33, 4)
        assert things[:, Thing.CRACK, 2].max() == 0


def test_the_mini_image_shows_what_the_team_knows(scene):
    """72 by 48 cells, 8 channels; the own cell is brightest, remembered things are dim."""
    match = scene(mini_image=True).things([Thing.CHEESES.start], 10, 10).things([Thing.HOLES.start], 12, 10)
    match.agent(0, 15, 12).look()
    image = match.tick.roles["mouse"].observation["image"][0]
    assert image.shape == (4, 72, 48, 8)
    assert image[0, 24, :, 0].min() > 0
    assert image[0, 23, 5, 0] == 0
    assert (image[0, 10, 10, 1], image[0, 12, 10, 2], image[0, 15, 12, 6]) == (255, 255, 255)
    assert image[:, 6, 8, 7].tolist() == [255, 128, 128, 128]
    assert image[:, 10, 8, 7].tolist() == [128, 255, 128, 128]
    seen_by_cat = match.tick.roles["cat"].observation["image"][0, 0]
    assert (seen_by_cat[6, 8, 7], seen_by_cat[15, 12, 6]) == (255, 255)
    match.agent(0, 60, 40).agent(1, 7, 9).look()
    assert (image[0, 15, 12, 6], image[0, 6, 8, 7], image[0, 7, 9, 7]) == (128, 0, 255)


# -- rewards -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fade", [True, False])
def test_guidance_of_the_mice_fades_as_in_the_paper(fade):
    """[AET table 6]: the distances and lifting a cheese; guidance of the cat is given once, and does not fade."""
    spec = Chase(ChaseConfig(fade_guidance=fade), num_matches=1).spec
    mouse = (*(f"near_{kind}_fading" for kind in ("cheese", "rocket", "hole", "crack")), "lift_cheese")
    assert spec.role("mouse").guidance == (mouse if fade else ())
    assert spec.role("cat").guidance == ()


def test_the_parts_are_those_of_the_tables():
    """12 parts of the cat, 17 of the mice, and the 4 fading halves."""
    environment = Chase(ChaseConfig(), num_matches=1)
    roles = environment.reset(np.zeros(1, np.uint64)).roles
    assert list(roles["cat"].reward_parts) == list(CAT_PARTS)
    assert list(roles["mouse"].reward_parts) == list(MOUSE_PARTS)
    for kind, now, later in (("cheese", 5, 1), ("rocket", 3, 1), ("hole", 5, 1), ("crack", 5, 1)):
        whole = MOUSE_PARTS[f"near_{kind}"] + MOUSE_PARTS[f"near_{kind}_fading"]
        assert whole == pytest.approx(MOUSE_PARTS[f"near_{kind}"] * now / later)


def test_approaching_cheese_is_rewarded(scene):
    """0.001 and 0.004 per cell towards the nearest known cheese; moving away costs as much."""
    match = scene().things([Thing.CHEESES.start], 16, 8).look().step(m1="east")
    assert match.part("mouse", "near_cheese")[0] == 0.001
    assert match.part("mouse", "near_cheese_fading")[0] == 0.004
    match.step(m1="west")
    assert match.part("mouse", "near_cheese")[0] == -0.001
    match.agent(1, 6, 8, hold=1).things([Thing.HOLES.start], 6, 12)
    match.world.cheese[0, 1] = 1
    match.look().step(m1="south")
    assert match.part("mouse", "near_cheese")[0] == 0
    assert match.part("mouse", "near_hole")[0] == pytest.approx(0.0007)


def test_approaching_a_tied_teammate_is_rewarded(scene):
    """0.01 and 0.02 per cell."""
    match = scene().agent(4, 12, 14, status=Status.TIED, rocket=0, clock=99).agent(1, 12, 8).look().step(m1="south")
    assert match.part("mouse", "near_rocket") == [0.01, 0, 0, 0]
    assert match.part("mouse", "near_rocket_fading") == [0.02, 0, 0, 0]


def test_the_cat_finds_rockets_and_holes_once(scene):
    """0.05 for the first of each in a match."""
    match = scene().things([Thing.ROCKETS.start, Thing.HOLES.start], 62, 40).look().step()
    assert (match.part("cat", "find_rocket"), match.part("cat", "find_hole")) == ([0.05], [0.05])
    match.things([Thing.ROCKETS.start + 1], 64, 40).step()
    assert (match.part("cat", "find_rocket"), match.part("cat", "find_hole")) == ([0], [0])


def test_parts_sum_to_the_reward(play):
    """For all seats, on all ticks."""
    environment = Chase(ChaseConfig(hit_reach=6.0), num_matches=16)
    total = 0.0
    for tick in play(environment, seed=5, steps=200):
        for role in tick.roles.values():
            assert np.allclose(sum(role.reward_parts.values()), role.reward, atol=1e-6)
            total += np.abs(role.reward).sum()
    assert total > 1.0


# -- scenarios -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_scenarios_change_only_their_parameters(name):
    """All other parameters keep their defaults."""
    environment = Chase(ChaseConfig(), num_matches=1)
    environment.reset(np.zeros(1, np.uint64), scenarios=[Scenario(name=name)])
    values = dict(zip(PARAMETERS, environment._world.handicap[0].tolist(), strict=True))
    expected = {parameter: default for parameter, (default, _, _) in PARAMETERS.items()} | SCENARIOS[name]
    assert values == {parameter: pytest.approx(value) for parameter, value in expected.items()}


def test_start_states_of_scenarios(scene):
    """Pushed cheeses, wounded and eliminated mice, and the crack known to all."""
    match = scene(tidy=False, scenario={"pushed": 3, "health": 0.5, "mice": 3, "eliminated": 1, "mouse_level": 4})
    world = match.world
    assert (world.cheese[0] == Cheese.PUSHED).sum() == 3
    assert world.health[0].tolist() == [100, 50, 50, 50, 50]
    assert world.status[0].tolist() == [0, 0, 0, Status.ELIMINATED, 6]
    assert world.level[0].tolist() == [1, 4, 4, 4, 4]
    assert scene(tidy=False, scenario={"pushed": 5}).world.present[0, Thing.CRACK]


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        (Scenario(name="rain"), "unknown scenario 'rain'"),
        (Scenario(parameters={"mice": 3}), "scenario default takes no parameters; got 'mice'"),
        (Scenario(name="mice", parameters={"time": 1}), "scenario mice takes the parameters mice; got 'time'"),
        (Scenario(name="mice", parameters={"mice": 2.5}), "a whole number from 2 to 4 for mice, got 2.5"),
        (Scenario(name="hit-power", parameters={"hit_power": 11}), "a number from 0 to 10 for hit_power, got 11"),
        (Scenario(name="custom", parameters={"mice": 3, "eliminated": 2}), "fewer than two mice are left"),
    ],
)
def test_invalid_scenarios_raise(scenario, message):
    """The message names what was expected."""
    environment = Chase(ChaseConfig(), num_matches=1)
    with pytest.raises(ContractError, match=re.escape(message)):
        environment.reset(np.zeros(1, np.uint64), scenarios=[scenario])


def test_one_scenario_per_match_is_expected():
    """A wrong number of scenarios raises."""
    with pytest.raises(ContractError, match="one scenario for each of 2 matches, got 1"):
        Chase(ChaseConfig(), num_matches=2).reset(np.zeros(2, np.uint64), scenarios=[Scenario()])


def test_every_parameter_has_a_column():
    """In `World.handicap`."""
    assert sorted(COLUMN.values()) == list(range(16))


# -- text ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("role", "names"), [("cat", CAT_ACTIONS), ("mouse", MOUSE_ACTIONS)])
def test_actions_have_names(role, names):
    """Names are parsed, with a direction for aimed actions."""
    assert len(set(names)) == 18
    for action in range(18):
        for direction in (0, 5, 15):
            assert parse_action(role, action_name(role, np.array([action, direction]))) == (action, direction)
    assert parse_action(role, " Ab:NW ") == (17, 10)


@pytest.mark.parametrize("text", ["", "fly", "s", "use:up", "\x00"])
def test_unknown_texts_raise(text):
    """The message lists the candidates."""
    with pytest.raises(ValueError, match="expected"):
        parse_action("mouse", text)


def test_illegal_actions_raise(scene):
    """The message names the action and the legal ones."""
    match = scene()
    actions = {"cat": np.zeros((1, 1, 2), np.int64), "mouse": np.zeros((1, 4, 2), np.int64)}
    actions["mouse"][0, 2] = 9, 0
    with pytest.raises(
        ContractError, match=r"seat 2 of role 'mouse' in match 0 chose \[9, 0\]; expected one of 0 \(stay"
    ):
        match.environment.step(actions)
    actions["mouse"][0, 2] = 0, 16
    with pytest.raises(ContractError, match="a direction from 0 to 15"):
        match.environment.step(actions)


def test_a_match_is_drawn_as_a_scene(scene):
    """Agents, things and walls are where the world has them; doors are gaps."""
    match = scene().things([Thing.CHEESES.start], 10, 11).agent(1, 6, 8, health=25).look()
    picture, game = match.environment.render_frame(0), match.environment._game
    assert (picture.width, picture.height, picture.caption) == (72, 48, "pushing, 150.0 s left, cheese 0/5")
    colors = {(shape.x, shape.y): shape.color for shape in picture.shapes if isinstance(shape, Circle)}
    assert (colors[10, 11], colors[6, 8]) == ("#f0c000", "#6fb7e9")
    named = {shape.text: (shape.x, shape.y) for shape in picture.shapes if isinstance(shape, Label)}
    assert named["C"] == (game.world.x[0, 0], game.world.y[0, 0])
    bars = [shape for shape in picture.shapes if isinstance(shape, Box) and shape.x == pytest.approx(6 - 1.3)]
    assert bars[1].width / bars[0].width == pytest.approx(0.25)
    door = next(wall for wall in range(game.plan.walls) if game.house.open[0, wall] and game.plan.vertical[wall])
    x, y = float(game.house.door_x[0, door]), float(game.house.door_y[0, door])
    walls = [shape for shape in picture.shapes if isinstance(shape, Line) and shape.x1 == shape.x2 == x]
    assert not any(wall.y1 < y < wall.y2 for wall in walls)
    assert sum(y in (wall.y1 - 2, wall.y2 + 2) for wall in walls) == 2


def test_a_match_is_rendered(scene):
    """Rooms, doors, things, agents, and a line about each agent."""
    match = (
        scene().things([Thing.CHEESES.start], 10, 10).things([Thing.HOLES.start], 12, 10).agent(1, 6, 8, hold=1).look()
    )
    drawn = re.sub(r"\x1b\[[\d;]*m", "", match.environment.render(0)).splitlines()
    assert isinstance(match.environment, Playable)
    assert drawn[0] == "pushing, 150.0 s left, cheese 0/5"
    assert (len(drawn), len(drawn[1])) == (1 + 26 + 5, 74)
    assert (drawn[2 + 4][1 + 6], drawn[2 + 5][1 + 10], drawn[2 + 5][1 + 12], drawn[2 + 20][1 + 60]) == (
        "1",
        "▲",
        "o",
        "C",
    )
    assert drawn[2][1 + 24] == "│"
    assert drawn[-4].split() == ["mouse", "1", "100", "level", "1", "free", "cheese"]
