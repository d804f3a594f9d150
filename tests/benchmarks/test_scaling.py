"""The sweeps of scaling: which there are, and where they are drawn."""

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


@pytest.fixture
def drawn(scaling, monkeypatch, tmp_path):
    """Run a short sweep and return what it has drawn."""
    plan = scaling.Plan(repeats=1, seconds=0.01, warmup_s=0.0, clock="cpu")
    monkeypatch.setattr(scaling, "MATCHES", (1, 2))
    monkeypatch.setattr(scaling, "SETTINGS", scaling.Settings(plan=plan))
    monkeypatch.setattr(scaling, "RESULTS", tmp_path / "results")

    def run(*arguments):
        scaling.main(["matches", *arguments])
        return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.svg"))

    return run


def test_one_sweep_does_not_replace_the_picture_of_all(drawn, scaling, monkeypatch, tmp_path, capsys):
    """It is drawn where one says, and printed anyway; when there are no others it is the picture."""
    assert drawn() == []
    assert "µs per decision" in capsys.readouterr().out
    assert drawn("--svg", str(tmp_path / "mine" / "curve.svg")) == ["mine/curve.svg"]
    monkeypatch.setattr(scaling, "SWEEPS", {"matches": scaling.matches})
    assert drawn() == ["mine/curve.svg", "results/scaling.svg"]
