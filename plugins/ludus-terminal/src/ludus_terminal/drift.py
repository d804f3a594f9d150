"""Drift of behaviour: the statistics of models over training time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from ludus.runs import Run, spread_evenly

from ludus_terminal.behaviour import statistics_json
from ludus_terminal.views import Data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["behaviour_curves", "draw_drift"]

_MAX_POINTS = 60  # models of a player in a curve
_COLUMNS = 3  # charts beside each other


def behaviour_curves(run: Run) -> dict[str, dict[str, list[Data]]]:
    """Return the statistics of the evaluated models by ``"ROLE/NAME"`` and player, in the order of training.

    A point has the ``minutes`` of training and the values of `statistics_json`. Of a player with more than 60 such
    models, evenly spaced ones are returned. Models meet different opponents, which the statistics may depend on;
    `ludus_terminal.behaviour.PlayedAgainst` lets all play against one.
    """
    curves: dict[str, dict[str, list[Data]]] = {}
    for player, view in run.league.players.items():
        evaluated = [model for model in view.models if run.league.statistics(model)]
        for model in (evaluated[i] for i in spread_evenly(len(evaluated), _MAX_POINTS)):
            minutes = run.league.frozen_s(model) / 60
            for name, value in statistics_json(run, model).items():
                curves.setdefault(name, {}).setdefault(player, []).append({"minutes": minutes, **value})
    return dict(sorted(curves.items()))


def draw_drift(run: Run, figure: Figure) -> bool:
    """Draw every statistic of the players' models over training time, and return whether there are any."""
    curves = behaviour_curves(run)
    if not curves:
        return False
    columns = min(_COLUMNS, len(curves))
    rows = -(-len(curves) // columns)
    figure.set_size_inches(1 + 3.6 * columns, 0.8 + 2.4 * rows)
    charts = list(figure.subplots(rows, columns, squeeze=False).flat)
    colors = {player: f"C{i}" for i, player in enumerate(run.league.players)}
    for axes, (name, players) in zip(charts, curves.items(), strict=False):
        _draw_curves(axes, players, colors)
        axes.set_title(name, fontsize=9)
    for axes in charts[len(curves) :]:
        axes.set_axis_off()
    figure.suptitle("Behaviour of frozen models over the minutes of training, with 95 % intervals")
    return True


def _draw_curves(axes: Axes, players: Mapping[str, Sequence[Data]], colors: Mapping[str, str]) -> None:
    for player, points in players.items():
        minutes = [point["minutes"] for point in points]
        low, high = np.array([point["interval"] for point in points]).T
        axes.plot(minutes, [point["mean"] for point in points], marker=".", color=colors[player], label=player)
        axes.fill_between(minutes, low, high, color=colors[player], alpha=0.15, lw=0)
    axes.legend(fontsize=7)
