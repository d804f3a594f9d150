"""Matches as text: the field from the side of seat 0, two characters per unit of length in x and one line in y."""

from __future__ import annotations

import numpy as np

from ludus_skirmish import kinds
from ludus_skirmish.kinds import TICK_S
from ludus_skirmish.names import KINDS
from ludus_skirmish.world import COLUMN, World

_SIDES = ("\x1b[36;1m", "\x1b[31;1m")
_PLAIN = "\x1b[0m"


def place(world: World, match: int, side: int, slot: int) -> tuple[float, float]:
    """Return x and y of a unit in the frame of seat 0."""
    x, y = float(world.x[match, side, slot]), float(world.y[match, side, slot])
    return (x if side == 0 else world.size - x), y


def living_units(world: World, match: int) -> list[tuple[int, int]]:
    """Return side and slot of all living units, those in the air last."""
    units = [(int(side), int(slot)) for side, slot in np.argwhere(world.alive[match])]
    return sorted(units, key=lambda unit: bool(kinds.AIR[world.kind[(match, *unit)]]))


def unit_mark(world: World, match: int, side: int, slot: int) -> str:
    """Return the first letter of the kind of a unit; bombers are ``x``."""
    kind = KINDS[int(world.kind[match, side, slot])]
    return "x" if kind == "bomber" else kind[0] if kind != "brute" else "u"


def render(world: World, match: int) -> str:
    """Return a match as text."""
    size = int(world.size)
    canvas = [[" "] * (2 * size) for _ in range(size)]
    for side, slot in living_units(world, match):
        x, y = place(world, match, side, slot)
        line, column = min(int(y), size - 1), min(int(2 * x), 2 * size - 1)
        canvas[line][column] = f"{_SIDES[side]}{unit_mark(world, match, side, slot)}{_PLAIN}"
    edge = "─" * (2 * size)
    return "\n".join([caption(world, match), edge, *("".join(line) for line in canvas), edge])


def caption(world: World, match: int) -> str:
    """Return the time, and a line about each army."""
    lines = [f"{world.ticks[match] * TICK_S:.1f} s"]
    for side, name in enumerate(("left", "right")):
        alive = world.alive[match, side]
        health, shield = (float(points[match, side][alive].sum()) for points in (world.health, world.shield))
        kills = world.tally[match, side, COLUMN["kills"]]
        lines.append(f"{name}: {int(alive.sum())} units, health {health:.0f}, shields {shield:.0f}, kills {kills:.0f}")
    return "\n".join(lines)
