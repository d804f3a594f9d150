"""What a benchmark says: figures beside their limits, as a table or as JSON."""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Mapping
from typing import Any

import attrs
from attrs import field, frozen
from rich.console import Console
from rich.table import Table

from ludus_bench.timing import Rate, Summary

__all__ = ["Figure", "Limit", "Report", "figure_of", "show"]


@frozen(kw_only=True)
class Limit:
    """What the machine could do at most, measured in the same run.

    Args:
        value: In the figure's unit; > 0.
        of: What it is the rate of, in a few words.
    """

    value: float
    of: str


@frozen(kw_only=True)
class Figure:
    """One measured number.

    Args:
        name: For example ``"decisions_per_s"``.
        summary: Median and quartiles.
        unit: For example ``"/s"``.
        cores: CPU seconds per wall-clock second while it was measured; None where nobody could count them.
        limit: None where no limit is known.
        at: What distinguishes it from other figures of the same name, for example ``{"rows": 256}``.
        ratios: Of every repeat to the limit that was measured next to it, where each has its own.
    """

    name: str
    summary: Summary
    unit: str = "/s"
    cores: float | None = None
    limit: Limit | None = None
    at: Mapping[str, Any] = field(factory=dict)
    ratios: tuple[float, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Return the median divided by the limit, or the median of `ratios`."""
        if self.ratios:
            return statistics.median(self.ratios)
        return None if self.limit is None else self.summary.median / self.limit.value

    def to_json(self) -> dict[str, Any]:
        """Return everything about it as plain values."""
        return {
            "name": self.name,
            **self.at,
            "unit": self.unit,
            **attrs.asdict(self.summary),
            "cores": self.cores,
            "limit": None if self.limit is None else self.limit.value,
            "limit_of": None if self.limit is None else self.limit.of,
            "ratio": self.ratio,
        }


def figure_of(name: str, rate: Rate, *, limit: Limit | None = None, at: Mapping[str, Any] | None = None) -> Figure:
    """Return the figure of a measured rate."""
    return Figure(name=name, summary=rate.summary, unit="/s", cores=rate.cores, limit=limit, at=at or {})


@frozen(kw_only=True)
class Report:
    """The result of one command.

    Args:
        command: Its name.
        figures: What was measured.
        machine: On what.
        config: With which settings.
        values: Further results by name; in JSON they stand beside the figures.
        notes: Sentences for people: warnings first.
    """

    command: str
    figures: tuple[Figure, ...]
    machine: Mapping[str, Any]
    config: Mapping[str, Any]
    values: Mapping[str, Any] = field(factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "command": self.command,
            **self.values,
            "figures": [figure.to_json() for figure in self.figures],
            "spread": "interquartile",
            "config": dict(self.config),
            "machine": dict(self.machine),
            "notes": list(self.notes),
        }


def show(report: Report, *, as_json: bool, console: Console | None = None) -> None:
    """Print a report.

    Args:
        report: What to print.
        as_json: As one JSON object instead of a table.
        console: Where; default: standard output.
    """
    console = console or Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)
    if as_json:
        console.out(json.dumps(_finite(report.to_json()), indent=2), highlight=False)
        return
    console.print(_title(report), markup=False)
    console.print(_table(report))
    for name, value in report.values.items():
        if not isinstance(value, dict | list | tuple) and "\n" not in str(value):
            console.print(f"{name} = {_text(value)}", markup=False)
    for line in (*_limits(report), *report.notes):
        console.print(line, markup=False)


def _title(report: Report) -> str:
    settings = ", ".join(f"{name} {_text(value)}" for name, value in report.config.items() if value not in ("", None))
    where = ", ".join(f"{_text(value)} {name}" for name, value in report.machine.items() if name == "cores")
    return f"{report.command}: {settings} ({where})"


def _table(report: Report) -> Table:
    keys = list(dict.fromkeys(key for figure in report.figures for key in figure.at))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("figure", no_wrap=True)
    for heading in (*keys, "median", "quartiles", "cores", "limit", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for figure in report.figures:
        s = figure.summary
        table.add_row(
            figure.name,
            *(_text(figure.at.get(key, "")) for key in keys),
            f"{_text(s.median)} {figure.unit}".replace(" /", "/"),
            f"{_text(s.low)} … {_text(s.high)}",
            "" if figure.cores is None else f"{figure.cores:.2f}",
            "n/a" if figure.limit is None else _text(figure.limit.value),
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
        )
    return table


def _limits(report: Report) -> list[str]:
    """Say what each limit is the rate of, once."""
    found: dict[str, list[str]] = {}
    for figure in report.figures:
        if figure.limit is not None and figure.name not in found.setdefault(figure.limit.of, []):
            found[figure.limit.of].append(figure.name)
    return [f"limit of {', '.join(names)}: {of}" for of, names in found.items()]


def _text(value: Any) -> str:
    """Return a number with about three digits that matter, anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) and abs(value) < 100_000:
        return str(value)
    for least, unit, suffix in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k")):
        if abs(value) >= least:
            return f"{value / unit:.3g}{suffix}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _finite(value: Any) -> Any:
    """Replace what JSON has no word for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
