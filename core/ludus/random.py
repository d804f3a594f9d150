"""Random numbers of a match, as a function of its seed and of a key, for many matches at once.

An environment that uses them needs no generator per match, and a match repeats whatever the other matches do.
"""

from __future__ import annotations

import numpy as np

__all__ = ["random_bits", "random_floats", "random_integers"]


def random_bits(seeds: np.ndarray, keys: np.ndarray | int) -> np.ndarray:
    """Return independent ``uint64`` numbers (SplitMix64) in the common broadcast shape of `seeds` and `keys`.

    Args:
        seeds: ``uint64``, seeds of matches.
        keys: Integers ≥ 0. Different keys give independent numbers of the same match.
    """
    with np.errstate(over="ignore"):
        z: np.ndarray = seeds + (np.asarray(keys, np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z


def random_integers(bits: np.ndarray, count: int) -> np.ndarray:
    """Return ``int64`` in [0, count), uniform if ``bits uint64`` are."""
    integers: np.ndarray = (bits % np.uint64(count)).astype(np.int64)
    return integers


def random_floats(bits: np.ndarray) -> np.ndarray:
    """Return ``float64`` in [0, 1), uniform if ``bits uint64`` are."""
    floats: np.ndarray = (bits >> np.uint64(11)) * 2.0**-53
    return floats
