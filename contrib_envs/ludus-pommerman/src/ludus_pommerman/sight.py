"""What a scripted agent computes from an observation: distances, bombs in line, ways out. Batched over n rows."""

from __future__ import annotations

import functools

import numpy as np
from attrs import frozen
from ludus.environment import Leaves

from ludus_pommerman.rules import AGENT, DOWN, FLAMES, FOG, ITEMS, LEFT, PASSAGE, RIGHT, RIGID, UP, steps

FAR = 999
#: Cells farther than this, row and column together, are ignored.
_DEPTH = 10


@frozen(eq=False)
class Tables:
    """Relations between all pairs of the C cells of a board with its border.

    Attributes:
        steps: ``[6] int64``, see `rules.steps`.
        apart: ``[C, C] int16``: rows and columns between two cells.
        line: ``[C, C] int16``: cells between two cells of one row or column; `FAR` for others.
        side: ``[C, C] int8``: direction from the first cell to the second one in its row or column; 0: none.
        on_board: ``[C] bool``.
    """

    steps: np.ndarray
    apart: np.ndarray
    line: np.ndarray
    side: np.ndarray
    on_board: np.ndarray


@functools.cache
def tables(size: int) -> Tables:
    """Return the tables of boards of a size."""
    row, column = np.indices((size + 2,) * 2).reshape(2, -1)
    down, right = row - row[:, None], column - column[:, None]
    apart = (abs(down) + abs(right)).astype(np.int16)
    in_column, in_row = right == 0, down == 0
    side = np.select(
        [in_column & (down < 0), in_column & (down > 0), in_row & (right < 0), in_row & (right > 0)],
        [UP, DOWN, LEFT, RIGHT],
    ).astype(np.int8)
    line = np.where(in_column | in_row, apart, FAR).astype(np.int16)
    inside = (np.minimum(row, column) > 0) & (np.maximum(row, column) <= size)
    return Tables(steps(size), apart, line, side, inside)


@frozen(eq=False)
class Sight:
    """What n agents see.

    Attributes:
        tables: Relations between cells.
        board: ``[n, C] uint8`` with a border of rigid walls.
        strength: ``[n, C] int16``: of bombs; 0: no bomb.
        me: ``[n] int64``: the own cell.
        enemy: ``[n, C] bool``.
        passable: ``[n, C] bool``: passages, items, teammates, the own cell.
        distance: ``[n, C] int16``: steps to each cell; `FAR` where there is no way.
        ammo: ``[n] int64``; likewise `reach`, the strength of own bombs.
    """

    tables: Tables
    board: np.ndarray
    strength: np.ndarray
    me: np.ndarray
    enemy: np.ndarray
    passable: np.ndarray
    distance: np.ndarray
    ammo: np.ndarray
    reach: np.ndarray

    def take(self, cells: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return the values of a map ``[n, C]`` in the cells ``at [n, k]``."""
        taken: np.ndarray = np.take_along_axis(cells, at, axis=1)
        return taken

    def neighbours(self, cell: np.ndarray) -> np.ndarray:
        """Return the cells ``[n, 4]`` above, below, left and right of the cells ``[n]``."""
        beside: np.ndarray = cell[:, None] + self.tables.steps[1:5]
        return beside

    def is_bombing_safe(self) -> np.ndarray:
        """Return ``[n] bool``: there is ammunition, and a way to a passage beyond the blast or beside its lines."""
        beside = self.tables.line[self.me] == FAR
        out = (self.distance > self.reach[:, None]) | beside
        return np.asarray((self.ammo > 0) & ((self.board == PASSAGE) & (self.distance < FAR) & out).any(axis=1))

    def is_in_line(self, cell: np.ndarray) -> np.ndarray:
        """Return ``[n] bool``: the cells ``[n]`` are in a line with a bomb, within its strength."""
        return np.asarray(((self.strength > 0) & (self.tables.line[cell] <= self.strength)).any(axis=1))

    def nearest(self, wanted: np.ndarray, radius: int, rng: np.random.Generator) -> np.ndarray:
        """Return the direction of a shortest way to the nearest wanted cell, ``[n] int64``; 0: none within reach.

        Args:
            wanted: ``[n, C] int``: 0 for cells that are not wanted; of equal distances the greatest number wins.
            radius: Greatest distance.
            rng: Chooses between ways of equal length.
        """
        cells = wanted.shape[1]
        key = (self.distance.astype(np.int64) * 16 - wanted) * cells - np.arange(cells)
        key[(wanted == 0) | (self.distance > radius)] = FAR * 16 * cells
        cell = key.argmin(axis=1)
        found = np.take_along_axis(key, cell[:, None], axis=1)[:, 0] < FAR * 16 * cells
        for _ in range(radius - 1):
            left = self.take(self.distance, cell[:, None])
            before = self.neighbours(np.where(left[:, 0] > 1, cell, self.me))
            is_way = (self.take(self.distance, before) == left - 1) & self.take(self.passable, before)
            chosen = (rng.random(is_way.shape) * is_way).argmax(axis=1)
            step_back = found & (left[:, 0] > 1)
            cell = np.where(step_back, np.take_along_axis(before, chosen[:, None], axis=1)[:, 0], cell)
        rows = np.arange(len(cell))
        return np.where(found, self.tables.side[self.me, cell][rows], 0).astype(np.int64)


def _spread(reached: np.ndarray, width: int) -> np.ndarray:
    """Return the cells ``[n, C] bool`` with their four neighbours; cells of the border get wrong values."""
    spread = reached.copy()
    for step in (1, width):
        spread[:, step:] |= reached[:, :-step]
        spread[:, :-step] |= reached[:, step:]
    return spread


def flood(start: np.ndarray, passable: np.ndarray, width: int) -> np.ndarray:
    """Return the cells ``[n, C] bool`` that can be reached from the cells ``start [n]`` over passable ones."""
    reached = np.zeros_like(passable)
    reached[np.arange(len(start)), start] = True
    count = 0
    while count != (count := int(reached.sum())):
        reached |= _spread(reached, width) & passable
    return reached


def look(observation: Leaves, size: int) -> Sight:
    """Return what agents see.

    Args:
        observation: Leaves of the environment, ``[n, …]``.
        size: Rows and columns of the board.
    """
    border = ((0, 0), (1, 1), (1, 1))
    board = np.pad(observation["board"], border, constant_values=RIGID).reshape(-1, (size + 2) ** 2)
    strength = np.pad(observation["bomb_blast_strength"], border).reshape(board.shape).astype(np.int16)
    position = observation["position"].astype(np.int64)
    me = (position[:, 0] + 1) * (size + 2) + position[:, 1] + 1
    enemy = (board[:, :, None] == observation["enemies"][:, None]).any(axis=2) & (board >= AGENT)
    passable = ((board == PASSAGE) | (board >= ITEMS[0])) & ~enemy
    known, found = tables(size), ~np.isin(board, (FOG, RIGID, FLAMES))
    distance = _distances(me, passable, found & (known.apart[me] <= _DEPTH), size + 2)
    ammo, reach = (observation[name][:, 0].astype(np.int64) for name in ("ammo", "blast_strength"))
    return Sight(known, board, strength, me, enemy, passable, distance, ammo, reach)


def _distances(me: np.ndarray, passable: np.ndarray, known: np.ndarray, width: int) -> np.ndarray:
    """Return the numbers of steps ``[n, C] int16`` from the cells ``me``; ways lead over passable known cells."""
    distance = np.full(known.shape, FAR, np.int16)
    edge = np.zeros_like(known)
    edge[np.arange(len(me)), me] = True
    distance[edge] = 0
    length = 0
    while edge.any():
        length += 1
        edge = _spread(edge & passable, width) & known & (distance == FAR)
        distance[edge] = length
    return distance
