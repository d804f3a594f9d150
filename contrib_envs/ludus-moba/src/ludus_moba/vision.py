"""What each side sees: units within sight, and units in brush only from near or from the same brush."""

from __future__ import annotations

import numpy as np

from ludus_moba import rules
from ludus_moba.rules import CRYSTAL, HERO, INNER, MINIONS, OUTER
from ludus_moba.world import World, target_health, target_places

_SIGHT2 = (rules.SIGHT**2)[:, None]
_BRUSH2 = rules.BRUSH_SIGHT**2


def brush_of(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the brush area of each place, an array of x's shape: 0 for none, else 1 + its index."""
    found: np.ndarray = np.zeros(x.shape, np.int8)
    for number, (left, right, low, high) in enumerate(rules.BRUSHES, 1):
        found[(x >= left) & (x <= right) & (y >= low) & (y <= high)] = number
    return found


def perceive(world: World) -> None:
    """Update distances and visibility of all targets after units have moved."""
    x, y = target_places(world)
    dx = x[:, :, None, :] - world.x[:, :, :, None]
    dy = y[:, :, None, :] - world.y[:, :, :, None]
    world.dx[:], world.dy[:] = dx[:, :, HERO], dy[:, :, HERO]
    dx *= dx
    dy *= dy
    np.add(dx, dy, out=world.distance2)
    present = target_health(world) > 0
    world.visible[:] = present
    world.visible[:, :, HERO] &= _see_hero(world, x[:, :, HERO], y[:, :, HERO])
    far = (world.distance2[:, :, :, MINIONS] > _SIGHT2) | (world.health <= 0)[:, :, :, None]
    world.visible[:, :, MINIONS] &= ~far.all(axis=2)
    world.attackable[:] = world.visible
    world.attackable[:, :, INNER] &= ~present[:, :, OUTER]
    world.attackable[:, :, CRYSTAL] &= ~present[:, :, INNER]


def _see_hero(world: World, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return ``[B, 2] bool``: whether any unit of the side sees the enemy hero at ``x, y [B, 2]``."""
    distance2 = world.distance2[:, :, :, HERO]
    seen = (distance2 <= rules.SIGHT**2) & (world.health > 0)
    brush = brush_of(x, y)[:, :, None]
    inside = brush > 0
    if inside.any():
        seen &= ~inside | (distance2 <= _BRUSH2) | (brush_of(world.x, world.y) == brush)
    return np.asarray(seen.any(axis=2))
