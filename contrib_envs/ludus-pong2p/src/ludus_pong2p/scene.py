"""Fields as scenes of shapes, in the units of the court."""

from __future__ import annotations

import numpy as np
from ludus.rendering import Box, Label, Line, Scene

from ludus_pong2p.court import BALL, SIDE, Court

_PADDLE = 1.5  # thickness
_COLORS = ("#3ec1d3", "#f0c000")  # by seat
_LINE = "#3a424c"


def draw_scene(court: Court, scores: np.ndarray, match: int) -> Scene:
    """Return one match as a scene; seat 0 is on the left.

    Args:
        court: State of all matches.
        scores: ``[2, B] int64``.
        match: Match index.
    """
    middle_x, middle_y = SIDE / 2 + _PADDLE, SIDE / 2
    x, y = middle_x + court.x[match], middle_y + court.y[match]
    paddles = [
        Box(
            seat * (SIDE + _PADDLE),
            middle_y + court.paddle[seat, match] - court.half[seat, match],
            _PADDLE,
            2 * court.half[seat, match],
            _COLORS[seat],
        )
        for seat in range(2)
    ]
    points = [
        Label(middle_x + side * 4, 3, str(scores[seat, match]), 4, _COLORS[seat]) for seat, side in ((0, -1), (1, 1))
    ]
    return Scene(
        width=SIDE + 2 * _PADDLE,
        height=SIDE,
        shapes=[
            Line(middle_x, 0, middle_x, SIDE, _LINE, width=0.3),
            *points,
            *paddles,
            Box(x - BALL, y - BALL, 2 * BALL, 2 * BALL),
        ],
    )
