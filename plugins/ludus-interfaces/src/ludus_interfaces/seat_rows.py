"""Rows of arrays by seat id, for stateful agents and interfaces, without a Python loop."""

from __future__ import annotations

import numpy as np
from attrs import define, field

__all__ = ["SeatRows"]


def _no_ids() -> np.ndarray:
    return np.zeros(0, np.int64)


@define
class SeatRows:
    """Assigns every seat id a row in the caller's arrays, and marks rows of seats whose match starts as fresh.

    Seat ids may be any int64. They are few and occur again, so rows are not released.
    """

    _ids: np.ndarray = field(init=False, factory=_no_ids)  # [k] sorted
    _rows: np.ndarray = field(init=False, factory=_no_ids)  # [k] row of each id
    _fresh: np.ndarray = field(init=False, factory=lambda: np.zeros(0, bool))  # [k] by row

    @property
    def count(self) -> int:
        """Return k, the number of rows that the caller's arrays need."""
        return int(self._ids.size)

    def rows(self, seat_ids: np.ndarray) -> np.ndarray:
        """Return the row ``[n] int64`` of each seat id; new seat ids get new, fresh rows."""
        known = self._find(seat_ids)
        if not known.all():
            self._add(np.unique(seat_ids[~known]))
        return np.asarray(self._rows[np.searchsorted(self._ids, seat_ids)])

    def reset(self, seat_ids: np.ndarray) -> None:
        """Mark the rows of these seat ids as fresh."""
        known = seat_ids[self._find(seat_ids)]
        self._fresh[self._rows[np.searchsorted(self._ids, known)]] = True

    def take_fresh(self, rows: np.ndarray) -> np.ndarray:
        """Return ``[n] bool``, whether the rows are fresh, and clear the marks."""
        fresh = self._fresh[rows]
        self._fresh[rows] = False
        return np.asarray(fresh)

    def _find(self, seat_ids: np.ndarray) -> np.ndarray:
        if not self._ids.size:
            return np.zeros(seat_ids.shape, bool)
        position = np.minimum(np.searchsorted(self._ids, seat_ids), self._ids.size - 1)
        return np.asarray(self._ids[position] == seat_ids)

    def _add(self, new: np.ndarray) -> None:
        rows = np.arange(self.count, self.count + new.size)
        ids = np.concatenate([self._ids, new])
        order = np.argsort(ids)
        self._ids, self._rows = ids[order], np.concatenate([self._rows, rows])[order]
        self._fresh = np.concatenate([self._fresh, np.ones(new.size, bool)])
