"""Matches as scenes of shapes: the field from the side of seat 0."""

from __future__ import annotations

from collections.abc import Iterator

from ludus.rendering import Box, Circle, Label, Line, Scene, Shape

from ludus_moba import rules
from ludus_moba.rules import HERO, LENGTH, MINIONS, OUTER, STRUCTURES, UNITS, WIDTH
from ludus_moba.terminal import caption, unit_mark
from ludus_moba.world import World

_GROUND, _LANE, _BRUSH = "#1f2a22", "#3a3528", "#2f5a35"
_SIDES = ("#6fb7e9", "#e4572e")
_PACK, _MONSTER, _HEALTH, _LOST, _RANGE = "#7fbf7f", "#b080d0", "#7fbf7f", "#5a2020", "#54606c"


def draw_scene(world: World, match: int) -> Scene:
    """Return a match as a scene: seat 0 is blue and attacks to the right, seat 1 is red."""
    shapes = [*_ground(world, match), *_units(world, match)]
    return Scene(width=LENGTH, height=WIDTH, shapes=shapes, background=_GROUND, caption=caption(world, match))


def _ground(world: World, match: int) -> Iterator[Shape]:
    yield Box(0.0, rules.LANE_Y - 4.0, LENGTH, 8.0, _LANE)
    for left, right, low, high in rules.BRUSHES:
        yield Box(left, low, right - left, high - low, _BRUSH)
    if world.monster_health[match] > 0:
        yield Circle(LENGTH / 2, rules.MONSTER_Y, 1.4, _MONSTER)
    for side in (0, 1):
        if world.pack_wait[match, side] == 0:
            yield Circle(_x(side, rules.PACK_X), rules.PACK_Y, 0.8, _PACK)


def _x(side: int, x: float) -> float:
    return x if side == 0 else LENGTH - x


def _units(world: World, match: int) -> Iterator[Shape]:
    for slot in (*range(MINIONS.start, UNITS), HERO):
        for side in (0, 1):
            if world.health[match, side, slot] > 0:
                yield from _unit(world, match, side, slot)


def _unit(world: World, match: int, side: int, slot: int) -> Iterator[Shape]:
    x, y = _x(side, float(world.x[match, side, slot])), float(world.y[match, side, slot])
    radius = 1.3 if slot == HERO else 1.6 if slot >= STRUCTURES.start else 0.6
    share = float(world.health[match, side, slot] / world.max_health[match, side, slot])
    if slot in (HERO, *range(OUTER, UNITS)):
        yield Box(x - radius, y - radius - 0.9, 2 * radius, 0.5, _LOST)
        yield Box(x - radius, y - radius - 0.9, 2 * radius * min(max(share, 0.01), 1.0), 0.5, _HEALTH)
    target = int(world.aim[match, side, slot])
    if slot in (OUTER, OUTER + 1) and target == HERO:
        enemy = 1 - side
        yield Line(x, y, _x(enemy, float(world.x[match, enemy, HERO])), float(world.y[match, enemy, HERO]), _RANGE)
    yield Circle(x, y, radius, _SIDES[side])
    yield Label(x, y, unit_mark(slot), 1.2 * radius)
