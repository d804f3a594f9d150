"""The interfaces of Arena, on states of the protocol that are made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role
from ludus.errors import ContractError
from ludus.interface import SeatView, Spaces, stack
from ludus.spaces import label_sizes, leaf_spaces
from ludus.testing import check_interface
from ludus_sc2 import actions, observations
from ludus_sc2.agents import RulesAgent
from ludus_sc2.config import DataConfig, LearnerConfig
from ludus_sc2.layout import (
    ATTACK_AREA,
    ATTACK_NEAREST,
    COLUMN,
    DEFEND,
    GAS_FIRST,
    LABEL_SIZES,
    MINERAL_FIRST,
    NONE,
    RALLY_RIVAL,
    RULES,
    ZONE_ATTACK,
    action_space,
    observation_space,
)
from ludus_sc2.names import BUILDINGS, ITEMS, KIND, KINDS, PRODUCTION, PROGRESS, TECHNOLOGIES

RAW = Spaces(observation_space(60), action_space())
SEATS = np.array([0])


def observe(interface, leaves, mask=None):
    """Return the view of an interface that is bound to the environment."""
    interface.bind(RAW)
    view = SeatView(observation=leaves, action_mask=mask, reward=np.zeros(len(leaves["own"]), np.float32))
    return interface.observe(view, SEATS)


def mask(*illegal):
    """Return a mask in which all choices are legal but some, given as label and choice."""
    legal = np.ones((1, sum(LABEL_SIZES)), bool)
    for label, choice in illegal:
        legal[0, sum(LABEL_SIZES[:label]) + choice] = False
    return legal


@pytest.mark.parametrize(
    "make",
    [
        lambda: observations.make_learner(LearnerConfig(cells=8)),
        lambda: observations.make_area(None),
        lambda: observations.make_tech(None),
        lambda: observations.make_unit_progress(None),
        lambda: actions.make_flat(None),
        lambda: actions.make_data(DataConfig(rules=("combat",))),
        lambda: actions.make_production(None),
        lambda: actions.make_resource(None),
        lambda: actions.make_combat(None),
        lambda: stack(actions.make_data(DataConfig(rules=("resource",))), actions.make_production(None)),
    ],
)
def test_interfaces_keep_the_contract(make):
    """On random views of the game's spaces; the game's masks, unlike random ones, always allow some choices."""
    check_interface(make, Spaces(observation_space(4, 4), action_space()), masked=False)


def test_leaves_of_the_environment(state):
    """Positions are shares of the playable area from the own corner; amounts and numbers are those of the game."""
    state.minerals(12.5, 12.5)
    state.unit("Hatchery", 12.5, 12.5, assigned_harvesters=9, ideal_harvesters=16)
    state.unit("Queen", 18, 32, energy=50, health=175, health_max=175)
    state.unit("Marine", 60, 4, side="enemy", is_flying=False)
    state.player(minerals=120, vespene=40, food_cap=14, food_used=13)
    state.raw.score.score = 500
    state.raw.score.score_details.killed_value_units = 75
    leaves = {name: leaf[0] for name, leaf in state.leaves(time=0.25).items()}
    hatchery, queen = leaves["own"][:2]
    assert leaves["own_present"].sum() == 2
    assert (hatchery[COLUMN["kind"]], queen[COLUMN["kind"]]) == (KIND["hatchery"], KIND["queen"])
    assert (queen[COLUMN["x"]], queen[COLUMN["y"]]) == (0.25, 0.5)
    assert (queen[COLUMN["energy"]], queen[COLUMN["health"]], queen[COLUMN["idle"]]) == (0.25, 1.0, 1.0)
    assert (hatchery[COLUMN["assigned"]], hatchery[COLUMN["ideal"]], hatchery[COLUMN["structure"]]) == (9, 16, 1)
    marine = leaves["enemy"][0]
    assert (marine[COLUMN["kind"]], marine[COLUMN["army"]]) == (KIND["other"], 1)
    assert (marine[COLUMN["x"]], marine[COLUMN["y"]]) == (1, 0)
    assert leaves["resources_present"].sum() == 10
    assert leaves["resources"][:10, 3].sum() == 2
    assert leaves["areas_present"].sum() == 1
    assert leaves["player"][:4].tolist() == [120, 40, 14, 13]
    assert leaves["score"][[0, 5]].tolist() == [500, 75]
    assert leaves["time"].tolist() == [0.25]


def test_both_corners_look_the_same(make_state):
    """A state that is turned by half a turn has the same leaves."""
    seen = []
    for flipped in (False, True):
        state = make_state(flipped=flipped)

        def at(value, flipped=flipped):
            return 64 - value if flipped else value

        state.minerals(at(12.5), at(12.5))
        state.minerals(at(12.5), at(51.5))
        state.unit("Hatchery", at(12.5), at(12.5))
        state.unit("Roach", at(20), at(30))
        state.unit("Zergling", at(50), at(40), side="enemy")
        seen.append(state.leaves())
    for name in ("own", "enemy", "areas", "resources"):
        np.testing.assert_allclose(seen[0][name], seen[1][name], atol=1e-5)


def test_units_beyond_the_limit_are_cut(state):
    """Buildings and fighting units come first."""
    for _ in range(70):
        state.unit("Drone", 12, 12)
    state.unit("Hatchery", 12, 12)
    state.unit("Roach", 12, 12)
    leaves = state.leaves()
    assert leaves["own_present"].sum() == 60
    assert leaves["own"][0, :2, 0].tolist() == [KIND["hatchery"], KIND["roach"]]


def test_learner_image_counts_units_by_cell_and_group(state):
    """Two zerglings in a cell are log(3); banelings share their channel; the enemy has channels of its own."""
    state.unit("Zergling", 5, 5)
    state.unit("Zergling", 6, 6)
    state.unit("Drone", 59, 5)
    state.unit("Baneling", 59, 59, side="enemy")
    view = observe(observations.make_learner(LearnerConfig(cells=4)), state.leaves())
    image = view.observation["learner_image"]
    assert image.shape == (1, 4, 4, 28)
    group = next(index for index, names in enumerate(observations.GROUPS) if "zergling" in names)
    expected = np.zeros((4, 4, 28), np.float32)
    expected[0, 0, group] = np.log(3)
    expected[0, 3, 0] = np.log(2)
    expected[3, 3, 14 + group] = np.log(2)
    np.testing.assert_allclose(image[0], expected, rtol=1e-6)


def test_learner_vector(state):
    """Statistics, counts, numbers of the player, time, workers and scores, in this order."""
    state.unit("Hatchery", 12, 12, assigned_harvesters=5, ideal_harvesters=16)
    state.unit("Extractor", 16, 12, assigned_harvesters=2, ideal_harvesters=3)
    state.unit("Drone", 12, 12)
    state.unit("Drone", 12, 12, order=3666)
    state.unit("Overlord", 12, 12, is_flying=True)
    state.unit("Roach", 12, 12)
    state.unit("ZerglingBurrowed", 40, 40, side="enemy")
    state.player(minerals=99)
    state.raw.score.score = 9
    view = observe(observations.make_learner(LearnerConfig(cells=4)), state.leaves(time=0.51))
    vector = view.observation["learner_vector"][0]
    assert vector.shape == (129,)
    counts = np.expm1(vector)
    assert counts[:8].round(3).tolist() == [6, 1, 5, 1, 1, 1, 1, 0]
    own = dict(zip(KINDS, counts[8:46].round(3).tolist(), strict=True))
    assert {name: number for name, number in own.items() if number} == {
        "hatchery": 1,
        "extractor": 1,
        "drone": 2,
        "overlord": 1,
        "roach": 1,
    }
    enemy = dict(zip(KINDS, counts[46:84].round(3).tolist(), strict=True))
    assert {name: number for name, number in enemy.items() if number} == {"zergling": 1}
    assert counts[84] == pytest.approx(99)
    assert np.flatnonzero(vector[93:113]).tolist() == [10]
    assert counts[113:116].round(3).tolist() == [5, 2, 1]
    assert counts[116] == pytest.approx(9)


def test_area_vector(state):
    """What is near the own start is in area 0, what is near the other one in area 1."""
    state.minerals(12.5, 12.5)
    tags = state.minerals(12.5, 51.5)
    state.unit("Hatchery", 12.5, 12.5, health=750, health_max=1500, assigned_harvesters=10, ideal_harvesters=16)
    state.unit("Extractor", 9, 17, assigned_harvesters=1, ideal_harvesters=3)
    state.unit("Drone", 13, 12)
    state.unit("Zergling", 14, 50, side="enemy")
    for unit in state.raw.raw_data.units:
        if unit.tag == tags[1]:
            unit.mineral_contents = 900
        if unit.tag == tags[0]:
            unit.vespene_contents = 2000
    view = observe(observations.make_area(None), state.leaves())
    vector = view.observation["area"]
    assert vector.shape == (1, 16 * 82)
    first, second = vector[0].reshape(16, 82)[:2]
    assert {KINDS[i] for i in np.flatnonzero(first[:38])} == {"hatchery", "extractor", "drone"}
    assert not first[38:76].any()
    assert first[76] == 0.5
    assert np.expm1(first[77:80]).round(3).tolist() == [6, 2, 1]
    assert {KINDS[i] for i in np.flatnonzero(second[38:76])} == {"zergling"}
    assert np.expm1(second[80:]).round(1).tolist() == [900, 2000]
    assert not vector[0].reshape(16, 82)[2:].any()


def test_tech_vector(state):
    """Researched technologies are 1."""
    state.research("zerglingmovementspeed", "ZergMissileWeaponsLevel1")
    view = observe(observations.make_tech(None), state.leaves())
    tech = view.observation["tech"]
    assert tech.shape == (1, 27)
    assert {TECHNOLOGIES[i].name for i in np.flatnonzero(tech[0])} == {"zergling-speed", "missile-weapons-1"}


def test_unit_progress_vector(state):
    """Buildings under construction, buildings that become others, and technologies; levels share an ability."""
    state.unit("SpawningPool", 16, 12, build_progress=0.25)
    state.unit("Hatchery", 12, 12, order="Lair", order_progress=0.5)
    state.research("ZergMissileWeaponsLevel1")
    state.unit("EvolutionChamber", 12, 18, order=6900, order_progress=0.75)
    state.unit("RoachWarren", 18, 12)
    view = observe(observations.make_unit_progress(None), state.leaves())
    vector = view.observation["unit_prog"]
    assert vector.shape == (1, 88)
    progress = {name: float(vector[0, 44 + i]) for i, name in enumerate(PROGRESS) if vector[0, i]}
    assert progress == {"spawning-pool": 0.25, "lair": 0.5, "missile-weapons-2": 0.75}


def test_what_has_just_begun_is_in_progress(state):
    """Its flag is set although its progress is 0."""
    state.unit("Hatchery", 12, 12, order="Lair", order_progress=0.0)
    view = observe(observations.make_unit_progress(None), state.leaves())
    assert view.observation["unit_prog"][0, PROGRESS.index("lair")] == 1


@pytest.mark.parametrize("make", [observations.make_area, observations.make_tech, observations.make_unit_progress])
def test_observations_of_other_games_are_refused(make):
    """The message names the interface and the first leaf that is missing."""
    with pytest.raises(ContractError, match=r"zerg-\S+: expected the leaf 'areas' of the environment 'sc2', got obs; "):
        make(None).bind(Spaces(spaces.Box(0, 1, (3,)), action_space()))


def test_flat_actions_are_165():
    """13 buildings, 22 units, 27 technologies, 3 strategies of harvesting, and attacks between 10 zones."""
    assert (len(BUILDINGS), len(PRODUCTION), len(TECHNOLOGIES)) == (13, 22, 27)
    bound = actions.make_flat(None).bind(RAW)
    assert bound.action == spaces.Discrete(165)


@pytest.mark.parametrize(
    ("flat", "raw"),
    [
        (0, [2, NONE, NONE]),
        (61, [63, NONE, NONE]),
        (62, [NONE, MINERAL_FIRST, NONE]),
        (63, [NONE, GAS_FIRST, NONE]),
        (64, [NONE, NONE, NONE]),
        (65, [NONE, NONE, ZONE_ATTACK]),
        (164, [NONE, NONE, ZONE_ATTACK + 99]),
    ],
)
def test_flat_actions_set_one_label(flat, raw):
    """The other managers do nothing new."""
    interface = actions.make_flat(None)
    interface.bind(RAW)
    assert interface.act(np.array([[flat]]), SEATS).tolist() == [raw]


def test_mask_of_flat_actions(state):
    """It holds what is legal of each label."""
    view = observe(actions.make_flat(None), state.leaves(), mask((0, 2 + 3), (2, ZONE_ATTACK + 7)))
    assert view.action_mask.shape == (1, 165)
    assert np.flatnonzero(~view.action_mask[0]).tolist() == [3, 65 + 7]


def test_managers_of_rules_have_no_label(state):
    """Their label is always the choice of the rules."""
    interface = actions.make_data(DataConfig(rules=("production", "combat")))
    assert interface.bind(RAW).action == spaces.MultiDiscrete([4])
    assert interface.act(np.array([[3]]), SEATS).tolist() == [[RULES, 3, RULES]]
    assert observe(interface, state.leaves(), mask((1, 2))).action_mask.tolist() == [[True, True, False, True]]


def test_all_three_managers():
    """The interfaces of the paper on top of each other."""
    interface = stack(
        actions.make_data(DataConfig()),
        actions.make_production(None),
        actions.make_resource(None),
        actions.make_combat(None),
    )
    assert interface.bind(RAW).action == spaces.MultiDiscrete([63, 3, 20])
    item = 1 + [item.name for item in ITEMS].index("roach")
    assert interface.act(np.array([[0, 2, 16], [item, 0, 3]]), np.array([0, 1])).tolist() == [
        [NONE, NONE, ATTACK_NEAREST],
        [1 + item, GAS_FIRST, ATTACK_AREA + 3],
    ]
    assert interface.act(np.array([[0, 1, 17], [0, 1, 19]]), np.array([0, 1]))[:, 2].tolist() == [DEFEND, RALLY_RIVAL]


def test_one_manager_with_a_mask(state):
    """The mask is that of the offered choices."""
    interface = stack(actions.make_data(DataConfig(rules=("resource", "production"))), actions.make_combat(None))
    assert label_sizes(interface.bind(RAW).action) == (20,)
    view = observe(interface, state.leaves(), mask((2, ATTACK_AREA + 5)))
    assert np.flatnonzero(~view.action_mask[0]).tolist() == [5]
    assert interface.act(np.array([[4]]), SEATS).tolist() == [[RULES, RULES, ATTACK_AREA + 4]]


def test_a_label_that_rules_play_has_no_interface():
    """The message names it."""
    left = actions.make_data(DataConfig(rules=("combat",))).bind(RAW)
    with pytest.raises(ContractError, match=r"zerg-combat-act: expected a label 'combat' of 122 choices, .* to rules$"):
        actions.make_combat(None).bind(left)


@pytest.mark.parametrize("rules", [("all",), ("combat", "combat"), "combat", ("production", "resource", "combat")])
def test_wrong_names_of_managers_are_refused(rules):
    """All of them leave nothing to decide."""
    with pytest.raises(ValueError, match="rules: expected a list of some, not all, of production, resource, combat"):
        DataConfig(rules=rules)


def test_interfaces_work_together(state):
    """All observations and managers of the paper, in one list."""
    interface = stack(
        observations.make_learner(LearnerConfig(cells=8)),
        observations.make_area(None),
        observations.make_tech(None),
        observations.make_unit_progress(None),
        actions.make_flat(None),
    )
    bound = interface.bind(RAW)
    added = {name: leaf.shape for name, leaf in leaf_spaces(bound.observation).items() if name not in state.leaves()}
    assert added == {
        "learner_image": (8, 8, 28),
        "learner_vector": (129,),
        "area": (1312,),
        "tech": (27,),
        "unit_prog": (88,),
    }


def test_the_agent_leaves_all_to_rules():
    """It refuses other actions."""
    role = Role(name="player", observation_space=RAW.observation, action_space=RAW.action, teams=(0, 1))
    spec = EnvironmentSpec(name="sc2", roles=(role,), turn="simultaneous")
    agent = RulesAgent(None, spec=spec, role="player")
    chosen = agent.act({}, action_mask=None, seat_ids=np.arange(2), rng=np.random.default_rng(0))
    assert chosen.tolist() == [[RULES] * 3] * 2
    other = Role(name="player", observation_space=RAW.observation, action_space=spaces.Discrete(3), teams=(0, 1))
    with pytest.raises(ContractError, match="sc2-rules: expected the actions of the environment 'sc2', got Discrete"):
        RulesAgent(None, spec=EnvironmentSpec(name="sc2", roles=(other,), turn="simultaneous"), role="player")
