"""Keys and places of the picture that cat and mice are played with."""

from __future__ import annotations

import math

from ludus.controls import Controls

from ludus_chase.actions import DIRECTIONS, MOVES
from ludus_chase.world import World

_EAST, _SOUTH, _WEST, _NORTH = "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"
_CHORDS = (  # in the order of MOVES[1:]
    *(_EAST, f"{_EAST} {_SOUTH}", _SOUTH, f"{_WEST} {_SOUTH}"),
    *(_WEST, f"{_WEST} {_NORTH}", _NORTH, f"{_EAST} {_NORTH}"),
)
_LETTERS = {
    "mouse": {
        "l": "lift",
        "g": "grab",
        " ": "grab",
        "d": "drop",
        "p": "push",
        "c": "crack",
        "r": "rescue",
        "x": "disarm",
        "u": "use",
        "a": "ability",
    },
    "cat": {
        "h": "hit",
        " ": "hit",
        "c": "catch",
        "t": "tie",
        "d": "drop",
        "r": "trap",
        "v": "glove",
        "g": "grab",
        "u": "use",
        "a": "ability",
    },
}
_NEAR = 0.7  # cells within which a walk has arrived


def make_controls(world: World, role: str, agent: int) -> Controls:
    """Return the controls of an agent.

    Args:
        world: State of all matches.
        role: Its role.
        agent: Its number: 0 for the cat, from 1 for the mice.
    """
    letters = _LETTERS[role]
    keys = {**dict(zip(_CHORDS, MOVES[1:], strict=True)), **letters}
    aimed = [(letter, action) for letter, action in letters.items() if action in ("use", "ability")]
    for chord, direction in zip(_CHORDS, DIRECTIONS[::2], strict=True):
        keys |= {f"{letter} {chord}": f"{action}:{direction}" for letter, action in aimed}

    def point(match: int, x: float, y: float) -> str:
        right, down = x - float(world.x[match, agent]), y - float(world.y[match, agent])
        if math.hypot(right, down) < _NEAR:
            return MOVES[0]
        return MOVES[1 + round(math.atan2(down, right) / (math.pi / 4)) % 8]

    return Controls(keys=keys, idle=MOVES[0], point=point, pointing="walk there while a button is pressed")
