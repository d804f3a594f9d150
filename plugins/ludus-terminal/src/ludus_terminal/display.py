"""The display of a run: a metric sink that refreshes a table in a terminal, or else prints lines."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO, cast

import click
from attrs import define, field
from ludus.metrics import Metric
from rich.console import Console
from rich.file_proxy import FileProxy
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ludus_terminal.views import NEAR

__all__ = ["Lines", "LiveTable", "make_display"]

_LINE_INTERVAL_S = 10.0

_MIN_WINDOW_S = 10.0
_MAX_WINDOW_S = 600.0

_LEARNER = {  # label → name and format of a metric of the learner; no format: a rate
    "samples/s learned": ("samples_per_s", ""),
    "updates/s": ("updates_per_s", ""),
    "staleness mean": ("staleness_mean", ".1f"),
    "staleness max": ("staleness_max", ",.0f"),
    "sample reuse": ("sample_reuse", ".2f"),
    "queued blocks": ("queue_blocks", ",.0f"),
    "policy loss": ("policy_loss", ".4f"),
    "value loss": ("value_loss", ".4f"),
    "entropy": ("entropy", ".3f"),
    "approximate KL": ("approx_kl", ".4f"),
    "clip fraction": ("clip_fraction", ".3f"),
    "explained variance": ("explained_variance", ".2f"),
}
_SAMPLING = {
    "ticks/s played": ("ticks_per_s", ""),
    "decisions/s played": ("decisions_per_s", ""),
}


def _rate(value: float) -> str:
    """Return a rate as text with at least two digits, so that slow games do not seem to stand still."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


@define
class _Rates:
    """Averages rates over time: slow games, and slow updates, would be 0 in most reports.

    The window is the last ten seconds, or the shortest one of up to ten minutes in which the rate is not 0.
    """

    _reports: deque[tuple[float, dict[str, float]]] = field(init=False, factory=deque)  # seconds of the run, rates

    def average(self, values: Mapping[str, float], elapsed_s: float) -> dict[str, float]:
        """Return metrics with averages in place of all rates (``…_per_s``)."""
        self._reports.append((elapsed_s, {name: value for name, value in values.items() if name.endswith("_per_s")}))
        while self._reports[0][0] < elapsed_s - _MAX_WINDOW_S:
            self._reports.popleft()
        return {name: self._mean(name, elapsed_s) if name.endswith("_per_s") else values[name] for name in values}

    def _mean(self, name: str, elapsed_s: float) -> float:
        total, count = 0.0, 0
        for reported_s, rates in reversed(self._reports):
            if total and reported_s < elapsed_s - _MIN_WINDOW_S:
                break
            if name in rates:
                total, count = total + rates[name], count + 1
        return total / count


class _OutputAboveTable(FileProxy):
    """Standard output while the table is shown: complete lines are printed above the table.

    Rich's own proxy has no encoding, so that click bypasses it, and wraps long lines, so that paths and commands cannot
    be copied.
    """

    def __init__(self, console: Console, file: TextIO) -> None:
        super().__init__(console, file)
        self._console = console
        self._incomplete = ""  # text after the last newline

    def write(self, text: str) -> int:
        """Print complete lines, and buffer the rest."""
        lines, newline, self._incomplete = (self._incomplete + text).rpartition("\n")
        if newline:
            self._console.print(Text.from_ansi(lines), soft_wrap=True)
        return len(text)

    def flush(self) -> None:
        """Print the buffered text as a line."""
        if self._incomplete:
            self.write("\n")

    @property
    def encoding(self) -> str:  # type: ignore[override]  # read-only, as that of the file
        """Return the value of the proxied file."""
        return cast("TextIO", self.rich_proxied_file).encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """Return the value of the proxied file."""
        return cast("TextIO", self.rich_proxied_file).errors


@define(init=False)
class LiveTable:
    """A table with a column for every player, refreshed in place; other output appears above it.

    Args:
        config: None; there are no options.
        run_dir: The run folder.
        console: Console of the table; None for standard output.
    """

    _live: Live = field()
    _rates: _Rates = field()

    def __init__(self, config: None, *, run_dir: Path, console: Console | None = None) -> None:  # noqa: ARG002
        self._rates = _Rates()
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._live.start()
        if isinstance(sys.stdout, FileProxy):  # a terminal; `stop` restores the original stream
            sys.stdout = cast(
                "TextIO", _OutputAboveTable(self._live.console, cast("TextIO", sys.stdout.rich_proxied_file))
            )

    def write(self, metrics: Sequence[Metric]) -> None:
        """Update the table."""
        if metrics:
            elapsed_s = metrics[0].elapsed_s
            values = self._rates.average({metric.name: metric.value for metric in metrics}, elapsed_s)
            self._live.update(_table(values, elapsed_s))

    def close(self) -> None:
        """Remove the table."""
        self._live.stop()


@define
class Lines:
    """Prints a line for every player, every ten seconds; they can be found in a log."""

    _shown_s: float = field(init=False, default=-math.inf)
    _rates: _Rates = field(init=False, factory=_Rates)

    def write(self, metrics: Sequence[Metric]) -> None:
        """Print the numbers of this moment when it is time."""
        if not metrics:
            return
        elapsed_s = metrics[0].elapsed_s
        values = self._rates.average({metric.name: metric.value for metric in metrics}, elapsed_s)
        if time.monotonic() - self._shown_s > _LINE_INTERVAL_S:
            self._shown_s = time.monotonic()
            for player in _players(values):
                click.echo(_line(values, player, elapsed_s))

    def close(self) -> None:
        """Nothing to do."""


def make_display(config: None, *, run_dir: Path) -> LiveTable | Lines:
    """Make what fits the standard output; the factory of the component."""
    return LiveTable(config, run_dir=run_dir) if sys.stdout.isatty() else Lines()


def _players(values: Mapping[str, float]) -> list[str]:
    return [name.split("/")[1] for name in values if name.startswith("league/") and name.endswith("/models")]


def _line(values: Mapping[str, float], player: str, elapsed_s: float) -> str:
    league, learner = _below(values, f"league/{player}/"), _below(values, f"learner/{player}/")
    parts = [f"{elapsed_s:6.0f} s{_time_left(values, elapsed_s)}", player, f"{league['decisions']:,.0f} decisions"]
    rates = {"played": values.get("sampling/decisions_per_s"), "learned": learner.get("samples_per_s")}
    parts += [f"{_rate(value)}/s {label}" for label, value in rates.items() if value is not None]
    parts += [
        text.format(known[name])
        for known, name, text in (
            (values, f"sampling/return_mean/{player}", "return {:.2f}"),
            (learner, "staleness_mean", "staleness {:.1f}"),
            (learner, "entropy", "entropy {:.2f}"),
        )
        if name in known
    ]
    if "rating" in league:
        rating, deviation = league["rating"], league["rating_deviation"]
        parts.append(f"{player}@{league['rated_model']:.0f} rated {rating:.0f} ± {NEAR * deviation:.0f}")
    parts += [f"v {anchor} {text}" for anchor, text in _scores(league).items()]
    return "  ".join(parts)


def _scores(league: Mapping[str, float]) -> dict[str, str]:
    """Return the score against every anchor that was met, with its interval."""
    return {
        name.removeprefix("score_v_"): f"{league[name]:.0%} [{league[f'{name}/low']:.0%}, {league[f'{name}/high']:.0%}]"
        for name in league
        if name.startswith("score_v_") and f"{name}/low" in league
    }


def _time_left(values: Mapping[str, float], elapsed_s: float) -> str:
    """Return about how long the run still takes, as text; empty if it has no limit or has just begun."""
    progress = values.get("league/progress", 0.0)
    if not 0 < progress < 1:
        return ""
    left_s = elapsed_s * (1 - progress) / progress
    return f", {left_s:.0f} s left" if left_s < 120 else f", {left_s / 60:,.0f} min left"


def _table(values: Mapping[str, float], elapsed_s: float) -> Table:
    players = _players(values)
    title = f"{elapsed_s:.0f} s{_time_left(values, elapsed_s)} · {values['league/matches']:,.0f} matches"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    columns = [_cells(values, player) for player in players]
    for player in players:
        table.add_column(escape(player), justify="right")
    for label in dict.fromkeys(label for cells in columns for label in cells):
        table.add_row(escape(label), *(cells.get(label, "-") for cells in columns))
    return table


def _cells(values: Mapping[str, float], player: str) -> dict[str, str]:
    """Return the cells of one player by label; unknown values are shown as a dash.

    The strength comes first, because terminals of few rows cut the table.
    """
    league, learner = _below(values, f"league/{player}/"), _below(values, f"learner/{player}/")
    cells = {"decisions learned from": f"{league['decisions']:,.0f}", "frozen models": f"{league['models']:.0f}"}
    cells["newest rating"] = "-"
    if "rating" in league:
        rating, near = league["rating"], NEAR * league["rating_deviation"]
        cells["newest rating"] = f"{player}@{league['rated_model']:.0f} {rating:.0f} ± {near:.0f}"
    cells |= {f"score v {anchor}": text for anchor, text in _scores(league).items()}
    returns = values.get(f"sampling/return_mean/{player}")
    cells |= _formatted(_below(values, "sampling/"), _SAMPLING)
    cells["return per match"] = "-" if returns is None else f"{returns:.2f}"
    cells |= _formatted(learner, _LEARNER)
    drops = [f"{name.removeprefix('dropped_')} {n:,.0f}" for name, n in learner.items() if name.startswith("dropped_")]
    cells["dropped"] = ", ".join(drops) or "-"
    return cells


def _formatted(numbers: Mapping[str, float], labels: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    return {
        label: "-" if name not in numbers else format(numbers[name], style) if style else _rate(numbers[name])
        for label, (name, style) in labels.items()
    }


def _below(values: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
