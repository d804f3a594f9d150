"""The 18 actions of cat and mouse, the 16 directions, and their names."""

from __future__ import annotations

import math

import numpy as np

#: The first nine actions of both roles: to stay, then walking directions clockwise from the east.
MOVES = ("stay", "east", "south-east", "south", "south-west", "west", "north-west", "north", "north-east")
MOUSE_ACTIONS = (*MOVES, *("lift", "grab", "drop", "push", "crack", "rescue", "disarm", "use", "ability"))
CAT_ACTIONS = (*MOVES, *("hit", "catch", "tie", "drop", "trap", "glove", "grab", "use", "ability"))
#: The number of each action.
MOUSE = {name: number for number, name in enumerate(MOUSE_ACTIONS)}
CAT = {name: number for number, name in enumerate(CAT_ACTIONS)}
#: Directions of throws and leaps: clockwise from the east in steps of 22.5 degrees; south is down.
DIRECTIONS = ("e", "ese", "se", "sse", "s", "ssw", "sw", "wsw", "w", "wnw", "nw", "nnw", "n", "nne", "ne", "ene")
DIRECTION_X = np.array([round(math.cos(k * math.pi / 8), 6) for k in range(16)], np.float32)
DIRECTION_Y = np.array([round(math.sin(k * math.pi / 8), 6) for k in range(16)], np.float32)
#: Unit steps of the 18 actions, 0 for all but the moves.
MOVE_X = np.array([0.0, *DIRECTION_X[::2], *[0.0] * 9], np.float32)
MOVE_Y = np.array([0.0, *DIRECTION_Y[::2], *[0.0] * 9], np.float32)

_NAMES = {"mouse": MOUSE_ACTIONS, "cat": CAT_ACTIONS}
_AIMED = ("use", "ability")


def labels_used(role: str) -> tuple[tuple[bool, bool], ...]:
    """Return for each action which labels it uses: always itself, and the direction for aimed actions."""
    return tuple((True, name in _AIMED) for name in _NAMES[role])


def action_name(role: str, action: np.ndarray) -> str:
    """Return the name of ``action [2]``: the direction follows a colon unless it is east."""
    name, direction = _NAMES[role][int(action[0])], int(action[1])
    return name if direction == 0 else f"{name}:{DIRECTIONS[direction]}"


def parse_action(role: str, text: str) -> tuple[int, int]:
    """Parse action and direction from text; an unambiguous prefix of the action is enough.

    Raises:
        ValueError: The text names no action, or more than one.
    """
    word, _, direction = text.strip().lower().partition(":")
    names = _NAMES[role]
    found = _matching_names(names, word)
    if len(found) != 1:
        raise ValueError(
            f"expected one of {', '.join(found or names)}, with :direction for use and ability; got {text!r}"
        )
    if direction and direction not in DIRECTIONS:
        raise ValueError(f"expected a direction among {', '.join(DIRECTIONS)} after the colon, got {direction!r}")
    return names.index(found[0]), DIRECTIONS.index(direction or "e")


def _matching_names(names: tuple[str, ...], word: str) -> list[str]:
    """Return the name equal to `word`, or else the names that start with it."""
    if word in names:
        return [word]
    return [name for name in names if word and name.startswith(word)]
