"""The choices of a unit, and their names.

A unit stops, moves in one of eight directions, attacks the nearest enemy, prefers those on the ground or in the air, or
attacks the enemy in a slot. A unit out of reach walks to the enemy that it attacks. Directions are in the frame of the
side: ``e`` is towards the enemy's edge, ``s`` is down.
"""

from __future__ import annotations

import numpy as np

DIRECTIONS = ("e", "se", "s", "sw", "w", "nw", "n", "ne")
STOP, MOVE, NEAREST, GROUND_FIRST, AIR_FIRST, SLOT = 0, 1, 9, 10, 11, 12
NAMES = ("stop", *(f"move:{name}" for name in DIRECTIONS), "attack", "attack:ground", "attack:air")
_DIAGONAL = np.sqrt(0.5)
#: Steps of every choice before `SLOT` in x and y, ``[12] float32``; 0 for choices that are no moves.
STEP_X = np.array([0, 1, _DIAGONAL, 0, -_DIAGONAL, -1, -_DIAGONAL, 0, _DIAGONAL, 0, 0, 0], np.float32)
STEP_Y = np.array([0, 0, _DIAGONAL, 1, _DIAGONAL, 0, -_DIAGONAL, -1, -_DIAGONAL, 0, 0, 0], np.float32)


def choices(slots: int) -> int:
    """Return the number of choices of a unit in a battle with N = `slots` units a side."""
    return SLOT + slots


def choice_name(choice: int) -> str:
    """Return the name of a choice, such as ``"move:e"``, ``"attack"`` or ``"attack:3"``."""
    return NAMES[choice] if choice < SLOT else f"attack:{choice - SLOT}"


def action_name(action: np.ndarray) -> str:
    """Return the names of the choices of all units of an action ``[L]``, separated by spaces."""
    return " ".join(choice_name(int(choice)) for choice in action)


def parse_action(text: str, units: int, slots: int) -> np.ndarray:
    """Parse the choices of `units` units, separated by spaces; a single one is that of all units.

    Raises:
        ValueError: The text is not an action; the message lists what is.
    """
    words = text.split()
    if len(words) not in (1, units):
        raise ValueError(f"expected one choice for all units or one for each of {units}, got {len(words)}")
    return np.array([_parse_choice(word, slots) for word in words] * (units // len(words)), np.int64)


def _parse_choice(word: str, slots: int) -> int:
    if word in NAMES:
        return NAMES.index(word)
    verb, _, slot = word.partition(":")
    if verb == "attack" and slot.isdecimal() and int(slot) < slots:
        return SLOT + int(slot)
    raise ValueError(f"expected one of {', '.join(NAMES)} or attack:0 to attack:{slots - 1}, got {word!r}")
