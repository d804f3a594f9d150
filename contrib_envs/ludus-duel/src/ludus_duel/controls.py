"""Keys and places of the picture that fighters are played with."""

from __future__ import annotations

from ludus.controls import Controls

from ludus_duel.actions import SIDES
from ludus_duel.fight import Fight
from ludus_duel.scene import GROUND, HEAD, SHOULDER

_BY_SIDE = {"stance": "qwe", "light": "asd", "heavy": "zxc", "parry": "fgh", "lunge": "456", "feint-light": "uio"}
_KEYS = {
    **{key: f"{kind}-{side}" for kind, keys in _BY_SIDE.items() for key, side in zip(keys, SIDES, strict=True)},
    "1": "dodge-left",
    "2": "dodge-back",
    "3": "dodge-right",
    "ArrowUp": "dodge-forward",
    "ArrowDown": "dodge-back",
    "r": "guard-break",
    "t": "feint",
    "v": "counter",
    "7": "strike-left",
    "8": "strike-right",
    "9": "bash",
    "0": "sweep",
    "y": "feint-guard-break",
    "b": "throw-forward",
    "n": "throw-back",
    " ": "breathe",
}
_NEAR_CM = 60.0  # from the middle of the opponent


def make_controls(fight: Fight, seat: int) -> Controls:
    """Return the controls of a seat.

    Args:
        fight: State of all matches.
        seat: The seat; seat 0 stands on the left.
    """
    keys = {"ArrowRight": "retreat" if seat else "advance", "ArrowLeft": "advance" if seat else "retreat"}

    def point(match: int, x: float, y: float) -> str:
        arena, rooms = fight.config.arena_cm, fight.room[2 * match : 2 * match + 2]
        places = (float(rooms[0]), arena - float(rooms[1]))
        own, other = places[seat], places[1 - seat]
        if abs(x - other) > _NEAR_CM:
            return "advance" if (x > own) == (other > own) else "retreat"
        upper, lower = GROUND - HEAD + 20, GROUND - SHOULDER / 2
        return "light-top" if y < upper else "light-right" if y < lower else "light-left"

    pointing = "on the opponent: a light attack from the top, right or left; elsewhere: walk"
    return Controls(keys={**_KEYS, **keys}, idle="wait", point=point, pointing=pointing)
