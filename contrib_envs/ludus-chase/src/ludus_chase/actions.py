"""The 18 actions of cat and mouse, the 16 directions, and the names they are typed by."""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "CAT",
    "CAT_ACTIONS",
    "DIRECTIONS",
    "DIRECTION_X",
    "DIRECTION_Y",
    "MOUSE",
    "MOUSE_ACTIONS",
    "MOVES",
    "MOVE_X",
    "MOVE_Y",
    "action_name",
    "labels_used",
    "parse_action",
]

#: Walking, the first nine actions of both roles: not at all, then clockwise from the east.
MOVES = ("stay", "east", "south-east", "south", "south-west", "west", "north-west", "north", "north-east")
MOUSE_ACTIONS = (
    *MOVES,
    *("lift", "grab", "drop", "push", "crack", "rescue", "disarm", "use", "ability"),
)
CAT_ACTIONS = (
    *MOVES,
    *("hit", "catch", "tie", "drop", "trap", "glove", "grab", "use", "ability"),
)
#: The number of each action.
MOUSE = {name: number for number, name in enumerate(MOUSE_ACTIONS)}
CAT = {name: number for number, name in enumerate(CAT_ACTIONS)}
#: Where things are thrown and leaps go: clockwise from the east, in steps of 22.5 degrees; south is down.
DIRECTIONS = ("e", "ese", "se", "sse", "s", "ssw", "sw", "wsw", "w", "wnw", "nw", "nnw", "n", "nne", "ne", "ene")
DIRECTION_X = np.array([round(math.cos(k * math.pi / 8), 6) for k in range(16)], np.float32)
DIRECTION_Y = np.array([round(math.sin(k * math.pi / 8), 6) for k in range(16)], np.float32)
#: Unit steps of the 18 actions; all but the moves stand still.
MOVE_X = np.array([0.0, *DIRECTION_X[::2], *[0.0] * 9], np.float32)
MOVE_Y = np.array([0.0, *DIRECTION_Y[::2], *[0.0] * 9], np.float32)

_NAMES = {"mouse": MOUSE_ACTIONS, "cat": CAT_ACTIONS}
_AIMED = ("use", "ability")


def labels_used(role: str) -> tuple[tuple[bool, bool], ...]:
    """Return for each action whether it makes use of itself, always, and of the direction."""
    return tuple((True, name in _AIMED) for name in _NAMES[role])


def action_name(role: str, action: np.ndarray) -> str:
    """Return the name of ``action [2]``: the direction follows a colon unless it is east."""
    name, direction = _NAMES[role][int(action[0])], int(action[1])
    return name if direction == 0 else f"{name}:{DIRECTIONS[direction]}"


def parse_action(role: str, text: str) -> tuple[int, int]:
    """Return action and direction that `text` names; the action may be shortened to what is unambiguous.

    Raises:
        ValueError: It names none, or more than one.
    """
    word, _, where = text.strip().lower().partition(":")
    names = _NAMES[role]
    found = [name for name in names if name == word] or [name for name in names if word and name.startswith(word)]
    if len(found) != 1:
        raise ValueError(f"expected one of {', '.join(found or names)}, with :direction where it matters; got {text!r}")
    if where and where not in DIRECTIONS:
        raise ValueError(f"expected a direction among {', '.join(DIRECTIONS)} after the colon, got {where!r}")
    return names.index(found[0]), DIRECTIONS.index(where or "e")
