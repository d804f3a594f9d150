"""Figures, ratios, tables and JSON."""

from __future__ import annotations

import io
import json

import pytest
from ludus_bench.report import Figure, Limit, Report, print_report, rate_figure
from ludus_bench.timing import Rate, summarize
from rich.console import Console

LIMIT = Limit(value=400.0, description="the maximum of the machine")


def report(**changes):
    """Return a small report."""
    figure = Figure(
        name="decisions_per_s", summary=summarize([100.0, 300.0, 200.0]), cores=0.5, limit=LIMIT, at={"rows": 64}
    )
    values = {"command": "forward", "figures": (figure,), "machine": {"cores": 2.0}, "config": {"env": "game"}}
    return Report(**{**values, **changes})


def printed(made, **options):
    """Return the output of `print_report`."""
    out = io.StringIO()
    print_report(made, console=Console(file=out, width=120), **options)
    return out.getvalue()


def test_the_ratio_is_figure_over_limit():
    """The ratio uses the median."""
    assert report().figures[0].ratio == 200 / 400


def test_without_a_limit_there_is_no_ratio():
    """JSON has null."""
    figure = Figure(name="x", summary=summarize([1.0]))
    assert figure.ratio is None
    assert figure.to_json()["limit"] is None


def test_json_has_everything():
    """Median, quartiles, cores, limit, ratio and settings of a figure; values are top-level keys."""
    found = json.loads(printed(report(values={"speed": 3.0}), as_json=True))
    assert found["command"] == "forward"
    assert found["speed"] == 3.0
    assert found["config"] == {"env": "game"}
    assert found["figures"] == [
        {
            "name": "decisions_per_s",
            "rows": 64,
            "unit": "/s",
            "median": 200.0,
            "low": 150.0,
            "high": 250.0,
            "repeats": 3,
            "cores": 0.5,
            "limit": 400.0,
            "limit_of": "the maximum of the machine",
            "ratio": 0.5,
        }
    ]


def test_json_has_null_for_nan():
    """NaN is not JSON."""
    assert json.loads(printed(report(values={"staleness": float("nan")}), as_json=True))["staleness"] is None


def test_the_table_shows_figure_limit_and_ratio():
    """In one row; a line below describes the limit."""
    text = printed(report(notes=("a note",)), as_json=False)
    (row,) = [line for line in text.splitlines() if line.startswith("decisions_per_s")]
    assert row.split() == ["decisions_per_s", "64", "200/s", "150", "…", "250", "0.50", "400", "0.50"]
    assert "limit of decisions_per_s: the maximum of the machine" in text
    assert "a note" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.123, "0.123"), (12.34, "12.3"), (345.6, "346"), (12_345.0, "12.3 k"), (2_345_678.0, "2.35 M")],
)
def test_numbers_are_shown_with_three_digits(value, text):
    """Large ones with a suffix."""
    assert f"speed = {text}\n" in printed(report(values={"speed": value}), as_json=False)


def test_a_figure_is_made_of_a_rate():
    """The figure has the cores of the rate."""
    figure = rate_figure("x", Rate(per_s=(1.0, 3.0), cores=0.9), limit=Limit(value=4.0, description="y"))
    assert (figure.summary.median, figure.cores, figure.ratio) == (2.0, 0.9, 0.5)
