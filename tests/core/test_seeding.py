"""Random streams depend on their names, and differ from each other."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st
from ludus._seeding import generator, match_seeds, seed_for


def test_seeds_follow_from_their_names():
    """Equal names give equal seeds in every version; any other name gives another seed."""
    assert seed_for(1, "learner", "main") == 9030320778030183883
    seeds = {seed_for(seed, *names) for seed in (0, 1) for names in (("a",), ("b",), ("a", "b"), ("a", 1), ())}
    assert len(seeds) == 10
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_generators_repeat():
    """Equal names give equal streams."""
    assert generator(1, "a").random() == generator(1, "a").random() != generator(1, "b").random()


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**63 - 1), numbers=st.lists(st.integers(0, 10_000), unique=True, min_size=1))
def test_a_match_seed_depends_on_fixture_and_number(seed, numbers):
    """It does not depend on the worker, and no two matches of a fixture share a seed."""
    seeds = match_seeds(seed, np.array(numbers))
    assert seeds.dtype == np.uint64
    assert len(set(seeds.tolist())) == len(numbers)
    assert seeds.tolist() == [match_seeds(seed, np.array([number])).item() for number in numbers]


def test_matches_of_several_fixtures_at_once():
    """Every match gets the seed that it has on its own."""
    bases, numbers = [5, 2**63 - 1, 5, 0], [0, 3, 9, 1]
    together = match_seeds(np.array(bases, np.uint64), np.array(numbers))
    assert together.tolist() == [
        match_seeds(*one).item() for one in zip(bases, np.array(numbers)[:, None], strict=True)
    ]


def test_neighbouring_fixtures_share_no_seed():
    """Fixture seeds that differ by one do not give shifted copies of one sequence."""
    numbers = np.arange(1000)
    assert not set(match_seeds(5, numbers).tolist()) & set(match_seeds(6, numbers).tolist())


def test_match_seeds_are_splitmix64():
    """The sequence equals the published one for seed 0."""
    assert match_seeds(0, np.arange(2)).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
