"""Rows that are equal, found by their bytes: a network that has been asked once need not be asked again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from ludus_ppo.row_keys import hash_rows, keys_of

__all__ = ["kinds_of", "one_of_each"]

_CHUNK_BYTES = 1 << 22  # read at once
_PLACES = 8  # for every row, at least, in the table in which equal rows meet

_Read: TypeAlias = Callable[[np.ndarray], Sequence[np.ndarray]]


def kinds_of(read: _Read, entries: np.ndarray, *, row_bytes: int) -> np.ndarray:
    """Return the kind of every row, ``[n] int64``, the number of one of its rows: they are equal to the bit.

    Args:
        read: Returns the leaves of so many entries, ``[m, …]`` each.
        entries: What to read, ``[n] int64``.
        row_bytes: Of all leaves of one row, about.
    """
    at_once = max(1, _CHUNK_BYTES // max(1, row_bytes))

    def chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
        return (rows[start : start + at_once] for start in range(0, rows.size, at_once))

    hashes = np.concatenate([hash_rows(keys_of(read(entries[rows]))) for rows in chunks(np.arange(entries.size))])
    kinds = np.arange(entries.size)
    bits = (_PLACES * kinds.size).bit_length()
    places, table = hashes >> np.uint64(64 - bits), np.empty(1 << bits, np.int64)
    table[places] = kinds  # of several rows, the last
    first = table[places]
    crowded = np.flatnonzero(hashes[first] != hashes)  # another kind has the place of all of these
    _, one, of_row = np.unique(hashes[crowded], return_index=True, return_inverse=True)
    first[crowded] = crowded[one][of_row]
    alike = np.flatnonzero(first != kinds)
    for rows in chunks(alike):
        if not np.array_equal(keys_of(read(entries[rows])), keys_of(read(entries[first[rows]]))):
            return kinds  # one hash for different rows: hardly ever
    kinds[alike] = first[alike]
    return kinds


def one_of_each(kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one row of each kind, and where among these the kind of every row is, int64.

    Args:
        kinds: ``[n] int64``, ≥ 0.

    Returns:
        ``[k]`` and ``[n]``: with both, ``kinds[kept][place] == kinds``.
    """
    order, place = np.arange(kinds.size), np.empty(kinds.max() + 1, np.int64)
    place[kinds] = order  # of several rows, the last
    kept = np.flatnonzero(place[kinds] == order)
    place[kinds[kept]] = np.arange(kept.size)
    return kept, place[kinds]
