"""Fixtures of all tests of ViZDoom."""

from __future__ import annotations

import time

import pytest


@pytest.fixture
def wait_for_end():
    """Return a function that waits until the killed process of an engine has ended, and fails after 5 s."""

    def wait(engine):
        deadline_s = time.monotonic() + 5
        while engine.processes():
            assert time.monotonic() < deadline_s
            time.sleep(0.01)

    return wait
