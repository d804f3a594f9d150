"""Seeds of all random streams of a run, derived from the run's seed and the name of the stream."""

from __future__ import annotations

import hashlib

import numpy as np

from ludus.random import random_bits


def seed_for(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed for the random stream `names` of a run with this `seed`."""
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random generator of the random stream `names`."""
    return np.random.Generator(np.random.PCG64(seed_for(seed, *names)))


def match_seeds(fixture_seed: int | np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the seeds ``[n] uint64`` of matches of a fixture (SplitMix64 of seed and match number).

    Args:
        fixture_seed: The fixture's seed, or one per match as ``[n] uint64``.
        numbers: Match numbers ``[n]``.
    """
    return random_bits(np.asarray(fixture_seed, np.uint64), numbers)
