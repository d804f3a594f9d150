"""Boards as scenes of shapes; a cell is one unit."""

from __future__ import annotations

import numpy as np
from ludus.rendering import Box, Circle, Label, Scene, Shape

from ludus_board.rules import Rules

_FRAME, _HOLE = "#1f4e8c", "#f4f6fa"
_STONES = ("#d55e00", "#f0c000")  # by seat
MARGIN = 0.5  #: Left of the cells.


def draw_scene(rules: Rules, board: np.ndarray) -> Scene:
    """Return ``board [rows, columns, 2] int8`` as a scene: seat 0 is orange, seat 1 yellow.

    Rows and columns have the names by which moves are typed.
    """
    height, width = rules.shape
    shapes: list[Shape] = [Box(MARGIN, 0, width, height, _FRAME)]
    for row in range(height):
        for column in range(width):
            own, other = board[row, column]
            color = _STONES[0] if own else _STONES[1] if other else _HOLE
            shapes.append(Circle(column + MARGIN + 0.5, row + 0.5, 0.4, color))
    shapes += [Label(column + MARGIN + 0.5, height + 0.25, str(column + 1), 0.35) for column in range(width)]
    if rules.num_actions == height * width:  # an action names a cell
        shapes += [Label(MARGIN / 2, row + 0.5, "abc"[row], 0.35) for row in range(height)]
    return Scene(width=width + 2 * MARGIN, height=height + MARGIN, shapes=shapes)
