"""Memory per stream for agents and interfaces that remember, without a Python loop over rows."""

from __future__ import annotations

import numpy as np
from attrs import define, field

__all__ = ["SeatRows"]


def _no_ids() -> np.ndarray:
    return np.zeros(0, np.int64)


@define
class SeatRows:
    """Gives every stream id a row of its own in the caller's arrays and knows which rows start anew.

    Ids may be any int64; they are few and come back (match row * seats + seat), so a row is never given up.
    """

    _ids: np.ndarray = field(init=False, factory=_no_ids)  # [k] sorted
    _rows: np.ndarray = field(init=False, factory=_no_ids)  # [k] row of each id
    _fresh: np.ndarray = field(init=False, factory=lambda: np.zeros(0, bool))  # [k] by row

    @property
    def count(self) -> int:
        """Return k, the number of rows given out; the caller's arrays need that many."""
        return int(self._ids.size)

    def rows(self, seat_ids: np.ndarray) -> np.ndarray:
        """Return the row ``[n] int64`` of each stream; streams not seen before get new, fresh rows."""
        known = self._find(seat_ids)
        if not known.all():
            self._add(np.unique(seat_ids[~known]))
        return np.asarray(self._rows[np.searchsorted(self._ids, seat_ids)])

    def reset(self, seat_ids: np.ndarray) -> None:
        """Make the rows of these streams fresh; unknown streams are fresh already."""
        known = seat_ids[self._find(seat_ids)]
        self._fresh[self._rows[np.searchsorted(self._ids, known)]] = True

    def take_fresh(self, rows: np.ndarray) -> np.ndarray:
        """Return ``[n] bool``: which rows are fresh; from now on none of them is."""
        fresh = self._fresh[rows]
        self._fresh[rows] = False
        return np.asarray(fresh)

    def _find(self, seat_ids: np.ndarray) -> np.ndarray:
        if not self._ids.size:
            return np.zeros(seat_ids.shape, bool)
        at = np.minimum(np.searchsorted(self._ids, seat_ids), self._ids.size - 1)
        return np.asarray(self._ids[at] == seat_ids)

    def _add(self, new: np.ndarray) -> None:
        rows = np.arange(self.count, self.count + new.size)
        ids = np.concatenate([self._ids, new])
        order = np.argsort(ids)
        self._ids, self._rows = ids[order], np.concatenate([self._rows, rows])[order]
        self._fresh = np.concatenate([self._fresh, np.ones(new.size, bool)])
