"""Segments that are too stale are dropped, and the staleness limit bounds the blocks in flight."""

from __future__ import annotations

import math

import pytest
from ludus._learning.intake import updates_in_flight


@pytest.mark.parametrize(("off_policy", "limit"), [(False, 3), (True, math.inf)])
def test_off_policy_trainers_have_no_limit(harness, off_policy, limit):
    """Only if they set `off_policy = True`."""
    harness.trainer.off_policy = off_policy
    assert harness.learner.intake.max_staleness == limit


def test_staleness_is_the_difference_of_versions(harness):
    """Newer weights than the learner's, after a resume, have the staleness 0; at most 3 is allowed here."""
    harness.learner.state.version = 5
    harness.block(1, decisions=1, versions=(0, 1, 2, 5, 9))
    assert harness.learner.state.metrics.drops["dropped_stale"] == 2
    assert harness.learner.intake.queue.decisions == 3


@pytest.mark.parametrize(("max_staleness", "updates"), [(0, 1.0), (1, 2.0), (3, 3.0), (7, 6.0), (math.inf, math.inf)])
def test_updates_in_flight_leave_a_margin(max_staleness, updates):
    """A quarter of the updates that may be in flight, from two updates on."""
    assert updates_in_flight(max_staleness) == updates
