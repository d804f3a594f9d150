"""Ratings of participants from their matches: rating tables for leagues, and pure functions of NumPy arrays.

The functions number participants 0 to n - 1. They take a list of matches, or a table ``points [n, n]`` of the points of
i against j (1 for a win, ½ for a draw), see `points_from_matches`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ludus_ratings.functions import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        """Import the functions at the first access: every process of ludus imports this package."""
        return getattr(import_module("ludus_ratings.functions"), name)
