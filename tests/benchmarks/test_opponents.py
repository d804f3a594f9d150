"""What many opponents cost: what is compared with what."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def opponents(monkeypatch):
    """Return the script as a module."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # it sets those that are not
        monkeypatch.setenv(name, "1")
    import opponents

    return opponents


def test_every_number_of_opponents_is_compared_with_one(opponents):
    """With the same memory; the first case is what ratios are to."""
    assert opponents.read([])[0] == (1, 256)
    assert opponents.read(["4"]) == [(1, 256), (4, 256)]
    assert opponents.read(["4", "64"]) == [(1, 64), (4, 64)]
    assert opponents.read(["1", "64"]) == [(1, 64)]
