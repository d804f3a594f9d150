"""Observations of both sides, each in its own frame; see `ludus_moba.layout` for the names of the numbers."""

from __future__ import annotations

import numpy as np
from ludus.environment import RoleTick

from ludus_moba import rules
from ludus_moba.actions import BUTTON, OFFSETS
from ludus_moba.heroes import Aim, HeroTables, SkillTables
from ludus_moba.layout import ENEMIES, ENEMY_HERO, LIMIT, OWN, UNIT
from ludus_moba.names import NAMES
from ludus_moba.rules import HERO, LENGTH, MINIONS, MONSTER, STRUCTURES, UNITS, WIDTH
from ludus_moba.vision import brush_of
from ludus_moba.world import COLUMN, World, other, target_health

_ONE_HOT_HEROES = np.eye(len(NAMES), dtype=np.float32)
_SECONDS = np.float32(rules.TICK_S / 10.0)  # times are in units of 10 s
_FAR, _SIZE, _POWER = np.float32(30.0), np.float32(3000.0), np.float32(200.0)
_PERIOD = rules.ticks_of(rules.WAVE_PERIOD_S)
_FIRST = rules.ticks_of(rules.FIRST_WAVE_S)
_TARGET_ATTACK = rules.by_slot("attack")
_HERO_X = ENEMY_HERO.index("x") - len(UNIT)


def skills_ready(world: World) -> np.ndarray:
    """Return ``[B, 2, 3] bool``: skills that are learned, cooled down and affordable."""
    learned = world.level[:, :, None] >= rules.SKILL_LEVELS
    ready: np.ndarray = learned & (world.skill_wait == 0) & (world.mana[:, :, None] >= SkillTables.mana[world.kind])
    return ready


def update_masks(world: World, ready: np.ndarray, mask: np.ndarray) -> None:
    """Write the masks ``[B, 2, 88] bool``; every label always has a legal choice.

    Args:
        world: State.
        ready: From `skills_ready`.
        mask: To write to. All directions are always legal; targets are those that can be attacked.
    """
    free = world.alive & (world.stun == 0)
    mask[:, :, 0] = True
    mask[:, :, BUTTON["move"]] = free
    mask[:, :, BUTTON["attack"]] = free & world.attackable.any(axis=2)
    aims_at_unit = SkillTables.aim[world.kind] == Aim.TARGET
    units = world.attackable[:, :, : MINIONS.stop].any(axis=2) | world.attackable[:, :, MONSTER]
    mask[:, :, BUTTON["skill1"] : BUTTON["skill1"] + 3] = ready & free[:, :, None] & (~aims_at_unit | units[:, :, None])
    mask[:, :, BUTTON["recall"]] = free & (world.x[:, :, HERO] > rules.BASE_X)
    mask[:, :, BUTTON["heal"]] = free & (world.heal_wait == 0)
    mask[:, :, OFFSETS[1] : OFFSETS[5]] = True
    mask[:, :, OFFSETS[5]] = True
    mask[:, :, OFFSETS[5] + 1 :] = world.attackable


class View:
    """Writes observations and privileged leaves into the arrays of a tick.

    Args:
        role: Arrays to write to.
    """

    def __init__(self, role: RoleTick) -> None:
        self._observation, self._hidden = role.observation, role.privileged["hidden"]
        shape = self._hidden.shape[:2]
        self._unit = np.zeros((*shape, UNITS + 1, len(UNIT)), np.float32)
        for name, (_, slots) in {**ENEMIES, **OWN}.items():
            count = slots.stop - slots.start
            if count in (3, 14):
                kinds = (
                    np.eye(3, dtype=np.float32) if count == 3 else np.repeat(np.eye(3, dtype=np.float32), [6, 6, 2], 0)
                )
                self._observation[name][..., len(UNIT) :] = kinds

    def update(self, world: World, ready: np.ndarray, left: np.ndarray) -> None:
        """Write what both sides see.

        Args:
            world: State.
            ready: From `skills_ready`.
            left: ``[B] float32``: share of the time limit that is left.
        """
        hero = self._heroes(world)
        self._enemies(world, hero)
        self._own_units(world)
        self._own_hero(world, hero, ready)
        self._common(world, left)
        self._privileged(world)

    def _heroes(self, world: World) -> np.ndarray:
        """Return ``[B, 2, 20] float32``: what both sides may know of each hero."""
        health = world.max_health[:, :, HERO]
        columns = (
            world.health[:, :, HERO] / np.maximum(health, 1.0),
            health / _SIZE,
            world.mana / np.maximum(world.max_mana, 1.0),
            world.level / rules.LEVELS,
            world.attack[:, :, HERO] / _POWER,
            world.power / _POWER,
            world.armour[:, :, HERO] / 100.0,
            world.reach[:, :, HERO] / 10.0,
            world.shield / 300.0,
            world.stun * _SECONDS * 10,
            world.slow * _SECONDS * 10,
            world.mark * _SECONDS * 10,
            world.recall * _SECONDS,
            brush_of(world.x[:, :, HERO], world.y[:, :, HERO]) > 0,
            world.x[:, :, HERO] / LENGTH,
            world.y[:, :, HERO] / WIDTH,
        )
        numbers = np.stack([column.astype(np.float32) for column in columns], axis=2)
        return np.concatenate([numbers, _ONE_HOT_HEROES[world.kind]], axis=2)

    def _enemies(self, world: World, hero: np.ndarray) -> None:
        """Write entities that can be targets."""
        unit, health = self._unit, target_health(world)
        distance2 = world.distance2[:, :, HERO]
        self._places(world.dx, world.dy, distance2)
        self._strengths(health[:, :, :UNITS], other(world.max_health), other(world.attack))
        unit[:, :, MONSTER, 3] = health[:, :, MONSTER] / np.float32(rules.KINDS["monster"].health)
        unit[:, :, MONSTER, 4] = health[:, :, MONSTER] / _SIZE
        unit[:, :, MONSTER, 5] = _TARGET_ATTACK[MONSTER] / _POWER
        unit[..., 6] = distance2 <= (world.reach[:, :, HERO, None] ** 2)
        unit[:, :, :UNITS, 7] = other(world.aim) == HERO
        unit[:, :, MONSTER, 7] = world.provoked > 0
        unit[..., 8] = world.attackable
        np.clip(unit, -LIMIT, LIMIT, out=unit)
        for name, (_, slots) in ENEMIES.items():
            present, leaf = world.visible[:, :, slots], self._observation[name]
            leaf[..., : len(UNIT)] = unit[:, :, slots] * present[..., None]
            self._observation[f"{name}_present"][:] = present
        enemy, seen = self._observation["enemy_hero"], world.visible[:, :, HERO, None]
        facing = other(hero).copy()
        facing[:, :, _HERO_X] = 1.0 - facing[:, :, _HERO_X]
        enemy[:, :, 0, len(UNIT) :] = np.minimum(facing, LIMIT) * seen

    def _places(self, dx: np.ndarray, dy: np.ndarray, distance2: np.ndarray) -> None:
        count = dx.shape[2]
        np.divide(dx, _FAR, out=self._unit[:, :, :count, 0])
        np.divide(dy, _FAR, out=self._unit[:, :, :count, 1])
        np.divide(np.sqrt(distance2), _FAR, out=self._unit[:, :, :count, 2])

    def _strengths(self, health: np.ndarray, top: np.ndarray, attack: np.ndarray) -> None:
        np.divide(health, np.maximum(top, np.float32(1.0)), out=self._unit[:, :, :UNITS, 3])
        np.divide(health, _SIZE, out=self._unit[:, :, :UNITS, 4])
        np.divide(attack, _POWER, out=self._unit[:, :, :UNITS, 5])

    def _own_units(self, world: World) -> None:
        unit = self._unit
        dx, dy = world.x - world.x[:, :, :1], world.y - world.y[:, :, :1]
        self._places(dx, dy, dx * dx + dy * dy)
        self._strengths(world.health, world.max_health, world.attack)
        unit[:, :, :UNITS, 6] = 0.0
        unit[:, :, :UNITS, 7] = world.aim == HERO
        unit[:, :, :UNITS, 8] = other(world.attackable)[:, :, :UNITS]
        np.clip(unit, -LIMIT, LIMIT, out=unit)
        for name, (_, slots) in OWN.items():
            present = world.health[:, :, slots] > 0
            self._observation[name][..., : len(UNIT)] = unit[:, :, slots] * present[..., None]
            self._observation[f"{name}_present"][:] = present

    def _own_hero(self, world: World, hero: np.ndarray, ready: np.ndarray) -> None:
        leaf, first = self._observation["own_hero"], hero.shape[2]
        leaf[..., :first] = hero
        level = np.minimum(world.level, rules.LEVELS - 1)
        columns = (
            world.respawn * _SECONDS,
            world.experience / rules.LEVEL_EXPERIENCE[level],
            world.gold / 1000.0,
            world.items / 6.0,
            world.wait[:, :, HERO] / HeroTables.attack_wait[world.kind],
            world.heal_wait * _SECONDS / 5,
        )
        for number, column in enumerate(columns, first):
            leaf[..., number] = column
        leaf[..., -6:-3] = world.skill_wait * _SECONDS
        leaf[..., -3:] = ready
        np.clip(leaf, -LIMIT, LIMIT, out=leaf)

    def _common(self, world: World, left: np.ndarray) -> None:
        standing = (world.health[:, :, STRUCTURES] > 0).sum(axis=2) / 3.0
        columns = (
            (1.0 - left)[:, None],
            world.tally[:, :, COLUMN["kills"]] / 10.0,
            world.tally[:, :, COLUMN["deaths"]] / 10.0,
            world.tally[:, :, COLUMN["last_hits"]] / 50.0,
            world.pack_wait * _SECONDS / 4,
            other(world.pack_wait) * _SECONDS / 4,
            (world.monster_wait * _SECONDS / 6)[:, None],
            ((_FIRST - world.ticks) % _PERIOD / _PERIOD)[:, None],
            standing,
            other(standing),
            other(world.respawn) * _SECONDS,
            world.visible[:, :, HERO],
        )
        leaf = self._observation["common"]
        for number, column in enumerate(columns):
            leaf[..., number] = column
        np.clip(leaf, -LIMIT, LIMIT, out=leaf)

    def _privileged(self, world: World) -> None:
        own = np.empty_like(self._hidden)
        columns = (
            1.0 - world.x[:, :, HERO] / LENGTH,
            world.y[:, :, HERO] / WIDTH,
            world.health[:, :, HERO] / np.maximum(world.max_health[:, :, HERO], 1.0),
            world.mana / np.maximum(world.max_mana, 1.0),
            world.gold / 1000.0,
            world.experience / rules.LEVEL_EXPERIENCE[-1],
            world.items / 6.0,
            world.heal_wait * _SECONDS / 5,
        )
        for number, column in enumerate(columns):
            own[..., number] = column
        own[..., -4:-1] = world.skill_wait * _SECONDS
        own[..., -1] = other(world.visible)[:, :, HERO]
        np.clip(other(own), -LIMIT, LIMIT, out=self._hidden)
