"""What heroes do on a tick: attacks, skills, recall, heal, and where they walk."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from ludus_moba import rules
from ludus_moba.actions import BUTTON, directions
from ludus_moba.heroes import Aim, HeroTables, SkillTables
from ludus_moba.rules import HERO, LENGTH, TARGETS, TICK_S, WIDTH, ticks_of
from ludus_moba.skills import Casts, cast
from ludus_moba.world import World

_RECALL, _HEAL_WAIT = ticks_of(rules.RECALL_S), ticks_of(rules.HEAL_WAIT_S)
_FAR = np.float32(1e9)
_SLOWED = np.float32(0.55)  # speed of slowed heroes


@frozen
class Orders:
    """Results of the actions of all heroes on a tick.

    Attributes:
        damage: ``[B, 2, 19] float32``: to the targets of each side, before armour.
        walk: ``[B, 2, 2] float32``: direction of the walk, of length at most 1.
    """

    damage: np.ndarray
    walk: np.ndarray


def nearest_targets(world: World, among: np.ndarray) -> np.ndarray:
    """Return ``[B, 2] int64``: the nearest of the targets ``among [B, 2, 19] bool``, -1 if there is none."""
    score = np.where(among, world.distance2[:, :, HERO], _FAR)
    nearest = score.argmin(axis=2)
    return np.where(among.any(axis=2), nearest, -1)


def give_orders(world: World, action: np.ndarray) -> Orders:
    """Apply the actions ``[B, 2, 6] int64`` of heroes, which are legal, except for their walk."""
    button = action[:, :, 0]
    orders = Orders(
        damage=np.zeros((len(world.ticks), 2, TARGETS), np.float32),
        walk=np.zeros((len(world.ticks), 2, 2), np.float32),
    )
    moves = button == BUTTON["move"]
    orders.walk[:] = directions(action[:, :, 1:3]) * moves[:, :, None]
    size = np.sqrt((orders.walk**2).sum(axis=2, keepdims=True))
    orders.walk[:] /= np.maximum(size, np.float32(1.0))
    _heal(world, button == BUTTON["heal"])
    _recall(world, button)
    _attack(world, button == BUTTON["attack"], action[:, :, 5] - 1, orders)
    _cast_skills(world, action, orders)
    return orders


def _heal(world: World, heals: np.ndarray) -> None:
    share = np.where(heals, np.float32(rules.HEAL_SHARE), np.float32(0.0))
    world.health[:, :, HERO] += share * world.max_health[:, :, HERO]
    np.copyto(world.heal_wait, _HEAL_WAIT, where=heals)


def _recall(world: World, button: np.ndarray) -> None:
    """Start, continue and stop recalls; standing still continues them, and every other button stops them."""
    starts = (button == BUTTON["recall"]) & (world.recall == 0)
    stays = (button == BUTTON["recall"]) | (button == BUTTON["none"])
    world.recall[:] = np.where(starts, _RECALL, np.where(stays, world.recall, 0))


def _attack(world: World, attacks: np.ndarray, target: np.ndarray, orders: Orders) -> None:
    """Attack the target, or walk to it if it is out of reach."""
    slot, found = _resolve_targets(world, target, world.attackable)
    acts = attacks & found
    distance2 = np.take_along_axis(world.distance2[:, :, HERO], slot[:, :, None], axis=2)[:, :, 0]
    in_reach = distance2 <= world.reach[:, :, HERO] ** 2
    _walk_to(world, acts & ~in_reach, slot, orders)
    match, side = np.nonzero(acts & in_reach & (world.wait[:, :, HERO] == 0))
    struck = slot[match, side]
    orders.damage[match, side, struck] += world.attack[match, side, HERO]
    world.wait[match, side, HERO] = HeroTables.attack_wait[world.kind[match, side]]
    world.aim[match, side, HERO] = struck


def _resolve_targets(world: World, target: np.ndarray, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return slots ``[B, 2] int64``, the nearest one for -1, and whether each can be chosen, ``[B, 2] bool``."""
    slot = np.where(target < 0, nearest_targets(world, among), target)
    safe = np.maximum(slot, 0)
    able = np.take_along_axis(among, safe[:, :, None], axis=2)[:, :, 0]
    return safe, able & (slot >= 0)


def _walk_to(world: World, walks: np.ndarray, slot: np.ndarray, orders: Orders) -> None:
    match, side = np.nonzero(walks)
    if match.size:
        dx, dy = world.dx[match, side, slot[match, side]], world.dy[match, side, slot[match, side]]
        far = np.maximum(np.sqrt(dx * dx + dy * dy), np.float32(1e-6))
        orders.walk[match, side, 0], orders.walk[match, side, 1] = dx / far, dy / far


def _cast_skills(world: World, action: np.ndarray, orders: Orders) -> None:
    """Cast skills; one that needs a unit out of reach is not cast, and the hero walks to the unit instead."""
    skill = action[:, :, 0] - BUTTON["skill1"]
    casts = (skill >= 0) & (skill < 3)
    if not casts.any():
        return
    skill = np.clip(skill, 0, 2)
    among = world.attackable.copy()
    among[:, :, rules.STRUCTURES] = False
    slot, found = _resolve_targets(world, action[:, :, 5] - 1, among)
    aimed = SkillTables.aim[world.kind, skill] == Aim.TARGET
    distance2 = np.take_along_axis(world.distance2[:, :, HERO], slot[:, :, None], axis=2)[:, :, 0]
    near = found & (distance2 <= SkillTables.reach[world.kind, skill] ** 2)
    _walk_to(world, casts & aimed & found & ~near, slot, orders)
    match, side = np.nonzero(casts & (near | ~aimed))
    towards = directions(action[match, side, 3:5])
    chosen = Casts(
        match, side, world.kind[match, side], skill[match, side], towards[:, 0], towards[:, 1], slot[match, side]
    )
    cast(world, chosen, orders.damage)


def walk(world: World, orders: Orders) -> None:
    """Move heroes that are alive and not stunned."""
    speed = HeroTables.speed[world.kind] * np.float32(TICK_S)
    speed = speed * np.where(world.slow > 0, _SLOWED, np.float32(1.0)) * (world.alive & (world.stun == 0))
    x, y = world.x[:, :, HERO], world.y[:, :, HERO]
    x += orders.walk[:, :, 0] * speed
    y += orders.walk[:, :, 1] * speed
    np.clip(x, 0.0, LENGTH, out=x)
    np.clip(y, 0.0, WIDTH, out=y)
