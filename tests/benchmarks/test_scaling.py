"""The sweeps of scaling: which there are."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def scaling(monkeypatch):
    """Return the script as a module."""
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import scaling

    return scaling


@pytest.mark.parametrize(("argument", "status"), [("--help", 0), ("match", 2)])
def test_the_names_of_the_sweeps_are_told(scaling, capsys, argument, status):
    """To whoever asks, or misspells one."""
    with pytest.raises(SystemExit) as stopped:
        scaling.main([argument])
    assert stopped.value.code == status
    assert "matches, samplers, pool" in "".join(capsys.readouterr())
