"""The state of B matches, as arrays. Axis 1 is the side, each in its own frame; see `ludus_moba.rules`."""

from __future__ import annotations

from typing import TypeAlias

import attrs
import numpy as np
from attrs import define

from ludus_moba import rules
from ludus_moba.rules import HERO, LENGTH, MONSTER, STRUCTURES, TARGETS, UNITS

Indices: TypeAlias = np.ndarray | slice


def other(array: np.ndarray) -> np.ndarray:
    """Return an array ``[B, 2, …]`` with the sides exchanged."""
    return array[:, ::-1]


@define(kw_only=True)
class World:
    """State of B matches.

    Attributes:
        x: ``[B, 2, 18] float32``: units in the frame of their side; likewise `y`.
        health: ``[B, 2, 18] float32``; 0 or less: not there. Likewise `max_health`, `attack`, `armour` and `reach`.
        wait: ``[B, 2, 18] int64``: ticks until the next attack.
        aim: ``[B, 2, 18] int64``: the target slot of each unit's last attack; -1: none.
        kind: ``[B, 2] int64``: the hero. The following describe heroes, ``[B, 2]`` each; times are in ticks.
        level: From 1.
        gold: Not yet spent; likewise `mana`.
        mark: Ticks for which an enemy skill can detonate.
        recall: Ticks until the recall is complete; 0: none.
        respawn: Ticks until a dead hero returns.
        anger: Ticks for which the turrets of this side prefer the enemy hero.
        provoked: Ticks for which the monster follows this hero.
        skill_wait: ``[B, 2, 3] int64``.
        pack_wait: Ticks until the side's health pack is there.
        monster_health: ``[B] float32``; 0 until `monster_wait` is over. `monster_pause` is the time until it attacks.
        ticks: ``[B] int64`` since the start; `running` ``[B] bool``.
        visible: ``[B, 2, 19] bool``: targets that a side sees and that are alive.
        attackable: ``[B, 2, 19] bool``: visible targets that no turret in front of them protects.
        dx: ``[B, 2, 19] float32``: from the hero to targets; likewise `dy`.
        distance2: ``[B, 2, 18, 19] float32``: squared distance of units to targets.
        tally: Sums of the match, ``[B, 2, 8] float32`` by `TALLY`.
    """

    x: np.ndarray
    y: np.ndarray
    health: np.ndarray
    max_health: np.ndarray
    attack: np.ndarray
    armour: np.ndarray
    reach: np.ndarray
    wait: np.ndarray
    aim: np.ndarray
    kind: np.ndarray
    level: np.ndarray
    experience: np.ndarray
    gold: np.ndarray
    mana: np.ndarray
    max_mana: np.ndarray
    power: np.ndarray
    items: np.ndarray
    stun: np.ndarray
    slow: np.ndarray
    shield: np.ndarray
    mark: np.ndarray
    recall: np.ndarray
    respawn: np.ndarray
    heal_wait: np.ndarray
    anger: np.ndarray
    provoked: np.ndarray
    skill_wait: np.ndarray
    pack_wait: np.ndarray
    monster_health: np.ndarray
    monster_wait: np.ndarray
    monster_pause: np.ndarray
    ticks: np.ndarray
    running: np.ndarray
    visible: np.ndarray
    attackable: np.ndarray
    dx: np.ndarray
    dy: np.ndarray
    distance2: np.ndarray
    tally: np.ndarray

    @classmethod
    def blank(cls, num_matches: int) -> World:
        """Return matches that are not running, with all structures and no other unit."""
        shapes: dict[str, tuple[tuple[int, ...], type]] = {}
        for names, shape, dtype in _LAYOUT:
            shapes.update(dict.fromkeys(names.split(), (shape, dtype)))
        world = cls(**{name: np.zeros((num_matches, *shape), dtype) for name, (shape, dtype) in shapes.items()})
        world.x[:, :, STRUCTURES], world.y[:, :, STRUCTURES] = rules.STRUCTURE_X, rules.LANE_Y
        for name in ("attack", "armour", "reach"):
            getattr(world, name)[:] = rules.by_slot(name)[:UNITS]
        world.max_health[:] = rules.by_slot("health")[:UNITS]
        world.health[:, :, STRUCTURES] = world.max_health[:, :, STRUCTURES]
        world.level[:] = 1
        return world

    def put(self, at: Indices, source: World) -> None:
        """Copy the matches of another world to the match indices `at`."""
        for field in attrs.fields(World):
            getattr(self, field.name)[at] = getattr(source, field.name)

    @property
    def alive(self) -> np.ndarray:
        """Return ``[B, 2] bool``: whether the hero lives."""
        return np.asarray(self.health[:, :, HERO] > 0)


#: Columns of `World.tally`.
TALLY = ("kills", "deaths", "last_hits", "hero_damage", "structure_damage", "gold", "experience", "crystals")
COLUMN = {name: column for column, name in enumerate(TALLY)}

_FLOAT, _INT = np.float32, np.int64
_LAYOUT: tuple[tuple[str, tuple[int, ...], type], ...] = (
    ("x y health max_health attack armour reach", (2, UNITS), _FLOAT),
    ("wait aim", (2, UNITS), _INT),
    ("experience gold mana max_mana power shield", (2,), _FLOAT),
    ("kind level items stun slow mark recall respawn heal_wait anger provoked pack_wait", (2,), _INT),
    ("skill_wait", (2, 3), _INT),
    ("monster_health", (), _FLOAT),
    ("monster_wait monster_pause ticks", (), _INT),
    ("running", (), np.bool_),
    ("visible attackable", (2, TARGETS), np.bool_),
    ("dx dy", (2, TARGETS), _FLOAT),
    ("distance2", (2, UNITS, TARGETS), _FLOAT),
    ("tally", (2, len(TALLY)), _FLOAT),
)


def target_health(world: World) -> np.ndarray:
    """Return ``[B, 2, 19] float32``: health of the targets of each side."""
    health = np.empty((len(world.ticks), 2, TARGETS), np.float32)
    health[:, :, :UNITS] = other(world.health)
    health[:, :, MONSTER] = world.monster_health[:, None]
    return health


def target_places(world: World) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y of the targets of each side in its frame, ``[B, 2, 19] float32`` each."""
    x = np.empty((len(world.ticks), 2, TARGETS), np.float32)
    y = np.empty_like(x)
    np.subtract(np.float32(LENGTH), other(world.x), out=x[:, :, :UNITS])
    y[:, :, :UNITS] = other(world.y)
    x[:, :, MONSTER], y[:, :, MONSTER] = LENGTH / 2, rules.MONSTER_Y
    return x, y
