"""Seeds of everything, derived from one number by name, so that no two streams of randomness ever meet."""

from __future__ import annotations

import hashlib

import numpy as np

from ludus.random import draw


def seed_for(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed for the stream called `names` under the run's `seed`."""
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random generator of the stream called `names`."""
    return np.random.Generator(np.random.PCG64(seed_for(seed, *names)))


def match_seeds(fixture_seed: int | np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the seeds ``[n] uint64`` of the given matches ``[n]`` of a fixture (SplitMix64 of seed + number).

    Args:
        fixture_seed: Of all matches, or ``[n] uint64`` of each.
        numbers: ``[n]``.
    """
    return draw(np.asarray(fixture_seed, np.uint64), numbers)
