"""Random numbers of a match: functions of its seed, for many matches at once."""

from __future__ import annotations

import numpy as np
from ludus.random import random_bits, random_floats

__all__ = ["fractions", "orders"]


def fractions(seeds: np.ndarray, first: int, count: int) -> np.ndarray:
    """Return ``[n, count] float64`` in [0, 1): independent numbers, number `first` and on of each seed.

    Args:
        seeds: ``[n] uint64``.
        first: Number of the first one.
        count: How many.
    """
    return random_floats(random_bits(seeds[:, None], np.arange(first, first + count)))


def orders(seeds: np.ndarray, first: int, count: int) -> np.ndarray:
    """Return ``[n, count] int64``: a random order of 0 … count - 1 for each seed."""
    drawn: np.ndarray = fractions(seeds, first, count).argsort(axis=1)
    return drawn
