"""Minions and turrets: what they aim at, their attacks, and the walk of minions."""

from __future__ import annotations

import numpy as np

from ludus_moba import rules
from ludus_moba.rules import ATTACKERS, HERO, LENGTH, MINIONS, SIEGE, STRUCTURES, TICK_S, UNITS
from ludus_moba.world import World, other

_FAR = np.float32(1e9)
_PREFERENCE = np.float32(1e5)  # above any squared distance in the field
_KINDS = UNITS - 2  # the attackers: 14 minions, outer and inner turret
_RANGE2 = np.concatenate(
    [np.full(14, rules.ACQUISITION**2), [rules.KINDS["outer"].reach ** 2, rules.KINDS["inner"].reach ** 2]]
).astype(np.float32)[:, None]
_WAIT = np.array([0] + [rules.ticks_of(rules.KINDS[kind].attack_s) for kind in rules.SLOT_KINDS[:17]])
_STEP = np.float32(rules.MINION_SPEED * TICK_S)
_TO_STRUCTURES = np.ones((UNITS, UNITS), np.float32)
_TO_STRUCTURES[SIEGE, STRUCTURES] = rules.SIEGE_FACTOR


def choose_targets(world: World) -> np.ndarray:
    """Return ``[B, 2, 16] int64``: the target slot of each minion and turret, -1 for none.

    A minion aims at the nearest enemy. A turret aims at the nearest minion, and at the hero if there is none or if the
    hero has just attacked the turret's hero.
    """
    distance2 = world.distance2[:, :, ATTACKERS, :UNITS]
    score = np.where(world.attackable[:, :, None, :UNITS], distance2, _FAR)
    np.copyto(score, _FAR, where=distance2 > _RANGE2)
    hero = score[:, :, 14:, HERO]
    hero += np.where(world.anger[:, :, None] > 0, -_PREFERENCE, _PREFERENCE) * (hero < _FAR)
    target = score.argmin(axis=3)
    best = np.take_along_axis(score, target[..., None], axis=3)[..., 0]
    alive = world.health[:, :, ATTACKERS] > 0
    return np.where(alive & (best < _FAR), target, -1)


def attack(world: World, target: np.ndarray) -> np.ndarray:
    """Let minions and turrets attack what is in reach, and return the damage.

    Args:
        world: State to change.
        target: From `choose_targets`.

    Returns:
        ``[B, 2, 18] float32``: damage of each side to each unit of the other one.
    """
    slot = np.maximum(target, 0)
    distance2 = np.take_along_axis(world.distance2[:, :, ATTACKERS], slot[..., None], axis=3)[..., 0]
    strikes = (target >= 0) & (world.wait[:, :, ATTACKERS] == 0)
    strikes &= distance2 <= world.reach[:, :, ATTACKERS] ** 2
    world.aim[:, :, ATTACKERS] = np.where(target >= 0, target, -1)
    match, side, attacker = np.nonzero(strikes)
    unit, struck = attacker + ATTACKERS.start, slot[match, side, attacker]
    world.wait[match, side, unit] = _WAIT[unit]
    power = world.attack[match, side, unit] * _TO_STRUCTURES[unit, struck]
    power *= 100.0 / (100.0 + world.armour[match, 1 - side, struck])
    count = len(world.ticks)
    flat = (match * 2 + side) * UNITS + struck
    return np.bincount(flat, weights=power, minlength=count * 2 * UNITS).reshape(count, 2, UNITS).astype(np.float32)


def walk(world: World, target: np.ndarray) -> None:
    """Move minions along the lane, or towards a target that is out of reach."""
    target = target[:, :, :14]
    slot = np.maximum(target, 0)
    x, y = world.x[:, :, MINIONS], world.y[:, :, MINIONS]
    to_x = np.take_along_axis(np.float32(LENGTH) - other(world.x), slot, axis=2) - x
    to_y = np.take_along_axis(other(world.y), slot, axis=2) - y
    free = target < 0
    np.copyto(to_x, np.float32(4.0), where=free)
    np.copyto(to_y, np.float32(rules.LANE_Y) + rules.MINION_Y - y, where=free)
    far = np.sqrt(to_x * to_x + to_y * to_y)
    step = np.minimum(_STEP, np.maximum(far - np.where(free, 0.0, world.reach[:, :, MINIONS] * 0.9), 0.0))
    step *= world.health[:, :, MINIONS] > 0
    share = step / np.maximum(far, np.float32(1e-6))
    x += to_x * share
    y += to_y * share
    np.minimum(x, np.float32(LENGTH), out=x)
