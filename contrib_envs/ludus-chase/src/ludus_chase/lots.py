"""Random numbers of a match: functions of its seed, for many matches at once."""

from __future__ import annotations

import numpy as np

__all__ = ["fractions", "orders"]


def fractions(seeds: np.ndarray, first: int, count: int) -> np.ndarray:
    """Return ``[n, count] float64`` in [0, 1): independent numbers (SplitMix64) number `first` and on of each seed.

    Args:
        seeds: ``[n] uint64``.
        first: Number of the first one.
        count: How many.
    """
    streams = np.arange(first + 1, first + 1 + count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z: np.ndarray = seeds[:, None] + streams * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    shares: np.ndarray = (z >> np.uint64(11)) * 2.0**-53
    return shares


def orders(seeds: np.ndarray, first: int, count: int) -> np.ndarray:
    """Return ``[n, count] int64``: a random order of 0 … count - 1 for each seed."""
    drawn: np.ndarray = fractions(seeds, first, count).argsort(axis=1)
    return drawn
