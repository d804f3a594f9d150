"""Random boards, scenarios, names of actions, rendering, and what bad input reports."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.environment import Scenario
from ludus.errors import ContractError
from ludus_pommerman.boards import UNREACHABLE, _unreachable, draw_boards
from ludus_pommerman.config import PommermanConfig
from ludus_pommerman.environment import Pommerman
from ludus_pommerman.rules import starts
from ludus_pommerman.scenario import SCENARIOS

SEEDS = np.arange(200, dtype=np.uint64)


def start(name="default", *, variant="ffa", matches=1, parameters=None, **options):
    """Return the world of new matches."""
    environment = Pommerman(PommermanConfig(variant=variant, **options), num_matches=matches)
    scenario = Scenario(name=name, parameters=parameters or {})
    environment.reset(SEEDS[:matches], scenarios=[scenario] * matches)
    return environment._world


def boards_of(world):
    """Return the boards without borders."""
    size = int(world.board.shape[1] ** 0.5)
    return world.board.reshape(-1, size, size)[:, 1:-1, 1:-1]


@pytest.mark.parametrize(("variant", "counts"), [("ffa", (36, 36, 20)), ("one-vs-one", (16, 16, 10))])
def test_boards_have_the_numbers_of_the_variant(variant, counts):
    """Rigid walls, wood, and items under wood, of all kinds."""
    world = start(variant=variant, matches=100)
    boards = boards_of(world)
    for code, count in zip((1, 2), counts, strict=False):
        assert ((boards == code).sum(axis=(1, 2)) == count).all()
    assert ((world.hidden > 0).sum(axis=1) == counts[2]).all()
    assert (world.board[world.hidden > 0] == 2).all()
    kinds = np.bincount(world.hidden.ravel(), minlength=9)[6:]
    assert (abs(kinds / kinds.sum() - 1 / 3) < 0.05).all()


@pytest.mark.parametrize("variant", ["ffa", "one-vs-one"])
def test_boards_are_mirrored(variant):
    """Along the diagonal, which has no walls."""
    boards = boards_of(start(variant=variant, matches=100))
    assert (boards == boards.transpose(0, 2, 1)).all()
    assert (boards.diagonal(axis1=1, axis2=2) == 0).all()


def test_starts_are_free():
    """The two cells beside each start in both directions, with fixed wood between those of two corners."""
    boards = boards_of(start(matches=100))
    for line in (boards[:, 1], boards[:, 9], boards[:, :, 1], boards[:, :, 9]):
        assert (line[:, [1, 2, 3, 7, 8, 9]] == 0).all()
        assert (line[:, [4, 5, 6]] == 2).all()


def test_agents_start_in_their_corners():
    """Against the clock from the upper left one."""
    assert starts(11, 4) == ((1, 1), (9, 1), (9, 9), (1, 9))
    assert starts(8, 2) == ((1, 1), (6, 6))
    world = start()
    assert (world.ammo[0].tolist(), world.reach[0].tolist(), world.kick.any()) == ([1] * 4, [2] * 4, False)


def test_passages_can_be_reached():
    """All but four, through wood; one that walls enclose counts."""
    boards = draw_boards(SEEDS, np.tile([36, 36], (200, 1)), 11, 4, 0)
    assert (_unreachable(boards, starts(11, 4)) <= UNREACHABLE).all()
    enclosed = np.pad(np.zeros((1, 11, 11), np.uint8), ((0, 0), (1, 1), (1, 1)), constant_values=1)
    enclosed[0, [4, 6, 5, 5], [5, 5, 4, 6]] = 1
    assert _unreachable(enclosed, starts(11, 4)).tolist() == [1]


def test_seeds_draw_different_boards():
    """All of 100."""
    assert len(np.unique(start(matches=100).board, axis=0)) == 100


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("variant", ["team", "one-vs-one"])
def test_every_scenario_starts(name, variant):
    """With its defaults, agents on passages."""
    world = start(name, variant=variant)
    assert world.running.all()
    assert (world.board[0, world.position[0]] == 0).all()


def test_scenarios_change_the_board():
    """Numbers of walls and items, and how near to each other agents start."""
    world = start("custom", parameters={"rigid": 8, "wood": 20, "items": 5, "inset": 1})
    assert [(boards_of(world) == code).sum() for code in (1, 2)] == [8, 20]
    assert (world.hidden > 0).sum() == 5
    assert (world.position[0] // 13 - 1).tolist() == [2, 8, 8, 2]


def test_scenarios_equip_agents():
    """Ammunition, strength within the limit of the variant, kick."""
    world = start("equipped", variant="team", parameters={"strength": 9})
    assert (world.ammo[0].tolist(), world.reach[0].tolist(), world.kick.all()) == ([3] * 4, [4] * 4, True)


def test_seats_stand_still_for_some_steps():
    """Their actions count from then on."""
    environment = Pommerman(PommermanConfig(), num_matches=1)
    environment.reset(SEEDS[:1], scenarios=[Scenario(name="custom", parameters={"still_2": 2, "rigid": 0, "wood": 0})])
    rows = []
    for _ in range(3):
        environment.step({"player": np.full((1, 4, 1), 1)})
        rows.append((environment._world.position[0] // 13 - 1)[[1, 2]].tolist())
    assert rows == [[8, 9], [7, 9], [6, 8]]


def test_options_change_the_board():
    """Scenarios go before options."""
    assert (boards_of(start(rigid=10, wood=24, items=3)) == 1).sum() == 10
    assert (boards_of(start("little-wood", wood=30)) == 2).sum() == 12


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kick": 2}, "expected a whole number from 0 to 1 for kick, got 2"),
        ({"wood": 0.5}, "expected a whole number from -1 to 60 for wood, got 0.5"),
    ],
)
def test_bad_parameters_are_one_line(parameters, message):
    """The line names scenario, parameter and range."""
    with pytest.raises(ContractError, match=f"scenario custom: {message}"):
        start("custom", parameters=parameters)


@pytest.mark.parametrize(("variant", "action"), [("ffa", [6]), ("radio", [0, 8, 0])])
def test_actions_out_of_range_are_refused(variant, action):
    """No match advances."""
    environment = Pommerman(PommermanConfig(variant=variant), num_matches=1)
    environment.reset(SEEDS[:1])
    with pytest.raises(ContractError, match=r"seat 0 of role 'player' in match 0 chose .* an action from 0 to 5"):
        environment.step({"player": np.tile(np.array(action), (1, 4, 1))})
    assert environment._world.ticks[0] == 0


@pytest.mark.parametrize(
    ("variant", "text", "labels", "name"),
    [
        ("ffa", "stop", [0], "stop"),
        ("ffa", "b", [5], "bomb"),
        ("radio", "left:3,5", [3, 3, 5], "left:3,5"),
        ("radio", "up", [1, 0, 0], "up"),
    ],
)
def test_names_of_actions(variant, text, labels, name):
    """They can be typed and printed."""
    environment = Pommerman(PommermanConfig(variant=variant), num_matches=1)
    action = environment.parse_action("player", text)
    assert (action.tolist(), environment.action_name("player", action)) == (labels, name)


@pytest.mark.parametrize(
    ("variant", "text"), [("ffa", "jump"), ("ffa", ""), ("ffa", "up:1,2"), ("radio", "up:8,0"), ("radio", "up:1")]
)
def test_texts_that_are_no_actions(variant, text):
    """They are refused with what was expected."""
    with pytest.raises(ValueError, match="expected one of stop, up, down, left, right, bomb"):
        Pommerman(PommermanConfig(variant=variant), num_matches=1).parse_action("player", text)


def test_text_shows_the_board(match):
    """Agents, bombs with their steps, items."""
    text = match().agent(0, 5, 5).put("kick", (2, 2)).bomb(3, 3, life=5).step("bomb").environment.render(0)
    assert "0: 0 bombs of 2" in text
    assert "step 1" in text
    assert "0●" in text
    assert "●4" in text
    assert "+k" in text
    assert len(text.splitlines()) == 12


def test_the_scene_shows_the_board(match):
    """Labels of agents, bombs and items."""
    scene = match().put("kick", (2, 2)).put("rigid", (0, 0)).bomb(3, 3, life=5).step().environment.render_frame(0)
    labels = [shape.text for shape in scene.shapes if hasattr(shape, "text")]
    assert sorted(labels) == ["0", "1", "2", "3", "4", "K"]
    assert (scene.width, scene.height) == (11, 11)


def test_matches_do_not_depend_on_the_batch():
    """A match is the same alone and as one of many."""
    many, alone = (Pommerman(PommermanConfig(), num_matches=n) for n in (5, 1))
    scenarios = [Scenario(name="equipped")]
    many.reset(SEEDS[:5], scenarios=scenarios * 5)
    alone.reset(SEEDS[3:4], scenarios=scenarios)
    rng = np.random.default_rng(0)
    for _ in range(80):
        actions = rng.integers(0, 6, (5, 4, 1))
        tick, single = many.step({"player": actions}), alone.step({"player": actions[3:4]})
        for name, leaf in tick.roles["player"].observation.items():
            np.testing.assert_array_equal(leaf[3], single.roles["player"].observation[name][0], err_msg=name)
