"""The results that are kept with the code: that other programs can read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[2] / "benchmarks" / "results").glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_results_are_json_for_every_reader(path):
    """Infinity and NaN, which Python's `json` writes and reads, are no words of that language."""
    assert json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
