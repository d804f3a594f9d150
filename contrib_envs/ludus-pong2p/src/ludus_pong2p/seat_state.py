"""State of an agent per seat id."""

from __future__ import annotations

import numpy as np

__all__ = ["SeatState"]


class SeatState:
    """Named arrays over seat ids, which grow on demand and start as zeros.

    Args:
        widths: Number of float64 values per seat id of each array.
    """

    def __init__(self, **widths: int) -> None:
        self.fresh = np.ones(0, bool)
        self._arrays = {name: np.zeros((0, width)) for name, width in widths.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        """Return the array ``[seat ids, width]`` of a name."""
        return self._arrays[name]

    def take_new(self, seat_ids: np.ndarray) -> np.ndarray:
        """Return which seats ``[n] int64`` are new, ``[n] bool``, and mark them as not new."""
        self._grow(int(seat_ids.max(initial=-1)) + 1)
        fresh: np.ndarray = self.fresh[seat_ids]
        self.fresh[seat_ids] = False
        return fresh

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the values of seats ``[n] int64``, which are new again."""
        self._grow(int(seat_ids.max(initial=-1)) + 1)
        self.fresh[seat_ids] = True
        for array in self._arrays.values():
            array[seat_ids] = 0.0

    def _grow(self, count: int) -> None:
        missing = count - len(self.fresh)
        if missing > 0:
            self.fresh = np.concatenate([self.fresh, np.ones(missing, bool)])
            self._arrays = {n: np.concatenate([a, np.zeros((missing, a.shape[1]))]) for n, a in self._arrays.items()}
