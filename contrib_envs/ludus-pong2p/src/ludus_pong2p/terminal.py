"""Fields and moves as text."""

from __future__ import annotations

import numpy as np
from ludus.controls import Controls

from ludus_pong2p.court import BALL, SIDE, Court

_ACTIONS = ("stay", "up", "down")
CHOICES = "0 (stay), 1 (up) or 2 (down)"

_LEFT, _RIGHT, _PLAIN = "\x1b[36m", "\x1b[33m", "\x1b[0m"
_BLOCKS = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}


def render(court: Court, scores: np.ndarray, match: int) -> str:
    """Return one match as text: a character is two units high and one wide; seat 0 is on the left.

    Args:
        court: State of all matches.
        scores: ``[2, B] int64``.
        match: Match index.
    """
    size = int(SIDE)
    lit = np.zeros((size, size + 2), bool)  # with a column for each paddle
    lit[_span(court.y[match], BALL), 1:-1][:, _span(court.x[match], BALL)] = True
    for seat, column in enumerate((0, -1)):
        lit[_span(court.paddle[seat, match], court.half[seat, match]), column] = True
    edge = f"  +{'-' * (size + 2)}+"
    lines = [f"  {_LEFT}{scores[0, match]}{_PLAIN} : {_RIGHT}{scores[1, match]}{_PLAIN}", edge]
    for upper, lower in zip(lit[::2], lit[1::2], strict=True):
        left, *middle, right = (_BLOCKS[bool(a), bool(b)] for a, b in zip(upper, lower, strict=True))
        lines.append(f"  |{_LEFT}{left}{_PLAIN}{''.join(middle)}{_RIGHT}{right}{_PLAIN}|")
    return "\n".join([*lines, edge])


def _span(centre: float, half: float) -> slice:
    """Return the cells covered along one axis, rounded, and at least one."""
    first = round(float(centre - half + SIDE / 2))
    return slice(first, max(first + 1, round(float(centre + half + SIDE / 2))))


def action_name(action: int) -> str:
    """Return the name of an action."""
    return _ACTIONS[action]


def parse_action(text: str) -> int:
    """Parse an action from its name, first letter or number.

    Raises:
        ValueError: The text names no action.
    """
    typed = text.strip().lower()
    for action, name in enumerate(_ACTIONS):
        if typed in (name, name[0], str(action)):
            return action
    raise ValueError(f"expected stay, up or down (s, u, d), got {text.strip()!r}")


def make_controls(court: Court, seat: int) -> Controls:
    """Return the controls of a seat: the paddle moves towards the place that the person points to.

    Args:
        court: State of all matches.
        seat: The seat.
    """

    def point(match: int, _x: float, y: float) -> str:
        offset = y - SIDE / 2 - float(court.paddle[seat, match])
        return _ACTIONS[0] if abs(offset) <= float(court.half[seat, match]) / 2 else _ACTIONS[1 if offset < 0 else 2]

    keys = {"ArrowUp": "up", "u": "up", "ArrowDown": "down", "d": "down", "s": "stay"}
    return Controls(keys=keys, idle="stay", point=point, pointing="the paddle follows while a button is pressed")
