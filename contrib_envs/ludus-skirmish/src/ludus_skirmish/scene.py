"""Matches as scenes of shapes: the field from the side of seat 0."""

from __future__ import annotations

from collections.abc import Iterator

from ludus.rendering import Box, Circle, Label, Line, Scene, Shape

from ludus_skirmish import kinds
from ludus_skirmish.terminal import caption, living_units, place, unit_mark
from ludus_skirmish.world import World

_GROUND = "#22302a"
_SIDES = ("#6fb7e9", "#e4572e")
_SHOTS = ("#bfe3ff", "#ffc2a8")
_SHADOW, _HEALTH, _SHIELD, _LOST = "#141c18", "#7fbf7f", "#9ad0f0", "#5a2020"


def draw_scene(world: World, match: int) -> Scene:
    """Return a match as a scene: seat 0 is blue and on the left, seat 1 is red; lines are attacks of the last tick."""
    units = living_units(world, match)
    shapes = [shape for unit in units for shape in _unit(world, match, *unit)]
    shapes += [_shot(world, match, *unit) for unit in units if world.aim[(match, *unit)] >= 0]
    size = world.size
    return Scene(width=size, height=size, shapes=shapes, background=_GROUND, caption=caption(world, match))


def _unit(world: World, match: int, side: int, slot: int) -> Iterator[Shape]:
    (x, y), kind = place(world, match, side, slot), int(world.kind[match, side, slot])
    radius = float(kinds.RADIUS[kind])
    if kinds.AIR[kind]:
        yield Circle(x + 0.25, y + 0.4, radius, _SHADOW)
    yield Circle(x, y, radius, _SIDES[side])
    yield Label(x, y, unit_mark(world, match, side, slot), 1.2 * radius)
    yield from _bar(x, y - radius - 0.35, radius, float(world.health[match, side, slot] / kinds.HEALTH[kind]), _HEALTH)
    if kinds.SHIELD[kind] > 0:
        share = float(world.shield[match, side, slot] / kinds.SHIELD[kind])
        yield from _bar(x, y - radius - 0.6, radius, share, _SHIELD)


def _bar(x: float, y: float, radius: float, share: float, color: str) -> Iterator[Shape]:
    yield Box(x - radius, y, 2 * radius, 0.2, _LOST)
    if share > 0.01:
        yield Box(x - radius, y, 2 * radius * min(share, 1.0), 0.2, color)


def _shot(world: World, match: int, side: int, slot: int) -> Line:
    x, y = place(world, match, side, slot)
    to_x, to_y = place(world, match, 1 - side, int(world.aim[match, side, slot]))
    return Line(x, y, to_x, to_y, _SHOTS[side], width=0.12)
