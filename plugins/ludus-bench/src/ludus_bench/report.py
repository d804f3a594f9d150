"""Reports: figures next to their limits, as a table or as JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

import attrs
from attrs import field, frozen
from rich.console import Console
from rich.table import Table

from ludus_bench.timing import Rate, Summary


@frozen(kw_only=True)
class Limit:
    """The best value that this machine allows, measured in the same run.

    Args:
        value: In the unit of the figure; > 0.
        description: What was measured.
    """

    value: float
    description: str


@frozen(kw_only=True)
class Figure:
    """One measured rate, per second.

    Args:
        name: For example ``"decisions_per_s"``.
        summary: Median and quartiles.
        cores: CPU seconds per wall-clock second during the measurement; None where they were not counted.
        limit: None where no limit is known.
        at: Settings that distinguish figures of the same name, for example ``{"rows": 256}``.
    """

    name: str
    summary: Summary
    cores: float | None = None
    limit: Limit | None = None
    at: Mapping[str, Any] = field(factory=dict)

    @property
    def ratio(self) -> float | None:
        """Return the median divided by the limit; None without one."""
        return None if self.limit is None else self.summary.median / self.limit.value

    def to_json(self) -> dict[str, Any]:
        """Return the figure as plain values."""
        return {
            "name": self.name,
            **self.at,
            "unit": "/s",
            **attrs.asdict(self.summary),
            "cores": self.cores,
            "limit": None if self.limit is None else self.limit.value,
            "limit_of": None if self.limit is None else self.limit.description,
            "ratio": self.ratio,
        }


def rate_figure(name: str, rate: Rate, *, limit: Limit | None = None, at: Mapping[str, Any] | None = None) -> Figure:
    """Return the figure of a measured rate."""
    return Figure(name=name, summary=rate.summary, cores=rate.cores, limit=limit, at=at or {})


@frozen(kw_only=True)
class Report:
    """The result of one command.

    Args:
        command: Name of the command.
        figures: Measured figures.
        machine: Description of the machine.
        config: Settings of the measurement.
        values: Further results by name; top-level keys in JSON.
        notes: Sentences to print below the table.
    """

    command: str
    figures: tuple[Figure, ...]
    machine: Mapping[str, Any]
    config: Mapping[str, Any]
    values: Mapping[str, Any] = field(factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "command": self.command,
            **self.values,
            "figures": [figure.to_json() for figure in self.figures],
            "spread": "interquartile",
            "config": dict(self.config),
            "machine": dict(self.machine),
            "notes": list(self.notes),
        }


def print_report(report: Report, *, as_json: bool, console: Console | None = None) -> None:
    """Print a report.

    Args:
        report: Report to print.
        as_json: Print one JSON object instead of a table.
        console: Destination; default: standard output.
    """
    console = console or Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)
    if as_json:
        console.out(json.dumps(_replace_non_finite(report.to_json()), indent=2), highlight=False)
        return
    console.print(_title(report), markup=False)
    console.print(_table(report))
    for name, value in report.values.items():
        if not isinstance(value, dict | list | tuple) and "\n" not in str(value):
            console.print(f"{name} = {_format(value)}", markup=False)
    for line in (*_limit_lines(report), *report.notes):
        console.print(line, markup=False)


def _title(report: Report) -> str:
    settings = ", ".join(f"{name} {_format(value)}" for name, value in report.config.items() if value not in ("", None))
    cores = ", ".join(f"{_format(value)} {name}" for name, value in report.machine.items() if name == "cores")
    return f"{report.command}: {settings} ({cores})"


def _table(report: Report) -> Table:
    keys = list(dict.fromkeys(key for figure in report.figures for key in figure.at))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("figure", no_wrap=True)
    for heading in (*keys, "median", "quartiles", "cores", "limit", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for figure in report.figures:
        summary = figure.summary
        table.add_row(
            figure.name,
            *(_format(figure.at.get(key, "")) for key in keys),
            f"{_format(summary.median)}/s",
            f"{_format(summary.low)} … {_format(summary.high)}",
            "" if figure.cores is None else f"{figure.cores:.2f}",
            "" if figure.limit is None else _format(figure.limit.value),
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
        )
    return table


def _limit_lines(report: Report) -> list[str]:
    """Return one line for each kind of limit, with the names of its figures."""
    names: dict[str, list[str]] = {}
    for figure in report.figures:
        if figure.limit is not None and figure.name not in names.setdefault(figure.limit.description, []):
            names[figure.limit.description].append(figure.name)
    return [f"limit of {', '.join(figures)}: {of}" for of, figures in names.items()]


def _format(value: Any) -> str:
    """Return a number with about three significant digits, any other value as text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) and abs(value) < 100_000:
        return str(value)
    for minimum, unit, suffix in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k")):
        if abs(value) >= minimum:
            return f"{value / unit:.3g}{suffix}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _replace_non_finite(value: Any) -> Any:
    """Replace NaN and infinities, which JSON cannot represent, by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _replace_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_non_finite(item) for item in value]
    return value
