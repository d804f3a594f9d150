"""Draw what a run learned: scores against anchors with their intervals, and the rating, over time.

``python docs/make_demo_picture.py runs/demo`` reads ``runs/demo/metrics.jsonl`` and writes ``docs/demo.svg``; ``--out``
names another file, its ending the format (svg, png, pdf). Needs matplotlib.
"""

# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import matplotlib as mpl

mpl.use("Agg")
from ludus._run.metrics import read_metrics
from ludus.errors import LudusError
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw", "main", "read_series"]

#: Name of a metric to its (minutes, value) points.
Series: TypeAlias = Mapping[str, list[tuple[float, float]]]

_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # told apart by colour-blind people too
_STYLE: dict[Any, Any] = {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "ludus", "axes.spines.top": False}


def read_series(path: Path) -> Series:
    """Return every metric of the stream at `path` as points over minutes.

    Raises:
        RunError: A line is damaged.
        OSError: The file cannot be read.
    """
    series: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for metric in read_metrics(path):
        series[metric.name].append((metric.elapsed_s / 60, metric.value))
    return series


def draw(series: Series, player: str) -> Figure:
    """Return the figure of one player: scores above, rating below."""
    prefix = f"league/{player}/"
    figure = Figure(figsize=(7.2, 4.8), layout="constrained")
    scores, rating = figure.subplots(2, 1, sharex=True)
    anchors = sorted(
        name.removeprefix(f"{prefix}score_v_")
        for name in series
        if name.startswith(f"{prefix}score_v_") and not name.endswith(("/low", "/high"))
    )
    for anchor, color in zip(anchors, _COLORS, strict=False):
        name = f"{prefix}score_v_{anchor}"
        band = [value for _, value in series[f"{name}/low"]], [value for _, value in series[f"{name}/high"]]
        _line(scores, series[name], band=band, label=f"against {anchor}", color=color)
    scores.set(ylim=(0, 1), ylabel="score of the newest model")
    if f"{prefix}rating" in series:
        means = [value for _, value in series[f"{prefix}rating"]]
        near = [1.96 * value for _, value in series[f"{prefix}rating_deviation"]]
        band = [m - n for m, n in zip(means, near, strict=True)], [m + n for m, n in zip(means, near, strict=True)]
        _line(rating, series[f"{prefix}rating"], band=band, label=player, color=_COLORS[0])
    rating.set(xlabel="minutes of training", ylabel="rating (Elo)")
    for axes in (scores, rating):
        axes.spines["right"].set_visible(False)
        axes.grid(alpha=0.25)
        if axes.lines:
            axes.legend(frameon=False)
    return figure


def _line(
    axes: Axes,
    points: list[tuple[float, float]],
    *,
    band: tuple[list[float], list[float]],
    label: str,
    color: str,
) -> None:
    minutes, values = zip(*points, strict=True)
    axes.plot(minutes, values, color=color, label=label, linewidth=1.5)
    axes.fill_between(minutes, *band, color=color, alpha=0.18, linewidth=0)


def main(arguments: list[str] | None = None) -> int:
    """Write the picture and return the exit status."""
    parser = argparse.ArgumentParser(description="Draw scores and rating of a run over time.")
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--player", default="main_agent")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("demo.svg"))
    options = parser.parse_args(arguments)
    try:
        series = read_series(options.run / "metrics.jsonl")
    except (LudusError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    if not any(name.startswith(f"league/{options.player}/rating") for name in series):
        sys.stderr.write(f"error: {options.run}: no rated model of {options.player} yet; let the run go on\n")
        return 1
    with mpl.rc_context(_STYLE):
        metadata = {"Date": None} if options.out.suffix == ".svg" else None
        draw(series, options.player).savefig(options.out, dpi=150, metadata=metadata)
    return 0


if __name__ == "__main__":
    sys.exit(main())
