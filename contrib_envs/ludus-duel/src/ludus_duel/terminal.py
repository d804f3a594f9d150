"""Fights as text."""

from __future__ import annotations

from ludus_duel.actions import SIDES
from ludus_duel.fight import Fight

_COLOURS = ("\x1b[36m", "\x1b[33m")
_WARNING, _FAINT, _PLAIN = "\x1b[31m", "\x1b[2m", "\x1b[0m"
_BAR, _LINE = 24, 50
_GUARDS = {0: "◀ ", 1: "▲ ", 2: "▶ "}


def render(fight: Fight, match: int, *, left_s: float) -> str:
    """Return a match as text; seat 0 stands on the left.

    Args:
        fight: State of all matches.
        match: Match index.
        left_s: Time left in seconds.
    """
    lines = [f"  {left_s:5.1f} s left"]
    for seat in range(2):
        lines += _fighter(fight, 2 * match + seat, seat)
    return "\n".join([*lines, _floor(fight, match)])


def _fighter(fight: Fight, fighter: int, seat: int) -> list[str]:
    rules, tables, colour = fight.config, fight.tables, _COLOURS[seat]
    health, stamina = max(float(fight.health[fighter]), 0.0), float(fight.stamina[fighter])
    tired = f" {_WARNING}exhausted{_PLAIN}" if fight.exhausted[fighter] else ""
    guard = _GUARDS[int(fight.stance[fighter])] + SIDES[int(fight.stance[fighter])]
    if fight.turn_ticks[fighter]:
        guard = f"{_FAINT}{guard} → {SIDES[int(fight.new_stance[fighter])]}{_PLAIN}"
    return [
        f"  {colour}seat {seat}{_PLAIN}  health  {colour}{_bar(health / rules.health)}{_PLAIN} {health:5.1f}   {guard}",
        f"          stamina {_bar(stamina / rules.stamina)} {stamina:5.1f}{tired}",
        f"          {_animation(fight, fighter, tables.names[int(fight.move[fighter])])}",
    ]


def _animation(fight: Fight, fighter: int, name: str) -> str:
    """Return the name of an animation and a mark per tick: ● passed, · to come, ! may land."""
    if fight.move[fighter] == 0:
        return name
    tables, ticks = fight.tables, int(fight.move_ticks[fighter])
    first = int(fight.move[fighter]) * tables.width + tables.offset
    total = int(tables.duration[fight.move[fighter]])
    dots = ["!" if tables.lands[first + tick] else "●" if tick <= ticks else "·" for tick in range(1, total + 1)]
    return f"{name} {''.join(dots)}"


def _bar(share: float) -> str:
    full = round(share * _BAR)
    return "█" * full + "░" * (_BAR - full)


def _floor(fight: Fight, match: int) -> str:
    """Return the positions between the walls as a line of text."""
    arena = fight.config.arena_cm
    left = round(float(fight.room[2 * match]) / arena * _LINE)
    right = round(float(fight.room[2 * match + 1]) / arena * _LINE)
    between = max(_LINE - left - right, 1)
    marks = [f"{colour}{mark}{_PLAIN}" for colour, mark in zip(_COLOURS, "><", strict=True)]
    return f"  |{' ' * left}{marks[0]}{'_' * between}{marks[1]}{' ' * right}|  {fight.gap()[2 * match]:.0f} cm"
