"""Defaults for a number of cores."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from ludus_bench.sizing import Sizing, suggest


@pytest.mark.parametrize(
    ("cores", "players", "workers", "threads"),
    [
        (1, 1, 1, 1),
        (2, 1, 1, 1),
        (4, 1, 2, 2),
        (8, 1, 4, 4),
        (8, 2, 4, 2),
        (8, 6, 2, 1),
        (0.5, 1, 1, 1),
        (3.7, 1, 1, 2),
    ],
)
def test_samplers_and_learners_share_the_cores(cores, players, workers, threads):
    """Half for each; every learner has a thread of its own."""
    found = suggest(cores, players=players)
    assert (found.workers, found.learner_threads) == (workers, threads)


def test_with_an_accelerator_nearly_all_cores_sample():
    """A learner needs one core, to feed it."""
    assert suggest(16, players=1, accelerator=True) == Sizing(
        workers=15, sampler_threads=1, learner_threads=1, matches=256
    )


@settings(deadline=None, max_examples=60)
@given(cores=st.floats(0, 256), players=st.integers(1, 8), accelerator=st.booleans())
def test_a_suggestion_oversubscribes_only_where_it_must(cores, players, accelerator):
    """One sampler and one thread per learner are the least."""
    found = suggest(cores, players=players, accelerator=accelerator)
    assert min(found.workers, found.learner_threads, found.sampler_threads) >= 1
    assert found.threads(players) <= max(cores, 1 + players)
