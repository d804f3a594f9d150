"""The results that are kept with the code: that other programs can read them, and that tables are of their figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FILES = sorted((BENCHMARKS / "results").glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_results_are_json_for_every_reader(path):
    """Infinity and NaN, which Python's `json` writes and reads, are no words of that language."""
    assert json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


@pytest.mark.parametrize("study", ["aet", "dis", "minimax"])
def test_the_tables_of_a_study_are_those_of_its_figures(monkeypatch, study):
    """They are made anew when what a summary tells changes."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    from league_tables import markdown

    path = BENCHMARKS / "results" / f"league_{study}.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    assert path.with_suffix(".md").read_text(encoding="utf-8").splitlines() == list(markdown(results))
