"""Random numbers of matches, of which every one has its own."""

from __future__ import annotations

import numpy as np
from ludus.random import below, draw, fractions


def test_lots_are_independent_and_even():
    """Of one seed over streams and of one stream over seeds: 8 classes in pairs come up equally often."""
    for seeds, streams in ((np.arange(64_000), 3), (7, np.arange(64_000))):
        numbers = draw(np.asarray(seeds, np.uint64), streams)
        pairs = below(numbers[:-1], 8) * 8 + below(numbers[1:], 8)
        assert abs(np.bincount(pairs, minlength=64) - 1000).max() < 150
        shares = fractions(numbers)
        assert shares.min() >= 0.0
        assert shares.max() < 1.0
        assert abs(shares.mean() - 0.5) < 0.01
        assert abs(shares.var() - 1 / 12) < 0.002
