"""One tick of all matches. Both sides act on the same state, so that neither seat has an advantage."""

from __future__ import annotations

import numpy as np

from ludus_skirmish import kinds
from ludus_skirmish.actions import AIR_FIRST, GROUND_FIRST, NEAREST, SLOT, STEP_X, STEP_Y
from ludus_skirmish.kinds import TICK_S, ticks_of
from ludus_skirmish.world import COLUMN, World, other, perceive

_FAR, _PREFERENCE = np.float32(1e9), np.float32(1e6)  # above any distance; the first one above both
_CALM = ticks_of(kinds.CALM_S)
_RECOVERY = np.float32(kinds.SHIELD_PER_S * TICK_S)
_STEP = kinds.SPEED * np.float32(TICK_S)
_INSIDE = np.float32(0.99)  # a unit walks a little further than the edge of its reach, against rounding
_HALF = np.float32(0.5)


def advance(world: World, choice: np.ndarray) -> None:
    """Advance all running matches by one tick.

    Args:
        world: State to change.
        choice: ``[B, 2, N] int64``: legal choices, 0 for units that do not act.
    """
    world.ticks += world.running
    np.maximum(world.wait - 1, 0, out=world.wait)
    target = _choose_targets(world, choice)
    slot = np.maximum(target, 0)[..., None]
    distance = np.take_along_axis(world.distance, slot, axis=3)[..., 0]
    room = distance - np.take_along_axis(world.reach, slot, axis=3)[..., 0]
    has_target = target >= 0
    _attack(world, target, has_target & (room <= 0) & (world.wait == 0))
    _walk(world, choice, slot, distance, np.where(has_target & (room > 0), room, 0))
    collide(world)
    _recover(world)
    perceive(world)


def _choose_targets(world: World, choice: np.ndarray) -> np.ndarray:
    """Return ``[B, 2, N] int64``: the slot that each unit attacks, -1 for none."""
    target = np.where(choice >= SLOT, choice - SLOT, -1)
    match, side, unit = np.nonzero((choice >= NEAREST) & (choice < SLOT))
    if match.size:
        score = np.where(world.targets[match, side, unit], world.distance[match, side, unit], _FAR)
        in_air = kinds.AIR[world.kind[match, 1 - side]]
        first = choice[match, side, unit][:, None]
        avoided = ((first == GROUND_FIRST) & in_air) | ((first == AIR_FIRST) & ~in_air)
        target[match, side, unit] = (score + _PREFERENCE * avoided).argmin(axis=1)
    return target


def _attack(world: World, target: np.ndarray, strikes: np.ndarray) -> None:
    """Apply the damage of all units that strike; shields absorb it first."""
    world.aim[:] = np.where(strikes, target, -1)
    damage = np.zeros(world.health.shape, np.float32)
    blasts = strikes & (kinds.BLAST[world.kind] > 0)
    match, side, unit = np.nonzero(strikes & ~blasts)
    world.wait[match, side, unit] = kinds.PERIOD[world.kind[match, side, unit]]
    struck = target[match, side, unit]
    flat = (match * 2 + 1 - side) * world.health.shape[2] + struck
    power = world.power[match, side, unit, struck]
    damage += np.bincount(flat, weights=power, minlength=damage.size).reshape(damage.shape).astype(np.float32)
    if blasts.any():
        damage += _explode(world, blasts)
    _hurt(world, damage, blasts)


def _explode(world: World, blasts: np.ndarray) -> np.ndarray:
    """Return the damage ``[B, 2, N] float32`` of exploding units to each unit: all enemies that their blast reaches."""
    damage = np.zeros(world.health.shape, np.float32)
    match, side, unit = np.nonzero(blasts)
    enemy = world.kind[match, 1 - side]
    radius = kinds.BLAST[world.kind[match, side, unit]][:, None] + kinds.RADIUS[enemy]
    hit = (world.distance[match, side, unit] <= radius) & ~kinds.AIR[enemy]
    np.add.at(damage, (match, 1 - side), np.where(hit, world.power[match, side, unit], np.float32(0.0)))
    return damage


def _hurt(world: World, damage: np.ndarray, blasts: np.ndarray) -> None:
    before = world.alive
    damage = damage * before
    absorbed = np.minimum(damage, world.shield)
    lost = np.minimum(damage - absorbed, np.maximum(world.health, 0))
    world.shield -= absorbed
    world.health -= lost
    kills = other((before & ~world.alive).sum(axis=2))
    world.health[blasts] = 0  # an exploding unit is a loss, and a kill only where enemies destroyed it too
    world.calm[:] = np.where(damage > 0, 0, world.calm + 1)
    taken = (absorbed + lost).sum(axis=2)
    dead = before & ~world.alive
    world.shield[dead] = 0
    gains = {"kills": kills, "losses": dead.sum(axis=2), "dealt": other(taken), "taken": taken}
    for name, gain in gains.items():
        world.tally[:, :, COLUMN[name]] += gain


def _walk(world: World, choice: np.ndarray, slot: np.ndarray, distance: np.ndarray, room: np.ndarray) -> None:
    """Move units in their direction, or by at most `room` to a target out of reach."""
    order = np.minimum(choice, NEAREST)
    step = _STEP[world.kind] * world.alive
    towards = np.where(room > 0, np.minimum(step, room + (1 - _INSIDE)), np.float32(0.0))
    towards /= np.maximum(distance, np.float32(1e-6))
    dx, dy = (np.take_along_axis(offset, slot, axis=3)[..., 0] for offset in (world.dx, world.dy))
    world.x += STEP_X[order] * step + dx * towards
    world.y += STEP_Y[order] * step + dy * towards
    _stay_inside(world)


def _stay_inside(world: World) -> None:
    radius = kinds.RADIUS[world.kind]
    for place in (world.x, world.y):
        np.clip(place, radius, np.float32(world.size) - radius, out=place)


def collide(world: World) -> None:
    """Push units on the ground apart: two bodies that overlap each move by half of the overlap."""
    solid = world.alive & ~kinds.AIR[world.kind]
    radius = kinds.RADIUS[world.kind]
    push_x, push_y = np.zeros_like(world.x), np.zeros_like(world.y)
    own = (world.x, world.y, radius, solid)
    enemies = (np.float32(world.size) - other(world.x), other(world.y), other(radius), other(solid))
    for x, y, other_radius, other_solid in (own, enemies):
        dx, dy = world.x[..., None] - x[:, :, None], world.y[..., None] - y[:, :, None]
        distance = np.sqrt(dx * dx + dy * dy)
        overlap = radius[..., None] + other_radius[:, :, None] - distance
        overlap *= solid[..., None] & other_solid[:, :, None] & (overlap > 0)
        share = _HALF * overlap / np.maximum(distance, np.float32(1e-6))
        push_x += (dx * share).sum(axis=3)
        push_y += (dy * share).sum(axis=3)
    world.x += push_x
    world.y += push_y
    _stay_inside(world)


def _recover(world: World) -> None:
    """Let shields return to units without recent damage."""
    gain = _RECOVERY * (world.alive & (world.calm >= _CALM))
    np.minimum(world.shield + gain, kinds.SHIELD[world.kind], out=world.shield)


def remaining_value(world: World) -> np.ndarray:
    """Return ``[B, 2] float64``: the value of the units of both sides, each times its share of health and shield."""
    full = kinds.HEALTH[world.kind] + kinds.SHIELD[world.kind]
    share = (np.maximum(world.health, 0) + world.shield) / full
    return np.asarray((kinds.VALUE[world.kind] * share * world.alive).sum(axis=2, dtype=np.float64).round(4))
