"""Numbers of the rules. Cells of a board are numbered through, row by row, with a border of rigid walls around it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import frozen

#: Codes of cells, as observations show them.
PASSAGE, RIGID, WOOD, BOMB, FLAMES, FOG, EXTRA_BOMB, LONGER_RANGE, KICK, NO_AGENT, AGENT = range(11)
ITEMS = (EXTRA_BOMB, LONGER_RANGE, KICK)
#: Actions; the directions are numbered alike in observations of bombs.
STOP, UP, DOWN, LEFT, RIGHT, LAY = range(6)
ACTIONS = ("stop", "up", "down", "left", "right", "bomb")
WORDS, SYMBOLS = 2, 8

AMMO, STRENGTH = 1, 2
MAX_AMMO, MAX_STRENGTH = 10, 10
BOMB_LIFE = 9  # what observations show first; the step that lays a bomb counts
FLAME_LIFE = 3
RINGS = 4  # outer rings that collapse


@frozen
class Variant:
    """What distinguishes the variants of the game.

    Args:
        size: Rows and columns of the board.
        teams: Team of each seat.
        rigid: Number of rigid walls; likewise `wood`, and `items` under wood.
        view: Cells that a seat sees in each direction; 0: all.
        radio: Whether seats send words to their teammates.
        collapse: Whether outer rings become walls in the end.
    """

    size: int
    teams: tuple[int, ...]
    rigid: int = 36
    wood: int = 36
    items: int = 20
    view: int = 0
    radio: bool = False
    collapse: bool = False

    @property
    def is_free_for_all(self) -> bool:
        """Return whether each of four seats plays for itself."""
        return len(set(self.teams)) == 4


VARIANTS: Mapping[str, Variant] = {
    "ffa": Variant(11, (0, 1, 2, 3)),
    "team": Variant(11, (0, 1, 0, 1), view=4),
    "radio": Variant(11, (0, 1, 0, 1), view=4, radio=True),
    "one-vs-one": Variant(8, (0, 1), 16, 16, 10),
    "collapse": Variant(11, (0, 1, 2, 3), collapse=True),
}


def steps(size: int) -> np.ndarray:
    """Return how much each action changes the number of a cell, ``[6] int64``."""
    width = size + 2
    return np.array([0, -width, width, -1, 1, 0])


def cell_number(size: int, row: int, column: int) -> int:
    """Return the number of a cell."""
    return (row + 1) * (size + 2) + column + 1


def starts(size: int, seats: int, inset: int = 0) -> tuple[tuple[int, int], ...]:
    """Return rows and columns in which seats start.

    Args:
        size: Rows and columns of the board.
        seats: 4: all corners against the clock from the upper left one; 2: the upper left and the lower right one.
        inset: Cells by which starts are nearer to the centre.
    """
    low, high = 1 + inset, size - 2 - inset
    corners = ((low, low), (high, low), (high, high), (low, high))
    return corners if seats == 4 else (corners[0], corners[2])
