"""Random numbers of matches, as functions of their seeds."""

from __future__ import annotations

import numpy as np
from ludus.random import random_bits, random_floats

__all__ = ["draw_floats", "draw_permutations"]


def draw_floats(seeds: np.ndarray, first: int, count: int) -> np.ndarray:
    """Return the random numbers `first` to ``first + count - 1`` of each seed, ``[n, count] float64`` in [0, 1).

    Args:
        seeds: ``[n] uint64``.
        first: Index of the first number.
        count: Number of random numbers.
    """
    return random_floats(random_bits(seeds[:, None], np.arange(first, first + count)))


def draw_permutations(seeds: np.ndarray, first: int, count: int) -> np.ndarray:
    """Return a random permutation of 0 … count - 1 for each seed, ``[n, count] int64``."""
    drawn: np.ndarray = draw_floats(seeds, first, count).argsort(axis=1)
    return drawn
