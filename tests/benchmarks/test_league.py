"""What matchmakers do to a league: what becomes of figures that cannot be had, and of the file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    """Let the scripts be imported."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")


@pytest.mark.parametrize(("steps", "beaten"), [(1, False), (600, True)])
def test_a_pool_that_is_never_beaten_takes_no_number_of_matches(monkeypatch, steps, beaten):
    """JSON has no infinity."""
    import league

    monkeypatch.setattr(league, "STEPS", steps)
    matches = league.until_beaten("elo", league.alone(league.make("matchmaker", "uniform-history")), 0)
    assert (matches is not None) == beaten


@pytest.mark.parametrize(
    ("matches", "told"), [([100.0, None, 300.0], "300"), ([None, None, 100.0], "never"), (None, "")]
)
def test_the_median_over_seeds_counts_those_that_never_beat_the_pool(matches, told):
    """They took longer than all others; a league of several players is not asked."""
    import league

    figures = {name: [0.5] for name in ("worst", "worst of all", "forgetting", "coverage", "cycles")}
    row = {"world": "elo", "matchmaker": "nash", **figures}
    if matches is not None:
        row["matches to beat"] = matches
    assert league.line(row).endswith(f"| {told} |")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("league", ["--only", "costs", "--sizes"]), ("league_samplers", ["--samplers", "2", "--seconds", "0.1"])],
)
def test_the_folder_of_the_figures_is_made(monkeypatch, tmp_path, name, arguments):
    """A measurement that took long is not lost."""
    script = pytest.importorskip(name)
    path = tmp_path / "none" / "yet" / "figures.json"
    monkeypatch.setattr(sys, "argv", [name, *arguments, "--json", str(path)])
    script.main()
    assert json.loads(path.read_text(encoding="utf-8"))
