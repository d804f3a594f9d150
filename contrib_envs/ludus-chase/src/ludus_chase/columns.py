"""Structs of arrays with a row per match."""

from __future__ import annotations

from typing import Self, TypeAlias

import attrs
import numpy as np

__all__ = ["Columns", "Rows"]

#: Row numbers ``[n] int64``, or the slice of all rows, which makes no copies.
Rows: TypeAlias = "np.ndarray | slice"


@attrs.define
class Columns:
    """Base of attrs classes all of whose fields are arrays ``[B, …]``."""

    def take(self, at: Rows) -> Self:
        """Return the rows `at`: views where it is a slice, else copies."""
        return type(self)(**{name: array[at] for name, array in self.arrays().items()})

    def put(self, at: Rows, new: Self) -> None:
        """Overwrite the rows `at` with those of `new`."""
        fresh = new.arrays()
        for name, array in self.arrays().items():
            array[at] = fresh[name]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by name."""
        return {name: getattr(self, name) for name in (field.name for field in attrs.fields(type(self)))}
