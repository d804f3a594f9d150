"""Hashes of the states of matches, which a replay compares with its record.

A hash covers the observations of all seats. It is a sum of the words of their memory, each multiplied by a random odd
number, modulo 2^64, of which the upper half is kept. One changed word always changes the sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ludus.environment import EnvironmentSpec, Tick
from ludus.random import random_bits
from ludus.spaces import leaf_spaces

#: Ticks between two hashes of a running match.
HASH_INTERVAL = 16

_WORD_BYTES = (8, 4, 2, 1)


class StateLeaves:
    """Finds what is hashed.

    Args:
        spec: Specification of the environment.
    """

    def __init__(self, spec: EnvironmentSpec) -> None:
        self._names = [(role.name, name) for role in spec.roles for name in sorted(leaf_spaces(role.observation_space))]

    def __call__(self, tick: Tick) -> list[np.ndarray]:
        """Return the observations of all seats, ``[B, S, …]`` per role and leaf, in a fixed order."""
        roles = tick.roles
        return [roles[role].observation[name] for role, name in self._names]


class StateHash:
    """Computes hashes; keeps the multipliers of every array."""

    def __init__(self) -> None:
        self._multipliers: dict[tuple[int, int], np.ndarray] = {}  # by position of the array and number of words

    def __call__(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the hashes ``[n] uint32`` of arrays ``[n, …]``, which belong to the same n matches."""
        total = np.zeros(len(arrays[0]), np.uint64)
        for position, array in enumerate(arrays):
            words = _as_words(array)
            total += words @ self._multipliers_of(position, words.shape[1])
        return (total >> np.uint64(32)).astype(np.uint32)

    def _multipliers_of(self, position: int, count: int) -> np.ndarray:
        key = (position, count)
        if key not in self._multipliers:
            seeds = np.full(count, position, np.uint64)
            self._multipliers[key] = random_bits(seeds, np.arange(count)) | np.uint64(1)
        return self._multipliers[key]


def _as_words(array: np.ndarray) -> np.ndarray:
    """Return the memory of every row of ``array [n, …]`` as unsigned integers ``[n, words]``."""
    rows = np.ascontiguousarray(array).reshape(len(array), -1)
    row_bytes = rows.shape[1] * rows.itemsize
    size = next(size for size in _WORD_BYTES if row_bytes % size == 0)
    return rows.view(f"u{size}")
