"""The interfaces of Arena: shapes, hand-made states, and matches between players with different interfaces."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus.agent import RandomAgent
from ludus.errors import ContractError
from ludus.interface import SeatView, Spaces, bind_spec, stack, wrap_agent
from ludus.testing import check_interface
from ludus_skirmish.actions import choice_name
from ludus_skirmish.config import ActionMapConfig, SkirmishConfig
from ludus_skirmish.environment import Skirmish
from ludus_skirmish.plugin import ludus_register_interfaces

COMPONENTS = {component.name: component for component in ludus_register_interfaces()}
SHAPES = {
    "5i": ("img-5i-obs", (8, 8, 6), "img-act", 9, 64),
    "3i2z": ("img-3i2z-obs", (8, 8, 16), "img-act", 9, 64),
    "mab": ("img-mab-obs", (16, 16, 18), "img-mab-act", 10, 512),
}


def make(name, **options):
    """Return an interface by its name."""
    config = ActionMapConfig(**options) if name.endswith("-act") else None
    return COMPONENTS[name].load_factory()(config)


def raw_spaces(battle, seats="army"):
    """Return the spaces of the raw game."""
    (role,) = Skirmish(SkirmishConfig(battle=battle, seats=seats), num_matches=1).spec.roles
    return Spaces(role.observation_space, role.action_space)


def observe(match, interface, side=0):
    """Bind an interface and return what a side of a hand-made match sees."""
    (role,) = match.environment.spec.roles
    interface.bind(Spaces(role.observation_space, role.action_space))
    seen = match.seen
    leaves = {name: leaf[:, side] for name, leaf in seen.observation.items()}
    view = SeatView(observation=leaves, action_mask=seen.action_mask[:, side], reward=np.zeros(1, np.float32))
    return interface.observe(view, np.array([side]))


def grid_of(match, name, side=0):
    """Return the grid of a side."""
    return observe(match, make(name), side).observation["obs"][0]


# -- shapes and contracts


@pytest.mark.parametrize("battle", SHAPES)
def test_the_spaces_are_those_of_the_paper(battle):
    """Grids, and maps of 9, 9 and 10 actions; behind each other in one stack."""
    seen, shape, acts, choices, labels = SHAPES[battle]
    bound = stack(make(acts), make(seen)).bind(raw_spaces(battle))
    assert bound.observation.shape == shape
    assert bound.action.nvec.tolist() == [choices] * labels


@pytest.mark.parametrize("battle", SHAPES)
def test_units_have_the_same_actions(battle):
    """9, 9 and 10; their grid stands beside what they are."""
    seen, shape, acts, choices, _ = SHAPES[battle]
    bound = stack(make(acts), make(seen)).bind(raw_spaces(battle, "unit"))
    assert bound.action == spaces.Discrete(choices)
    assert {name: leaf.shape for name, leaf in bound.observation.spaces.items()} == {"grid": shape, "self": (18,)}


@pytest.mark.parametrize(("battle", "labels"), [("5i", 5), ("mab", 25)])
def test_armies_may_have_a_label_per_unit(battle, labels):
    """With the option `map` off."""
    _, _, acts, choices, _ = SHAPES[battle]
    bound = make(acts, map=False).bind(raw_spaces(battle))
    assert bound.action.nvec.tolist() == [choices] * labels


@pytest.mark.parametrize("seats", ["army", "unit"])
@pytest.mark.parametrize("name", COMPONENTS)
def test_interfaces_keep_their_contract(name, seats):
    """On armies and on units, with masks and without."""
    for masked in (True, False):
        check_interface(lambda: make(name), raw_spaces("3i2z", seats), masked=masked)


@pytest.mark.parametrize("name", COMPONENTS)
def test_other_games_are_refused(name):
    """The message names the interface and what was expected."""
    with pytest.raises(ContractError, match=f"{name}: expected the leaves own, enemy with 18 numbers"):
        make(name).bind(Spaces(spaces.Box(-1, 1, (4,)), spaces.Discrete(3)))


def test_other_actions_are_refused():
    """An action interface behind another one."""
    raw = raw_spaces("5i")
    with pytest.raises(ContractError, match="img-act: expected the actions of a unit or of an army of 5 units with 17"):
        make("img-act").bind(Spaces(raw.observation, spaces.MultiDiscrete([9] * 5)))


# -- grids of hand-made states


def test_the_grid_of_5i(field):
    """Health, shield and wait of both sides in their cells; a cell is two units long."""
    match = field([("walker", 3, 5)], [("walker", 13, 9)], battle="5i").put(0, health=110.0, wait=2)
    grid = grid_of(match, "img-5i-obs")
    assert grid[2, 1] == pytest.approx([1.1, 1.1, 0.4, 0, 0, 0])
    assert grid[4, 6] == pytest.approx([0, 0, 0, 2.2, 1.1, 0])
    assert np.count_nonzero(grid.any(axis=2)) == 2


def test_both_sides_see_the_grid_from_their_own_side(field):
    """The other seat sees the picture mirrored, with the sides exchanged."""
    match = field([("walker", 3, 5), ("walker", 7, 1)], [("walker", 13.5, 9)], battle="5i")
    one, other = grid_of(match, "img-5i-obs", 0), grid_of(match, "img-5i-obs", 1)
    np.testing.assert_allclose(other, one[:, ::-1][..., [3, 4, 5, 0, 1, 2]], atol=1e-6)


def test_units_in_a_cell_add_up(field):
    """Two walkers in one cell."""
    match = field([("walker", 2.5, 4.5), ("walker", 3.8, 5.8)], [("walker", 13, 9)], battle="5i")
    assert grid_of(match, "img-5i-obs")[2, 1, :2] == pytest.approx([4.4, 2.2])


def test_destroyed_units_are_not_drawn(field):
    """Nor are absent ones."""
    match = field([("walker", 3, 5), ("walker", 7, 1)], [("walker", 13, 9)], battle="5i").put(0, 1, health=0.0)
    assert not grid_of(match, "img-5i-obs")[0, 3].any()


def test_the_grid_of_3i2z(field):
    """Health, shield, wait and damage by kind and side."""
    match = field([("walker", 3, 5), ("blade", 5, 5)], [("blade", 13, 9)], battle="3i2z").put(1, wait=3)
    grid = grid_of(match, "img-3i2z-obs")
    assert grid[2, 1] == pytest.approx([2.2, 1.1, 0, 22 / 40, *[0] * 12])
    assert grid[2, 2] == pytest.approx([*[0] * 4, 1.3, 0.6, 0, 18 / 40, *[0] * 8])
    assert grid[4, 6] == pytest.approx([*[0] * 12, 1.3, 0.6, 1, 18 / 40])


def test_the_grid_of_the_mixed_battle(field):
    """Health by kind, then wait, reach, damage and air reach; a cell is one and a half units long."""
    match = field([("flyer", 2, 2), ("brute", 5, 2)], [("archer", 23, 20)]).put(0, wait=5)
    grid = grid_of(match, "img-mab-obs")
    assert grid[1, 1] == pytest.approx([1.1, 0, 0, 0, 0, 1, 0.3, 10 / 40, 0.3, *[0] * 9])
    assert grid[1, 3] == pytest.approx([0, 0, 1.5, 0, 0, 0, 0.35, 17 / 40, 0, *[0] * 9])
    assert grid[13, 15] == pytest.approx([*[0] * 9, 0, 0.85, 0, 0, 0, 0, 0.5, 13 / 40, 0.5])


def test_hidden_enemies_are_not_drawn(field):
    """With limited sight."""
    match = field([("flyer", 2, 2)], [("archer", 23, 20)], sight=5.0)
    assert not grid_of(match, "img-mab-obs")[..., 9:].any()


# -- actions of hand-made states


def act(match, interface, labels):
    """Let side 0 choose the given labels, choice 0 elsewhere, and return the names of the raw choices of its units."""
    mask = observe(match, interface).action_mask[0]
    count = 9 if interface.name == "img-act" else 10
    action = np.zeros((1, mask.size // count), np.int64)
    for label, choice in labels.items():
        assert mask.reshape(-1, count)[label, choice]
        action[0, label] = choice
    return [choice_name(n) for n in interface.act(action, np.array([0]))[0].tolist()]


def test_the_map_moves_the_units_in_a_cell(field):
    """Choice 0 is the first direction, choice 8 attacks the nearest enemy; absent units stop."""
    match = field([("walker", 3, 5), ("walker", 7, 1)], [("walker", 13, 9)], battle="5i")
    chosen = act(match, make("img-act"), {2 * 8 + 1: 8, 0 * 8 + 3: 6})
    assert chosen == ["attack", "move:n", "stop", "stop", "stop"]


def test_two_units_in_a_cell_follow_one_label(field):
    """Both do the same."""
    match = field([("walker", 2.5, 4.5), ("walker", 3.8, 5.8)], [("walker", 13, 9)], battle="5i")
    assert act(match, make("img-act"), {2 * 8 + 1: 4})[:2] == ["move:w", "move:w"]


def test_cells_without_units_have_one_choice(field):
    """The first one, so they add nothing to probabilities."""
    match = field([("walker", 3, 5)], [("walker", 13, 9)], battle="5i")
    mask = observe(match, make("img-act")).action_mask.reshape(64, 9)
    assert mask[17].all()
    assert (mask.sum(axis=1) == np.where(np.arange(64) == 17, 9, 1)).all()


def test_labels_per_unit(field):
    """Without a map; a unit without targets cannot attack."""
    match = field([("archer", 12, 12), ("brute", 12, 14)], [("flyer", 15, 12)])
    interface = make("img-mab-act", map=False)
    mask = observe(match, interface).action_mask.reshape(25, 10)
    assert mask[:3].sum(axis=1).tolist() == [10, 8, 1]
    assert act(match, interface, {0: 8, 1: 2})[:3] == ["attack:ground", "move:s", "stop"]


def test_the_air_has_a_map_of_its_own(field):
    """A flyer and an archer in the same place follow different labels."""
    match = field([("flyer", 12.1, 12.1), ("archer", 12.2, 12.2)], [("brute", 15, 12)])
    cell = 8 * 16 + 8
    assert act(match, make("img-mab-act"), {cell: 9, 256 + cell: 4})[:2] == ["move:w", "attack:air"]


def test_an_illegal_choice_of_one_unit_in_a_cell(field):
    """The unit that cannot attack stops."""
    match = field([("archer", 12.1, 12.1), ("brute", 13.2, 12.1)], [("flyer", 15, 12)])
    assert act(match, make("img-mab-act"), {8 * 16 + 8: 8})[:2] == ["attack:ground", "stop"]


# -- one raw game


@pytest.mark.parametrize("battle", SHAPES)
def test_players_with_different_interfaces_meet(battle):
    """Grid and map against raw choices, in legal actions until matches end."""
    seen, _, acts, _, _ = SHAPES[battle]
    environment = Skirmish(SkirmishConfig(battle=battle, time_limit_s=30.0), num_matches=4)
    spec = environment.spec
    (role,) = spec.roles
    interface = stack(make(acts), make(seen))
    bound = RandomAgent(None, spec=bind_spec(spec, "army", interface), role="army")
    mapped = wrap_agent(bound, interface)
    raw = RandomAgent(None, spec=spec, role="army")
    rng, rows, ended = np.random.default_rng(0), np.arange(4), np.zeros(4, bool)
    tick = environment.reset(np.arange(4, dtype=np.uint64)).roles["army"]
    action = np.zeros((4, 2, len(role.action_space.nvec)), np.int64)
    for _ in range(120):
        for side, agent in enumerate((mapped, raw)):
            leaves = {name: leaf[:, side] for name, leaf in tick.observation.items()}
            mask = tick.action_mask[:, side]
            action[:, side] = agent.act(leaves, action_mask=mask, seat_ids=2 * rows + side, rng=rng)
        result = environment.step({"army": action})
        ended |= result.terminated
        tick = result.roles["army"]
    assert ended.all()
