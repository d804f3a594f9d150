"""Structs of arrays over matches."""

from __future__ import annotations

from typing import Self, TypeAlias

import attrs
import numpy as np

__all__ = ["Indices", "MatchArrays"]

#: Match indices ``[n] int64``, or the slice of all matches, which makes no copies.
Indices: TypeAlias = "np.ndarray | slice"


@attrs.define
class MatchArrays:
    """Base of attrs classes all of whose fields are arrays ``[B, …]``."""

    def take(self, at: Indices) -> Self:
        """Return the entries of the matches `at`: views for a slice, else copies."""
        return type(self)(**{name: array[at] for name, array in self.arrays().items()})

    def put(self, at: Indices, new: Self) -> None:
        """Overwrite the entries of the matches `at` with those of `new`."""
        fresh = new.arrays()
        for name, array in self.arrays().items():
            array[at] = fresh[name]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by field name."""
        return {name: getattr(self, name) for name in (field.name for field in attrs.fields(type(self)))}
