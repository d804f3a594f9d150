"""The managers: what can be produced, and which commands decisions become, on states made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_sc2 import combat, harvest, production
from ludus_sc2.commands import ATTACK, GATHER, INJECT, Command
from ludus_sc2.layout import (
    ATTACK_AREA,
    ATTACK_NEAREST,
    DEFEND,
    GAS_FIRST,
    LABEL_SIZES,
    MINERAL_FIRST,
    NONE,
    RALLY_OWN,
    RALLY_RIVAL,
    RULES,
    ZONE_ATTACK,
)
from ludus_sc2.managers import Managers, write_mask
from ludus_sc2.names import ITEMS
from ludus_sc2.production import ITEM, ProductionManager
from s2clientprotocol import sc2api_pb2 as api


@pytest.fixture
def base(state):
    """Return a state with a base, minerals at two places, larvae, a drone and money for anything."""
    state.minerals(12.5, 12.5)
    state.minerals(12.5, 51.5)
    state.hatchery = state.unit("Hatchery", 12.5, 12.5, assigned_harvesters=8, ideal_harvesters=16)
    state.larva = state.unit("Larva", 12.5, 9)
    state.drone = state.unit("Drone", 14, 14)
    state.player(minerals=2000, vespene=2000, food_used=10, food_cap=30)
    return state


def available(state):
    """Return the names of the items that can be produced."""
    situation = state.situation()
    return {item.name for item in ITEMS if production.is_available(situation, item)}


def produce(state, name):
    """Return the only command that produces an item."""
    (command,) = ProductionManager().produce(state.situation(), ITEM[name])
    return command


def test_items_need_what_the_rules_require(base):
    """Without a pool there are few; a lair is needed for a den; this version of the game has no vipers."""
    first = {"drone", "overlord", "extractor", "hatchery", "spawning-pool", "evolution-chamber", "burrow"}
    assert available(base) == first
    base.unit("SpawningPool", 18, 12, build_progress=0.9)
    assert available(base) == first
    base.unit("SpawningPool", 18, 12)
    more = {"zergling", "queen", "lair", "roach-warren", "baneling-nest", "spine-crawler", "zergling-speed"}
    assert available(base) == first | more
    base.unit("Lair", 40, 40)
    assert {"hydralisk-den", "spire", "infestation-pit"} <= available(base)
    assert "viper" not in available(base)


@pytest.mark.parametrize(
    ("player", "lost"),
    [
        ({"minerals": 199}, "spawning-pool"),
        ({"minerals": 299}, "hatchery"),
        ({"minerals": 49}, "drone"),
        ({"vespene": 99}, "burrow"),
        ({"food_used": 30}, "drone"),
    ],
)
def test_items_must_be_affordable(base, player, lost):
    """The game's cost of a building includes the drone: a pool costs 200, a hatchery 300."""
    assert lost in available(base)
    base.player(**player)
    assert lost not in available(base)


def test_overlords_need_no_supply(base):
    """Otherwise a full player could produce nothing more."""
    base.player(food_used=31)
    assert "overlord" in available(base)


def test_a_pair_of_zerglings_costs_twice_as_much(base):
    """The game's cost is that of one."""
    base.unit("SpawningPool", 18, 12)
    base.player(minerals=49)
    assert "zergling" not in available(base)
    base.player(minerals=50)
    assert "zergling" in available(base)


def test_levels_follow_each_other(base):
    """The second level needs the first and a lair, and nothing is researched twice."""
    base.unit("EvolutionChamber", 18, 12)
    assert "missile-weapons-1" in available(base)
    base.research("ZergMissileWeaponsLevel1")
    assert not {"missile-weapons-1", "missile-weapons-2"} & available(base)
    base.unit("Lair", 40, 40)
    assert "missile-weapons-2" in available(base)


def test_what_is_researched_now_is_not_available(base):
    """Neither is the building that researches it."""
    base.unit("SpawningPool", 18, 12, order="zerglingmovementspeed", order_progress=0.1)
    base.unit("SpawningPool", 22, 12)
    assert "zergling-speed" not in available(base)


def test_larvae_become_units(base):
    """The command goes to one larva, by the ability that the game reports."""
    command = produce(base, "overlord")
    assert command == Command(command.ability, command.tags, None) or command.target is None
    assert command.tags == (base.larva,)
    assert command.ability == base.ability("Overlord")


def test_units_become_units(base):
    """Idle ones first."""
    base.unit("Zergling", 20, 20, order=ATTACK)
    idle = base.unit("Zergling", 20, 20)
    base.unit("BanelingNest", 20, 12)
    assert "baneling" in available(base)
    assert produce(base, "baneling").tags == (idle,)


def test_queens_are_trained_by_the_base_without_one(base):
    """The base that is farthest from all queens."""
    base.unit("SpawningPool", 18, 12)
    other = base.unit("Hatchery", 12.5, 51.5)
    base.unit("Queen", 13, 14)
    assert produce(base, "queen").tags == (other,)


def test_buildings_stand_on_creep_apart_from_others(base):
    """The place fits a building of three cells, and the next one is somewhere else."""
    base.creep[:] = False
    base.creep[:28, :28] = True
    situation, manager = base.situation(), ProductionManager()
    places = []
    for _ in range(6):
        (command,) = manager.produce(situation, ITEM["spawning-pool"])
        assert command.tags == (base.drone,)
        column, row = (int(value) for value in command.target)
        assert base.creep[row - 1 : row + 2, column - 1 : column + 2].all()
        taken = [unit.position for unit in (*situation.minerals, *situation.geysers, *situation.bases)]
        assert min(np.hypot(*(command.target - place)) for place in taken) >= 3.5
        places.append(tuple(command.target))
    assert len(set(places)) > 1


def test_without_creep_nothing_is_built(base):
    """There is no place, so there is no command."""
    base.creep[:] = False
    assert ProductionManager().produce(base.situation(), ITEM["spawning-pool"]) == []


def test_extractors_stand_on_free_geysers(base):
    """The target is the unit; a geyser with an extractor of any side is taken."""
    situation = base.situation()
    geysers = {unit.tag for unit in situation.geysers[:2]}
    assert produce(base, "extractor").target in geysers
    for geyser in situation.geysers[:2]:
        base.unit("Extractor", *geyser.position)
    assert "extractor" not in available(base)


def test_town_halls_stand_at_free_areas(base):
    """The own start is taken; the second area keeps the distance to its minerals."""
    place = produce(base, "hatchery").target
    assert np.hypot(*(place - [12.5, 51.5])) < 3
    fields = [unit.position for unit in base.situation().minerals]
    assert min(np.hypot(*(place - spot)) for spot in fields) >= 6
    base.unit("Hatchery", *place, side="enemy")
    assert ProductionManager().produce(base.situation(), ITEM["hatchery"]) == []


def test_the_goals_of_the_rules(base):
    """Drones first, an overlord when supply runs out, then the pool."""
    situation = base.situation()
    assert production.choose_by_rules(situation).name == "drone"
    base.player(food_used=27)
    assert production.choose_by_rules(base.situation()).name == "overlord"
    base.unit("Egg", 12, 9, order="Overlord")
    assert production.choose_by_rules(base.situation()).name == "drone"


def test_rules_save_for_buildings(base):
    """With drones and overlords enough, but no money for a second base, nothing is produced."""
    for _ in range(17):
        base.unit("Drone", 12, 12, order=GATHER)
    for _ in range(2):
        base.unit("Overlord", 12, 12)
    base.player(minerals=250, food_used=18)
    assert production.choose_by_rules(base.situation()) is None
    base.player(minerals=300)
    assert production.choose_by_rules(base.situation()).name == "hatchery"


def test_idle_workers_mine(base):
    """Near a base that wants workers; those with orders are left alone."""
    base.unit("Drone", 12, 12, order=GATHER)
    (command,) = harvest.HarvestManager().harvest(base.situation(), MINERAL_FIRST)
    near = {unit.tag for unit in base.situation().minerals[:8]}
    assert (command.ability, command.tags) == (GATHER, (base.drone,))
    assert command.target in near


def test_gas_first_fills_extractors(base):
    """Idle workers go first, then those that mine, as many as there are vacancies."""
    extractor = base.unit("Extractor", 9, 18, assigned_harvesters=1, ideal_harvesters=3)
    field = base.situation().minerals[0].tag
    miner = base.unit("Drone", 10, 16, order=GATHER, order_target_unit_tag=field)
    base.unit("Drone", 30, 30, order=GATHER, order_target_unit_tag=field)
    commands = harvest.HarvestManager().harvest(base.situation(), GAS_FIRST)
    assert [(one.tags, one.target) for one in commands] == [((base.drone,), extractor), ((miner,), extractor)]


def test_minerals_first_takes_workers_from_gas(base):
    """They go to mineral fields; the strategy stays until another one is chosen."""
    extractor = base.unit("Extractor", 9, 18, assigned_harvesters=1, ideal_harvesters=3)
    worker = base.unit("Drone", 10, 16, order=GATHER, order_target_unit_tag=extractor)
    manager = harvest.HarvestManager()
    assert {one.tags for one in manager.harvest(base.situation(), MINERAL_FIRST)} == {(worker,), (base.drone,)}
    assert {one.target == extractor for one in manager.harvest(base.situation(), NONE)} == {False}
    assert manager.harvest(base.situation(), GAS_FIRST)[0].target == extractor
    assert manager.harvest(base.situation(), NONE)[0].target == extractor


def test_unfinished_extractors_get_no_workers(base):
    """They would wait in front of them."""
    base.unit("Extractor", 9, 18, build_progress=0.5, ideal_harvesters=3)
    (command,) = harvest.HarvestManager().harvest(base.situation(), GAS_FIRST)
    assert command.tags == (base.drone,)
    assert command.target in {unit.tag for unit in base.situation().minerals}


def test_queens_with_energy_inject(base):
    """At the nearest base."""
    queen = base.unit("Queen", 14, 12, energy=25)
    base.unit("Queen", 14, 12, energy=24)
    first, *_ = harvest.HarvestManager().harvest(base.situation(), NONE)
    assert (first.ability, first.tags, first.target) == (INJECT, (queen,), base.hatchery)


@pytest.mark.parametrize(
    ("minerals", "vespene", "strategy"), [(0, 0, GAS_FIRST), (50, 130, MINERAL_FIRST), (900, 399, GAS_FIRST)]
)
def test_harvesting_by_rules(base, minerals, vespene, strategy):
    """Gas while there is much less of it than of minerals."""
    base.player(minerals=minerals, vespene=vespene)
    assert harvest.choose_by_rules(base.situation()) == strategy


def orders(state, choice):
    """Return units and target of the only command of a choice of combat; None without a command."""
    commands = combat.give_orders(state.situation(), choice)
    if not commands:
        return None
    (command,) = commands
    assert command.ability == ATTACK
    return set(command.tags), command.target.round(2).tolist()


def test_the_whole_army_attacks(base):
    """The nearest enemy, an area, and places before the bases; workers and queens stay."""
    army = {base.unit("Roach", 30, 30), base.unit("Zergling", 32, 30)}
    base.unit("Queen", 14, 12)
    base.unit("Zergling", 40, 30, side="enemy")
    base.unit("Hatchery", 51.5, 51.5, side="enemy")
    areas = base.situation().terrain.areas
    assert orders(base, ATTACK_NEAREST) == (army, [40, 30])
    assert orders(base, ATTACK_AREA + 1) == (army, areas[1].round(2).tolist())
    assert orders(base, RALLY_OWN) == (army, [22.25, 22.25])
    assert orders(base, RALLY_RIVAL) == (army, [41.75, 41.75])


def test_defense_is_at_the_enemy_near_a_base(base):
    """Without an enemy near it, the army gathers before the base."""
    roach = base.unit("Roach", 30, 30)
    assert orders(base, DEFEND) == ({roach}, [22.25, 22.25])
    base.unit("Zergling", 20, 16, side="enemy")
    assert orders(base, DEFEND) == ({roach}, [20, 16])


def test_zones(base):
    """Units of a zone attack the enemy in another one, or its middle; zone J is the whole area."""
    near, far = base.unit("Roach", 10, 10), base.unit("Roach", 50, 10)
    from_a_to_c, from_c_to_j, from_j_to_i = (ZONE_ATTACK + 10 * a + b for a, b in ((0, 2), (2, 9), (9, 8)))
    assert orders(base, from_a_to_c) == ({near}, [50.67, 13.33])
    base.unit("Zergling", 55, 20, side="enemy")
    assert orders(base, from_a_to_c) == ({near}, [55, 20])
    assert orders(base, from_c_to_j) == ({far}, [55, 20])
    assert orders(base, from_j_to_i) == ({near, far}, [50.67, 50.67])
    assert orders(base, ZONE_ATTACK + 10 * 4) is None


def test_commands_are_not_repeated(base):
    """Units that are on their way to the place get no new command."""
    enemy = (40.0, 30.0)
    base.unit("Zergling", *enemy, side="enemy")
    sent = base.unit("Roach", 30, 30, order=ATTACK)
    for unit in base.raw.raw_data.units:
        if unit.tag == sent:
            unit.orders[0].target_world_space_pos.x, unit.orders[0].target_world_space_pos.y = enemy
    assert orders(base, ATTACK_NEAREST) is None
    other = base.unit("Roach", 30, 30)
    assert orders(base, ATTACK_NEAREST) == ({other}, [40, 30])


def test_enemies_that_are_not_seen_are_searched(base):
    """First at their start, then at one area after another."""
    roach = base.unit("Roach", 30, 30)
    assert orders(base, ATTACK_NEAREST) == ({roach}, [51.5, 51.5])
    base.explored[51, 51] = True
    areas = base.situation().terrain.areas
    found = []
    for loop in (0, 1000):
        base.raw.game_loop = loop
        found.append(orders(base, ATTACK_NEAREST)[1])
    assert found == [areas[1].round(2).tolist(), areas[0].round(2).tolist()]


def test_rules_attack_with_an_army_until_it_is_spent(base):
    """24 food start an attack, 8 end it; enemies near a base come first."""
    rules = combat.CombatRules()

    def choose(food):
        base.player(food_army=food)
        return rules.choose(base.situation())

    assert [choose(food) for food in (23, 24, 9, 7, 23)] == [
        RALLY_OWN,
        ATTACK_NEAREST,
        ATTACK_NEAREST,
        RALLY_OWN,
        RALLY_OWN,
    ]
    base.unit("Zergling", 14, 14, side="enemy")
    assert choose(60) == DEFEND


def test_mask(base):
    """Items as available, areas as many as there are, everything else is legal."""
    mask = np.zeros(sum(LABEL_SIZES), bool)
    write_mask(mask, base.situation())
    items, strategies, fights = np.split(mask, np.cumsum(LABEL_SIZES)[:-1])
    assert items[[RULES, NONE]].all()
    assert {ITEMS[i].name for i in np.flatnonzero(items[2:])} == available(base)
    assert strategies.all()
    assert np.flatnonzero(~fights).tolist() == list(range(ATTACK_AREA + 2, ATTACK_AREA + 16))


def test_a_worker_that_builds_gets_no_other_command(base):
    """The drone is idle, but it is the only one that can build."""
    choice = 2 + [item.name for item in ITEMS].index("spawning-pool")
    commands = Managers().decide(base.situation(), np.array([choice, MINERAL_FIRST, NONE]))
    assert [command.tags for command in commands] == [(base.drone,)]
    assert commands[0].ability == base.ability("SpawningPool")


def test_nothing_new(base):
    """The idle drone still mines."""
    (command,) = Managers().decide(base.situation(), np.array([NONE, NONE, NONE]))
    assert command.ability == GATHER


def test_commands_become_actions():
    """With a place, a unit, or no target."""
    for target in (np.array([3.0, 4.5]), 17, None):
        action = api.Action()
        Command(23, (1, 2), target).write(action)
        command = action.action_raw.unit_command
        assert (command.ability_id, list(command.unit_tags)) == (23, [1, 2])
        assert command.HasField("target_world_space_pos") == isinstance(target, np.ndarray)
        assert command.HasField("target_unit_tag") == (target == 17 if isinstance(target, int) else False)


def test_a_player_without_bases(state):
    """Nothing is commanded but the army."""
    state.unit("Drone", 20, 20)
    roach = state.unit("Roach", 20, 20)
    commands = Managers().decide(state.situation(), np.array([RULES, RULES, ATTACK_NEAREST]))
    assert [command.tags for command in commands] == [(roach,)]
