"""Matches as text: the field from the side of seat 0, one character per unit in x and one line per two in y."""

from __future__ import annotations

import numpy as np

from ludus_moba import rules
from ludus_moba.names import NAMES
from ludus_moba.rules import CRYSTAL, HERO, INNER, LENGTH, MINIONS, OUTER, TICK_S, UNITS, WIDTH
from ludus_moba.vision import brush_of
from ludus_moba.world import COLUMN, World

_SIDES = ("\x1b[36;1m", "\x1b[31;1m")
_FAINT, _GOAL, _PLAIN = "\x1b[2m", "\x1b[33m", "\x1b[0m"
_LINES = int(WIDTH / 2)


def unit_mark(slot: int) -> str:
    """Return the character of a unit by its slot."""
    if slot == HERO:
        return "H"
    if slot in (OUTER, INNER):
        return "T"
    if slot == CRYSTAL:
        return "C"
    return "mrs"[(slot >= rules.RANGED.start) + (slot >= rules.SIEGE.start)]


def render(world: World, match: int) -> str:
    """Return a match as text."""
    canvas = _ground()
    if world.monster_health[match] > 0:
        _put(canvas, LENGTH / 2, rules.MONSTER_Y, f"{_GOAL}M{_PLAIN}")
    for side in (0, 1):
        pack_x = rules.PACK_X if side == 0 else LENGTH - rules.PACK_X
        if world.pack_wait[match, side] == 0:
            _put(canvas, pack_x, rules.PACK_Y, f"{_GOAL}+{_PLAIN}")
    for slot in (*range(MINIONS.start, UNITS), HERO):
        for side in (0, 1):
            if world.health[match, side, slot] > 0:
                x = float(world.x[match, side, slot])
                mark = f"{_SIDES[side]}{unit_mark(slot)}{_PLAIN}"
                _put(canvas, x if side == 0 else LENGTH - x, float(world.y[match, side, slot]), mark)
    edge = "─" * int(LENGTH)
    return "\n".join([caption(world, match), edge, *("".join(line) for line in canvas), edge])


def _ground() -> list[list[str]]:
    x, y = np.meshgrid(np.arange(LENGTH) + 0.5, 2.0 * np.arange(_LINES) + 1.0)
    return [[f"{_FAINT}░{_PLAIN}" if cell else " " for cell in line] for line in brush_of(x, y)]


def _put(canvas: list[list[str]], x: float, y: float, mark: str) -> None:
    canvas[min(max(int(y / 2), 0), _LINES - 1)][min(max(int(x), 0), int(LENGTH) - 1)] = mark


def caption(world: World, match: int) -> str:
    """Return the time, and a line about each hero."""
    lines = [f"{world.ticks[match] * TICK_S:.0f} s"]
    for side in (0, 1):
        tally = world.tally[match, side]
        health = max(float(world.health[match, side, HERO]), 0.0)
        lines.append(
            f"{'left' if side == 0 else 'right'} {NAMES[int(world.kind[match, side])]}, level "
            f"{int(world.level[match, side])}, health {health:.0f}, mana {float(world.mana[match, side]):.0f}, gold "
            f"{float(world.gold[match, side]):.0f}, kills {tally[COLUMN['kills']]:.0f}, last hits "
            f"{tally[COLUMN['last_hits']]:.0f}"
        )
    return "\n".join(lines)
