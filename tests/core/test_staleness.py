"""The staleness limit drops segments, bounds blocks in flight and detects too many samplers by one definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ludus._learning.intake import StalenessLimit


@pytest.mark.parametrize(("off_policy", "limit"), [(False, 7), (True, math.inf)])
def test_off_policy_trainers_have_no_limit(harness, off_policy, limit):
    """Only if they set `off_policy = True`."""
    harness.trainer.off_policy = off_policy
    assert StalenessLimit.for_trainer(harness.trainer, 7).max_updates == limit


def test_staleness_is_the_difference_of_versions():
    """Never negative: after a resume a sampler may have newer weights than the learner."""
    staleness = StalenessLimit.measure(np.array([0, 4, 5, 9]), 5)
    assert staleness.tolist() == [5, 1, 0, 0]
    assert StalenessLimit(1).is_exceeded(staleness).tolist() == [True, False, False, False]


@pytest.mark.parametrize(("max_updates", "blocks"), [(0, 3.0), (1, 6.0), (3, 9.0), (7, 18.0), (math.inf, math.inf)])
def test_blocks_in_time_leave_a_margin(max_updates, blocks):
    """A quarter of the updates that may be in flight, from two updates on; here an update takes three blocks."""
    assert StalenessLimit(max_updates).blocks_in_time(3.0) == blocks


def test_one_block_per_sampler_may_be_too_much():
    """With a staleness of 7 and batches of 11 decisions, 88 decisions may be in flight."""
    limit = StalenessLimit(7)
    assert not limit.too_much_in_flight(88, batch_decisions=11)
    assert limit.too_much_in_flight(89, batch_decisions=11)
