"""The numbers of an observation by leaf: their names, and the spaces."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from ludus_moba.names import NAMES
from ludus_moba.rules import MINIONS, MONSTER, STRUCTURES

#: Numbers of both heroes.
_HERO = (
    "health", "health-size", "mana", "level", "attack", "power", "armour", "reach", "shield", "stun", "slow", "mark",
    "recall", "brush", "x", "y", *(f"is-{name}" for name in NAMES),
)  # fmt: skip
OWN_HERO = (
    *_HERO, "respawn", "experience", "gold", "items", "wait", "heal-wait", "skill1-wait", "skill2-wait", "skill3-wait",
    "skill1-ready", "skill2-ready", "skill3-ready",
)  # fmt: skip
#: Numbers of every other unit; places are relative to the own hero in units of 30.
UNIT = ("dx", "dy", "distance", "health", "health-size", "attack", "in-reach", "aims-at-hero", "attackable")
ENEMY_HERO = (*UNIT, *_HERO)
MINION = (*UNIT, "is-melee", "is-ranged", "is-siege")
STRUCTURE = (*UNIT, "is-outer", "is-inner", "is-crystal")
COMMON = (
    "time", "own-kills", "own-deaths", "own-last-hits", "own-pack", "enemy-pack", "monster-wait", "next-wave",
    "own-structures", "enemy-structures", "enemy-respawn", "enemy-visible",
)  # fmt: skip
PRIVILEGED = (
    "x", "y", "health", "mana", "gold", "experience", "items", "heal-wait", "skill1-wait", "skill2-wait",
    "skill3-wait", "own-visible",
)  # fmt: skip
#: Channels of the map.
CHANNELS = ("own-units", "enemy-units", "own-structures", "enemy-structures", "heroes", "terrain")
CELLS, CELL = 16, 1.5
#: Leaves of entities: names of their numbers, and their slots.
ENEMIES = {
    "enemy_hero": (ENEMY_HERO, slice(0, 1)),
    "enemy_minions": (MINION, MINIONS),
    "enemy_structures": (STRUCTURE, STRUCTURES),
    "monster": (UNIT, slice(MONSTER, MONSTER + 1)),
}
OWN = {"own_minions": (MINION, MINIONS), "own_structures": (STRUCTURE, STRUCTURES)}
VECTORS = {"own_hero": OWN_HERO, "common": COMMON}
LIMIT = 5.0


def observation_space(*, with_map: bool) -> spaces.Dict:
    """Return the space of an observation: a map, entities with their masks, and vectors."""
    leaves: dict[str, spaces.Space[np.ndarray]] = {}
    if with_map:
        leaves["map"] = spaces.Box(0, 255, (CELLS, CELLS, len(CHANNELS)), np.uint8)
    for name, (numbers, slots) in {**ENEMIES, **OWN}.items():
        count = slots.stop - slots.start
        leaves[name] = spaces.Box(-LIMIT, LIMIT, (count, len(numbers)), np.float32)
        leaves[f"{name}_present"] = spaces.MultiBinary(count)
    for name, numbers in VECTORS.items():
        leaves[name] = spaces.Box(-LIMIT, LIMIT, (len(numbers),), np.float32)
    return spaces.Dict(leaves)


def privileged_space() -> spaces.Dict:
    """Return the space of what critics read in addition: the enemy hero, whether or not it is visible."""
    return spaces.Dict({"hidden": spaces.Box(-LIMIT, LIMIT, (len(PRIVILEGED),), np.float32)})
