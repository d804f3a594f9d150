"""Random boards, drawn from the seeds of matches."""

from __future__ import annotations

import numpy as np
from ludus.random import random_bits, random_floats, random_integers

from ludus_pommerman.rules import ITEMS, PASSAGE, RIGID, WOOD, starts

#: Passages that no agent may ever reach, at most.
UNREACHABLE = 4
_ATTEMPTS = 200
_ITEM_KEY, _KIND_KEY = 1 << 20, 1 << 21


def free_pairs(size: int, seats: int, inset: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of mirrored cells that walls may take, and the cells of the fixed wood between starts.

    Args:
        size: Rows and columns of the board.
        seats: 2 or 4.
        inset: Cells by which starts are nearer to the centre.

    Returns:
        ``[p, 2] int64``, row and column above the diagonal, and ``[w, 2] int64``.
    """
    low, high = 1 + inset, size - 2 - inset
    ends = starts(size, seats, inset)
    near = {(row, column) for start in ends for row, column in _beside(start, low, high)}
    wood: set[tuple[int, int]] = set()
    if seats == 4:
        between = range(low + 3, high - 2)
        wood = {cell for k in between for cell in ((low, k), (high, k), (k, low), (k, high))}
    taken = near | wood | set(ends)
    pairs = [(row, column) for row in range(size) for column in range(row + 1, size) if (row, column) not in taken]
    return np.array(pairs).reshape(-1, 2), np.array(sorted(wood), np.int64).reshape(-1, 2)


def _beside(start: tuple[int, int], low: int, high: int) -> list[tuple[int, int]]:
    """Return the two cells beside a start in each direction to the other corners."""
    row, column = start
    down, right = 1 if row == low else -1, 1 if column == low else -1
    return [cell for k in (1, 2) for cell in ((row + down * k, column), (row, column + right * k)) if max(cell) <= high]


def draw_boards(seeds: np.ndarray, counts: np.ndarray, size: int, seats: int, inset: int) -> np.ndarray:
    """Draw boards in which at most `UNREACHABLE` passages are out of reach.

    Args:
        seeds: ``[n] uint64``.
        counts: ``[n, 2] int64``: rigid and wooden walls; odd numbers and those of the fixed wood are exceeded.
        size: Rows and columns.
        seats: 2 or 4.
        inset: Cells by which starts are nearer to the centre.

    Returns:
        ``[n, size + 2, size + 2] uint8`` with a border of rigid walls.
    """
    boards = np.zeros((len(seeds), size + 2, size + 2), np.uint8)
    missing = np.arange(len(seeds))
    for attempt in range(_ATTEMPTS):
        boards[missing] = _draw(seeds[missing], counts[missing], size, seats, inset, attempt)
        missing = missing[_unreachable(boards[missing], starts(size, seats, inset)) > UNREACHABLE]
        if not missing.size:
            break
    return boards


def _draw(seeds: np.ndarray, counts: np.ndarray, size: int, seats: int, inset: int, attempt: int) -> np.ndarray:
    pairs, fixed = free_pairs(size, seats, inset)
    order = random_bits(seeds[:, None], attempt * len(pairs) + np.arange(len(pairs))).argsort(axis=1)
    rank = order.argsort(axis=1)
    rigid = (counts[:, :1] + 1) // 2
    fixed_count = np.where(counts[:, 1:] > 0, len(fixed), 0)
    wood = rigid + np.maximum(counts[:, 1:] - fixed_count + 1, 0) // 2
    kind = np.where(rank < rigid, RIGID, np.where(rank < wood, WOOD, PASSAGE))
    inner = np.zeros((len(seeds), size, size), np.uint8)
    inner[:, pairs[:, 0], pairs[:, 1]] = kind
    inner[:, pairs[:, 1], pairs[:, 0]] = kind
    inner[:, fixed[:, 0], fixed[:, 1]] = np.where(fixed_count > 0, WOOD, PASSAGE)
    return np.pad(inner, ((0, 0), (1, 1), (1, 1)), constant_values=RIGID)


def _unreachable(boards: np.ndarray, ends: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Return the number of passages that the agent at the lower right cannot reach, even through wood, ``[n]``."""
    is_open = boards != RIGID
    reached = np.zeros_like(is_open)
    row, column = max(ends)
    reached[:, row + 1, column + 1] = True
    count = 0
    while count != (count := int(reached.sum())):
        spread = reached.copy()
        spread[:, 1:] |= reached[:, :-1]
        spread[:, :-1] |= reached[:, 1:]
        spread[:, :, 1:] |= reached[:, :, :-1]
        spread[:, :, :-1] |= reached[:, :, 1:]
        reached = spread & is_open
    passages = boards == PASSAGE
    for row, column in ends:
        passages[:, row + 1, column + 1] = False
    return np.asarray((passages & ~reached).sum(axis=(1, 2)))


def hide_items(seeds: np.ndarray, boards: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Hide items under distinct wooden walls; fewer where there is less wood.

    Args:
        seeds: ``[n] uint64``.
        boards: ``[n, C] uint8``.
        counts: ``[n] int64``, number of items.

    Returns:
        ``[n, C] uint8``: a kind of `ITEMS`, or 0.
    """
    cells = np.arange(boards.shape[1])
    draw = np.where(boards == WOOD, random_floats(random_bits(seeds[:, None], _ITEM_KEY + cells)), 2.0)
    has_item = (draw.argsort(axis=1).argsort(axis=1) < counts[:, None]) & (boards == WOOD)
    kind = np.array(ITEMS, np.uint8)[random_integers(random_bits(seeds[:, None], _KIND_KEY + cells), len(ITEMS))]
    return np.where(has_item, kind, 0).astype(np.uint8)
