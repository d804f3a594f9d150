"""Serves, as functions of the match's seed and the number of the serve.

Seeds come in pairs: 2k and 2k + 1 give the same heights and slopes and opposite first directions, so that a match with
one seed is the mirror image of the match with the other and the seats exchanged.
"""

from __future__ import annotations

import numpy as np
from ludus.random import random_bits

from ludus_pong2p.geometry import SIDE

__all__ = ["first_receiver", "serve_heights_and_slopes"]

_SPREAD = SIDE / 4  # greatest distance of a serve from the middle
_HALF = 2.0**31


def first_receiver(seeds: np.ndarray) -> np.ndarray:
    """Return the seats that receive the first serves, ``[n] int64``, for ``seeds [n] uint64``."""
    return (seeds & np.uint64(1)).astype(np.int64)


def serve_heights_and_slopes(seeds: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the heights of serves in [-10, 10) and their slopes in [-1, 1), ``[n] float64`` each.

    Args:
        seeds: ``[n] uint64``.
        numbers: ``[n] int64``: number of earlier serves in the match.
    """
    bits = random_bits(seeds >> np.uint64(1), numbers)
    first = (bits >> np.uint64(32)).astype(np.float64) / _HALF - 1.0
    second = (bits & np.uint64(0xFFFFFFFF)).astype(np.float64) / _HALF - 1.0
    return _SPREAD * first, second
