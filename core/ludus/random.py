"""Random numbers of a match: a function of its seed and of what they are for, for many matches at once.

Environments that draw by them need no generator for each match, and a match repeats whatever the others do.
"""

from __future__ import annotations

import numpy as np

__all__ = ["below", "draw", "fractions"]


def draw(seeds: np.ndarray, streams: np.ndarray | int) -> np.ndarray:
    """Return independent numbers ``uint64`` (SplitMix64) in the shape that seeds and streams have together.

    Args:
        seeds: ``uint64``.
        streams: Numbers ≥ 0: what is drawn for.
    """
    with np.errstate(over="ignore"):
        z: np.ndarray = seeds + (np.asarray(streams, np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z


def below(numbers: np.ndarray, count: int) -> np.ndarray:
    """Return ``int64`` in [0, count), uniform for uniform ``numbers uint64``."""
    chosen: np.ndarray = (numbers % np.uint64(count)).astype(np.int64)
    return chosen


def fractions(numbers: np.ndarray) -> np.ndarray:
    """Return ``float64`` in [0, 1), uniform for uniform ``numbers uint64``."""
    shares: np.ndarray = (numbers >> np.uint64(11)) * 2.0**-53
    return shares
