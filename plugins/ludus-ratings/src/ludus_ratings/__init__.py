"""Ratings of participants from their matches: for leagues while they run, and as pure functions of numpy arrays.

For the functions participants are numbers 0 … n - 1. Results are either a list of matches, or a table ``points [n, n]``
of what i got against j (a win 1, a draw ½), see `points_of`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ludus_ratings.functions import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        """Import the functions when the first one is asked for: every process of ludus imports this package."""
        return getattr(import_module("ludus_ratings.functions"), name)
