"""The behaviour of participants: profiles, drift over training, diversity of pools, and the figures of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ludus.matchmaker import Statistic
from ludus.runs import Run
from ludus_terminal.behaviour import behaviour_rows
from ludus_terminal.diversity import pool_diversity
from ludus_terminal.drift import behaviour_curves

from ludus_dashboard.charts import Chart, line_chart
from ludus_dashboard.folders import plot_files
from ludus_dashboard.reader import Snapshot
from ludus_dashboard.rendering import render

__all__ = ["behaviour", "compared_behaviour"]

_COMPARED = 8  # participants beside each other


def behaviour(snapshot: Snapshot, query: Mapping[str, str], layout: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Show profiles of the newest models and anchors, curves of all models, the diversity of pools, and figures."""
    run = snapshot.run
    statistics = {name: run.league.statistics(name) for name in _newest_and_anchors(run)[:_COMPARED]}
    return render(
        "behaviour.html",
        **layout,
        rows=behaviour_rows(statistics),
        charts=[_drift_chart(run, name, players) for name, players in behaviour_curves(run).items()],
        diversity=pool_diversity(run),
        figures=plot_files(run.folder),
    )


def compared_behaviour(run: Run, name: str) -> list[dict[str, Any]]:
    """Return the rows of a model, of newest models and of anchors, in the roles of the model."""
    names = list(dict.fromkeys([name, *_newest_and_anchors(run)]))[:_COMPARED]
    statistics: dict[str, Mapping[str, Statistic]] = {one: run.league.statistics(one) for one in names}
    roles = {key.partition("/")[0] for key in statistics[name]}
    own = {
        one: {key: value for key, value in found.items() if key.partition("/")[0] in roles}
        for one, found in statistics.items()
    }
    return behaviour_rows(own)


def _newest_and_anchors(run: Run) -> list[str]:
    newest = [view.models[-1] for view in run.league.players.values() if view.models]
    return [*newest, *run.league.anchors]


def _drift_chart(run: Run, name: str, players: Mapping[str, Sequence[Mapping[str, Any]]]) -> Chart:
    """Return the chart of a statistic, given its points by player."""
    x = sorted({point["minutes"] for points in players.values() for point in points})
    colors = {player: color for color, player in enumerate(run.league.players)}
    series = [{"label": player, "color": colors[player], **_curve(points, x)} for player, points in players.items()]
    return line_chart(name, "minutes of training", x, series)


def _curve(points: Sequence[Mapping[str, Any]], x: Sequence[float]) -> dict[str, list[float | None]]:
    """Return the means and their bounds at the given minutes, with None where there is no point."""
    known = {point["minutes"]: [point["mean"], *point["interval"]] for point in points}
    values, low, high = zip(*(known.get(minutes, [None] * 3) for minutes in x), strict=True)
    return {"values": list(values), "low": list(low), "high": list(high)}
