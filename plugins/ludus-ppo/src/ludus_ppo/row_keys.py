"""Rows of several arrays as keys: two are equal where all their bytes are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

__all__ = ["hash_rows", "keys_of"]

_FOLD = np.uint64(32)


def keys_of(leaves: Sequence[np.ndarray], *, more: int = 0) -> np.ndarray:
    """Return the bytes of every row side by side, ``[n, w + more] uint64``; what they do not fill is 0.

    Bits count: NaN is equal to itself, and 0 is not -0.

    Args:
        leaves: ``[n, …]`` each, at least one.
        more: Words for the caller behind them.
    """
    parts = [_bytes(leaf) for leaf in leaves]
    words = -(-sum(part.shape[1] for part in parts) // 8)
    keys = np.zeros((len(parts[0]), words + more), np.uint64)
    into, start = keys.view(np.uint8), 0
    for part in parts:
        stop = start + part.shape[1]
        into[:, start:stop] = part
        start = stop
    return keys


def hash_rows(keys: np.ndarray) -> np.ndarray:
    """Return a hash of every key ``[n, w]``, ``[n] uint64``: the upper bits are the best ones."""
    # a product carries differences upwards only: so the upper half of a word is brought down first
    return np.asarray((keys ^ (keys >> _FOLD)) @ _numbers(keys.shape[1]))


@cache
def _numbers(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(1 << 64, size=count, dtype=np.uint64)


def _bytes(leaf: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(leaf).reshape(len(leaf), math.prod(leaf.shape[1:])).view(np.uint8)
