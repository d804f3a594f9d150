"""Skills: which targets they hit, their damage, and their effects on both heroes."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from ludus_moba import rules
from ludus_moba.heroes import MARK_S, Aim, SkillTables
from ludus_moba.rules import HERO, LENGTH, TARGETS, WIDTH
from ludus_moba.world import World, target_health

_MARK = rules.ticks_of(MARK_S)
SHIELD_TICKS_SHARE = np.float32(0.96)  # share of a shield that is left after each tick


@frozen
class Casts:
    """Skills that n heroes cast; all arrays are ``[n]``.

    Attributes:
        match: Match index of the hero; likewise `side`.
        hero: The kind of hero; likewise `skill`, from 0.
        x: From -1 to 1, the direction or the point relative to the reach; likewise `y`.
        target: Slot of the target, for skills that need one.
    """

    match: np.ndarray
    side: np.ndarray
    hero: np.ndarray
    skill: np.ndarray
    x: np.ndarray
    y: np.ndarray
    target: np.ndarray

    def of(self, table: np.ndarray) -> np.ndarray:
        """Return the entries of a table ``[4, 3]`` for these skills."""
        return np.asarray(table[self.hero, self.skill])


def unit_direction(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return directions of length 1; towards the enemy where both are 0."""
    size = np.sqrt(x * x + y * y)
    none = size == 0
    safe = np.where(none, np.float32(1.0), size)
    return np.where(none, np.float32(1.0), x / safe), y / safe


def cast(world: World, casts: Casts, damage: np.ndarray) -> None:
    """Apply skills: costs, movement of the casting hero, effects on it and on the enemy hero, and damage.

    Args:
        world: State to change; effects on heroes apply at once, so both heroes may hit each other on one tick.
        casts: Skills to cast; their heroes can.
        damage: ``[B, 2, 19] float32``: damage of heroes to targets, added to.
    """
    match, side = casts.match, casts.side
    if not match.size:
        return
    world.mana[match, side] -= casts.of(SkillTables.mana)
    world.skill_wait[match, side, casts.skill] = casts.of(SkillTables.wait)
    hit = _hits(world, casts)
    _move(world, casts)
    level = world.level[match, side] - 1
    amount = casts.of(SkillTables.damage) + casts.of(SkillTables.damage_per_level) * level
    amount += casts.of(SkillTables.ratio) * world.power[match, side]
    dealt = hit * amount[:, None].astype(np.float32)
    dealt[:, HERO] += _affect_enemy(world, casts, hit[:, HERO])
    damage[match, side] += dealt
    shield = casts.of(SkillTables.shield)
    shield = shield + np.where(shield > 0, 0.08 * shield * level, 0.0)
    world.shield[match, side] = np.maximum(world.shield[match, side], shield)
    heal = casts.of(SkillTables.heal) * world.max_health[match, side, HERO]
    world.health[match, side, HERO] += np.where(hit[:, 1:].any(axis=1) | hit[:, HERO], heal, 0.0)


def _hits(world: World, casts: Casts) -> np.ndarray:
    """Return ``[n, 19] bool``: targets hit; structures never are."""
    dx, dy = world.dx[casts.match, casts.side], world.dy[casts.match, casts.side]
    aim, reach, radius = casts.of(SkillTables.aim), casts.of(SkillTables.reach), casts.of(SkillTables.radius)
    ux, uy = unit_direction(casts.x, casts.y)
    along = dx * ux[:, None] + dy * uy[:, None]
    across = np.abs(dx * uy[:, None] - dy * ux[:, None])
    line = (along >= 0) & (along <= reach[:, None]) & (across <= radius[:, None])
    area = aim == Aim.AREA
    scale = np.sqrt(np.maximum(casts.x**2 + casts.y**2, np.float32(1.0)))  # corners are no farther than the reach
    cx, cy = np.where(area, casts.x / scale, ux) * reach, np.where(area, casts.y / scale, uy) * reach
    circle = (dx - cx[:, None]) ** 2 + (dy - cy[:, None]) ** 2 <= (radius**2)[:, None]
    chosen = np.arange(TARGETS) == casts.target[:, None]
    aim = aim[:, None]
    hit = np.where(aim == Aim.DIRECTION, line, np.where(aim == Aim.TARGET, chosen, circle)) & (aim != Aim.SELF)
    hit &= ((aim != Aim.DASH) | (radius > 0)[:, None]) & (target_health(world)[casts.match, casts.side] > 0)
    hit[:, rules.STRUCTURES] = False
    return np.asarray(hit)


def _move(world: World, casts: Casts) -> None:
    """Move heroes that dash, and those that leap beside their unit."""
    ux, uy = unit_direction(casts.x, casts.y)
    reach = casts.of(SkillTables.reach)
    dash = casts.of(SkillTables.aim) == Aim.DASH
    move_x, move_y = np.where(dash, ux * reach, 0), np.where(dash, uy * reach, 0)
    leaps = casts.of(SkillTables.leaps)
    dx = world.dx[casts.match, casts.side, casts.target]
    dy = world.dy[casts.match, casts.side, casts.target]
    share = np.maximum(1.0 - 1.0 / np.maximum(np.sqrt(dx * dx + dy * dy), 1.0), 0.0)
    move_x, move_y = np.where(leaps, dx * share, move_x), np.where(leaps, dy * share, move_y)
    x, y = world.x[casts.match, casts.side, HERO] + move_x, world.y[casts.match, casts.side, HERO] + move_y
    world.x[casts.match, casts.side, HERO] = np.clip(x, 0.0, LENGTH)
    world.y[casts.match, casts.side, HERO] = np.clip(y, 0.0, WIDTH)


def _affect_enemy(world: World, casts: Casts, hit: np.ndarray) -> np.ndarray:
    """Stun, slow and mark enemy heroes hit, ``hit [n] bool``, and return the damage of detonations ``[n] float32``."""
    match, enemy = casts.match, 1 - casts.side
    detonation = casts.of(SkillTables.detonation)
    detonates = hit & (detonation > 0) & (world.mark[match, enemy] > 0)
    stun = np.where(hit, casts.of(SkillTables.stun), 0)
    stun = np.maximum(stun, np.where(detonates, casts.of(SkillTables.detonation_stun), 0))
    world.stun[match, enemy] = np.maximum(world.stun[match, enemy], stun)
    slow = np.where(hit, casts.of(SkillTables.slow), 0)
    world.slow[match, enemy] = np.maximum(world.slow[match, enemy], slow)
    marked = np.where(hit & casts.of(SkillTables.marks), _MARK, world.mark[match, enemy])
    world.mark[match, enemy] = np.where(detonates, 0, marked)
    return np.asarray(np.where(detonates, detonation, 0.0).astype(np.float32))
