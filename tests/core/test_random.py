"""Random numbers of matches are independent and uniform."""

from __future__ import annotations

import numpy as np
from ludus.random import random_bits, random_floats, random_integers


def test_random_numbers_are_independent_and_uniform():
    """For one seed over many keys and one key over many seeds, all pairs of 8 classes are equally frequent."""
    for seeds, keys in ((np.arange(64_000), 3), (7, np.arange(64_000))):
        bits = random_bits(np.asarray(seeds, np.uint64), keys)
        pairs = random_integers(bits[:-1], 8) * 8 + random_integers(bits[1:], 8)
        assert abs(np.bincount(pairs, minlength=64) - 1000).max() < 150
        floats = random_floats(bits)
        assert floats.min() >= 0.0
        assert floats.max() < 1.0
        assert abs(floats.mean() - 0.5) < 0.01
        assert abs(floats.var() - 1 / 12) < 0.002
