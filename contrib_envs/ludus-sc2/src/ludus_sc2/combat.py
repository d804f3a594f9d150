"""The combat manager: where own units fight."""

from __future__ import annotations

import numpy as np
from attrs import define, field

from ludus_sc2.commands import ATTACK, ATTACKS, Command, command
from ludus_sc2.layout import ATTACK_AREA, ATTACK_NEAREST, DEFEND, RALLY_OWN, RALLY_RIVAL, ZONE_ATTACK, ZONES
from ludus_sc2.situation import SeenUnit, Situation, nearest, positions
from ludus_sc2.terrain import read_grid

_NEAR_BASE = 25.0
_SAME_PLACE = 3.0
_RALLY_SHARE = 0.25  # of the way from a base to the enemy's start
_ATTACK_FOOD, _RETREAT_FOOD = 24, 8
_SEARCH_LOOPS = 1000  # for which an area is searched


def give_orders(situation: Situation, choice: int) -> list[Command]:
    """Return the commands of a choice of the label ``combat``, which is none of `RULES` and `NONE`.

    Units attack everything on their way. Those that are on their way to the place already get no new command.
    """
    army = situation.army
    if choice >= ZONE_ATTACK:
        source, zone = divmod(choice - ZONE_ATTACK, len(ZONES))
        army = [unit for unit, inside in zip(army, _is_in(situation, army, source), strict=True) if inside]
        place = _zone_target(situation, army, zone)
    elif choice >= ATTACK_AREA:
        areas = situation.terrain.areas
        place = areas[min(choice - ATTACK_AREA, len(areas) - 1)]
    else:
        place = _TARGETS[choice](situation)
    waiting = [unit for unit in army if not _is_sent_to(unit, place)]
    return command(ATTACK, waiting, place)


@define
class CombatRules:
    """The rule-based manager: defends bases, gathers an army, and attacks until it is spent."""

    _is_attacking: bool = field(init=False, default=False)

    def choose(self, situation: Situation) -> int:
        """Return a choice of the label ``combat``."""
        food = situation.raw.player_common.food_army
        self._is_attacking = food >= (_RETREAT_FOOD if self._is_attacking else _ATTACK_FOOD)
        if _attackers(situation):
            return DEFEND
        return ATTACK_NEAREST if self._is_attacking else RALLY_OWN


def _is_sent_to(unit: SeenUnit, place: np.ndarray) -> bool:
    orders = [order for order in unit.raw.orders if order.ability_id in ATTACKS]
    return any(
        np.hypot(order.target_world_space_pos.x - place[0], order.target_world_space_pos.y - place[1]) < _SAME_PLACE
        for order in orders[:1]
    )


def _is_in(situation: Situation, units: list[SeenUnit], zone: int) -> np.ndarray:
    return situation.terrain.is_in_zone(positions(units), zone)


def _zone_target(situation: Situation, army: list[SeenUnit], zone: int) -> np.ndarray:
    """Return the enemy in a zone that is nearest to the army, or the middle of the zone without one."""
    enemies = situation.enemies
    seen = [enemy for enemy, inside in zip(enemies, _is_in(situation, enemies, zone), strict=True) if inside]
    if seen and army:
        return nearest(seen, positions(army).mean(axis=0)).position
    return situation.terrain.zone_center(zone)


def _attackers(situation: Situation) -> list[SeenUnit]:
    """Return the enemies that fight near own buildings."""
    own = positions(unit for unit in situation.own if unit.structure)
    fighting = [enemy for enemy in situation.enemies if enemy.army]
    if not len(own) or not fighting:
        return []
    distance = np.hypot(*(positions(fighting)[:, None] - own[None]).transpose(2, 0, 1)).min(axis=1)
    return [enemy for enemy, near in zip(fighting, distance < _NEAR_BASE, strict=True) if near]


def _defend(situation: Situation) -> np.ndarray:
    attackers = _attackers(situation)
    return nearest(attackers, situation.terrain.start).position if attackers else _rally_own(situation)


def _rally_own(situation: Situation) -> np.ndarray:
    """Return a place before the own base that is nearest to the enemy's start."""
    rival = situation.terrain.rival_start
    base = nearest(situation.bases, rival).position if situation.bases else situation.terrain.start
    return np.asarray(base + _RALLY_SHARE * (rival - base))


def _rally_rival(situation: Situation) -> np.ndarray:
    """Return a place before the enemy's base that is nearest to the own start."""
    start = situation.terrain.start
    bases = [enemy for enemy in situation.enemies if enemy.name in ("hatchery", "lair", "hive")]
    base = nearest(bases, start).position if bases else situation.terrain.rival_start
    return np.asarray(base + _RALLY_SHARE * (start - base))


def _attack_nearest(situation: Situation) -> np.ndarray:
    army, enemies = situation.army, situation.enemies
    if not army or not enemies:
        return _unexplored(situation)
    return nearest(enemies, positions(army).mean(axis=0)).position


def _unexplored(situation: Situation) -> np.ndarray:
    """Return where enemies may be that are not seen: their start, and once it is explored, one area after another."""
    terrain, explored = situation.terrain, read_grid(situation.raw.raw_data.map_state.visibility)
    column, row = np.clip(terrain.rival_start.astype(np.int64), 0, np.array(explored.shape[::-1]) - 1)
    if not explored[row, column]:
        return terrain.rival_start
    turn = situation.raw.game_loop // _SEARCH_LOOPS
    return np.asarray(terrain.areas[-1 - turn % len(terrain.areas)])


_TARGETS = {DEFEND: _defend, RALLY_OWN: _rally_own, RALLY_RIVAL: _rally_rival, ATTACK_NEAREST: _attack_nearest}
