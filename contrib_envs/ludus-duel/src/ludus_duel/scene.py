"""Fights as scenes of shapes: the fighters from the side, in centimetres."""

from __future__ import annotations

from attrs import frozen
from ludus.rendering import Box, Circle, Label, Line, Scene, Shape

from ludus_duel.actions import SIDES
from ludus_duel.fight import Fight

_COLORS = ("#3ec1d3", "#f0c000")  # by seat
_FLOOR, _EMPTY, _STAMINA, _TIRED, _HIT = "#3a424c", "#2a3038", "#7fbf7f", "#a05050", "#ff5040"
_HEIGHT, GROUND = 420.0, 380.0  # of the picture, and of the ground below its top
SHOULDER, HEAD, _BODY = 130.0, 160.0, 22.0  # heights above the ground, and half the width of a fighter
_BLADE = 95.0
_GUARDS = ((75.0, 45.0), (25.0, 100.0), (90.0, -15.0))  # where a blade points by side: forward and upward


@frozen
class _Fighter:
    """What is drawn of a fighter.

    Args:
        x: Distance from the left wall.
        forward: 1 for a fighter that looks to the right, else -1.
        color: Colour of the fighter.
    """

    x: float
    forward: int
    color: str


def draw_scene(fight: Fight, match: int, *, left_s: float) -> Scene:
    """Return a match as a scene; seat 0 stands on the left.

    Args:
        fight: State of all matches.
        match: Match index.
        left_s: Time left in seconds.
    """
    arena = fight.config.arena_cm
    shapes: list[Shape] = [Box(0, GROUND, arena, _HEIGHT - GROUND, _FLOOR)]
    shapes.append(Label(arena / 2, 40, f"{left_s:.1f}", 30))
    for seat in range(2):
        number = 2 * match + seat
        room = float(fight.room[number])
        fighter = _Fighter(arena - room if seat else room, -1 if seat else 1, _COLORS[seat])
        shapes += _bars(fight, number, left=arena * (0.58 if seat else 0.04), width=arena * 0.38, color=_COLORS[seat])
        shapes += _body(fight, number, fighter)
    return Scene(width=arena, height=_HEIGHT, shapes=shapes)


def _bars(fight: Fight, number: int, *, left: float, width: float, color: str) -> list[Shape]:
    """Return the bars of health and stamina, and the names of stance and animation."""
    health = max(float(fight.health[number]), 0.0) / fight.config.health
    stamina = float(fight.stamina[number]) / fight.config.stamina
    shapes: list[Shape] = []
    bars = ((health, 20.0, 30.0, color), (stamina, 58.0, 14.0, _TIRED if fight.exhausted[number] else _STAMINA))
    for share, top, height, ink in bars:
        shapes.append(Box(left, top, width, height, _EMPTY))
        if share > 0:
            shapes.append(Box(left, top, min(share, 1.0) * width, height, ink))
    guard = SIDES[int(fight.stance[number])]
    if fight.turn_ticks[number]:
        guard = f"{guard} → {SIDES[int(fight.new_stance[number])]}"
    name = fight.tables.names[int(fight.move[number])]
    return [*shapes, Label(left + width / 2, 100, f"{guard}   {name}", 24, color)]


def _body(fight: Fight, number: int, fighter: _Fighter) -> list[Shape]:
    """Return a fighter: its blade points to the guarded side, and forward while an attack may land."""
    tables, move = fight.tables, int(fight.move[number])
    attacks = bool(tables.lands[move * tables.width + tables.offset + int(fight.move_ticks[number])])
    x, shoulder = fighter.x, GROUND - SHOULDER
    forward, upward = (_BLADE, 0.0) if attacks else _GUARDS[int(fight.stance[number])]
    blade = _HIT if attacks else "#ffffff"
    return [
        Box(x - _BODY, shoulder, 2 * _BODY, SHOULDER, fighter.color),
        Circle(x, GROUND - HEAD, _BODY, fighter.color),
        Line(x, shoulder + 25, x + fighter.forward * forward, shoulder + 25 - upward, blade, width=8),
    ]
