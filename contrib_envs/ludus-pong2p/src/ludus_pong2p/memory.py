"""Memory of an agent: one entry for each stream it plays."""

from __future__ import annotations

import numpy as np

__all__ = ["BallTracker"]


class BallTracker:
    """Named arrays with one row per stream, which grow as streams appear and start as zeros.

    Args:
        widths: How many float64 numbers a row of each array has.
    """

    def __init__(self, **widths: int) -> None:
        self.fresh = np.ones(0, bool)
        self._arrays = {name: np.zeros((0, width)) for name, width in widths.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        """Return the array ``[seat_ids, width]`` of that name."""
        return self._arrays[name]

    def take(self, seat_ids: np.ndarray) -> np.ndarray:
        """Return which of the streams ``[n] int64`` have just begun, ``[n] bool``; they no longer count as such."""
        self._grow(int(seat_ids.max(initial=-1)) + 1)
        fresh: np.ndarray = self.fresh[seat_ids]
        self.fresh[seat_ids] = False
        return fresh

    def forget(self, seat_ids: np.ndarray) -> None:
        """Clear the rows of streams ``[n] int64``, which begin anew."""
        self._grow(int(seat_ids.max(initial=-1)) + 1)
        self.fresh[seat_ids] = True
        for array in self._arrays.values():
            array[seat_ids] = 0.0

    def _grow(self, count: int) -> None:
        missing = count - len(self.fresh)
        if missing > 0:
            self.fresh = np.concatenate([self.fresh, np.ones(missing, bool)])
            self._arrays = {n: np.concatenate([a, np.zeros((missing, a.shape[1]))]) for n, a in self._arrays.items()}
