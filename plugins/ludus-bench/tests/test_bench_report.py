"""Figures, ratios, tables and JSON."""

from __future__ import annotations

import io
import json

import pytest
from ludus_bench.report import Figure, Limit, Report, figure_of, show
from ludus_bench.timing import Rate, summarize
from rich.console import Console

LIMIT = Limit(value=400.0, of="what the machine can do")


def report(**changes):
    """Return a small report."""
    figure = Figure(
        name="decisions_per_s", summary=summarize([100.0, 300.0, 200.0]), cores=0.5, limit=LIMIT, at={"rows": 64}
    )
    values = {"command": "forward", "figures": (figure,), "machine": {"cores": 2.0}, "config": {"env": "game"}}
    return Report(**{**values, **changes})


def printed(made, **options):
    """Return what `show` prints."""
    out = io.StringIO()
    show(made, console=Console(file=out, width=120), **options)
    return out.getvalue()


def test_the_ratio_is_figure_over_limit():
    """The median counts."""
    assert report().figures[0].ratio == 200 / 400


def test_where_every_repeat_has_a_limit_of_its_own_the_median_of_the_ratios_counts():
    """What slowed a repeat slowed its limit, too."""
    rates, limits = [100.0, 300.0, 200.0], [200.0, 400.0, 500.0]
    ratios = tuple(rate / limit for rate, limit in zip(rates, limits, strict=True))
    assert Figure(name="x", summary=summarize(rates), limit=LIMIT, ratios=ratios).ratio == 0.5


def test_without_a_limit_there_is_no_ratio():
    """And JSON says null."""
    figure = Figure(name="x", summary=summarize([1.0]))
    assert figure.ratio is None
    assert figure.to_json()["limit"] is None


def test_json_has_everything():
    """Median, quartiles, cores, limit, ratio, what distinguishes the figure; and values beside the figures."""
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
            "limit_of": "what the machine can do",
            "ratio": 0.5,
        }
    ]


def test_json_has_null_for_what_is_not_finite():
    """NaN is not JSON."""
    assert json.loads(printed(report(values={"staleness": float("nan")}), as_json=True))["staleness"] is None


def test_the_table_shows_figure_limit_and_ratio():
    """In one row, and says below what the limit is."""
    text = printed(report(notes=("a note",)), as_json=False)
    (row,) = [line for line in text.splitlines() if line.startswith("decisions_per_s")]
    assert row.split() == ["decisions_per_s", "64", "200/s", "150", "…", "250", "0.50", "400", "0.50"]
    assert "limit of decisions_per_s: what the machine can do" in text
    assert "a note" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.123, "0.123"), (12.34, "12.3"), (345.6, "346"), (12_345.0, "12.3 k"), (2_345_678.0, "2.35 M")],
)
def test_numbers_are_shown_with_three_digits(value, text):
    """Large ones with a suffix."""
    assert f"speed = {text}\n" in printed(report(values={"speed": value}), as_json=False)


def test_a_figure_is_made_of_a_rate():
    """With the cores that were busy."""
    figure = figure_of("x", Rate(per_s=(1.0, 3.0), cores=0.9), limit=Limit(value=4.0, of="y"))
    assert (figure.summary.median, figure.cores, figure.ratio) == (2.0, 0.9, 0.5)
