"""How a ball is served: as a function of the match's seed and the number of the serve alone.

Seeds come in pairs: 2k and 2k + 1 give the same heights and slopes and opposite first directions, so that a match with
one seed is the mirror image of the match with the other and the seats exchanged.
"""

from __future__ import annotations

import numpy as np
from ludus.random import random_bits

from ludus_pong2p.field import SIDE

__all__ = ["first_receiver", "heights_and_slopes"]

_SPREAD = SIDE / 4  # a serve starts at most so far from the middle
_HALF = 2.0**31


def first_receiver(seeds: np.ndarray) -> np.ndarray:
    """Return ``[n] int64``: the seat towards which the first ball of a match flies, given ``seeds [n] uint64``."""
    return (seeds & np.uint64(1)).astype(np.int64)


def heights_and_slopes(seeds: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where balls start, ``[n] float64`` in [-10, 10), and how steeply they fly, ``[n] float64`` in [-1, 1).

    Args:
        seeds: ``[n] uint64``.
        numbers: ``[n] int64``: how many balls were served before in the match.
    """
    bits = random_bits(seeds >> np.uint64(1), numbers)
    first = (bits >> np.uint64(32)).astype(np.float64) / _HALF - 1.0
    second = (bits & np.uint64(0xFFFFFFFF)).astype(np.float64) / _HALF - 1.0
    return _SPREAD * first, second
