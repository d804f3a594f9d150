"""Profiles: the statistics of participants on one scale, so that one figure shows how they differ (DIS figure 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ludus_terminal.views import Data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_profiles", "normalise", "statistic_names"]

_EQUAL = 0.5  # the normalised value of a statistic in which no participants differ
_MARGIN = 0.15  # visible beyond [0, 1], for the intervals


def normalise(rows: Sequence[Data]) -> None:
    """Add ``"normalised"`` to every statistic of the rows of one role: mean and interval on a common scale.

    The lowest mean among the rows becomes 0 and the highest 1; all are ½ where the means are equal. The ends of an
    interval are scaled alike and may lie outside of [0, 1]: where intervals are as wide as the scale, the participants
    may differ by chance.

    Args:
        rows: Participants with their ``"statistics"`` by name, see `ludus_terminal.behaviour`.
    """
    for name in statistic_names(rows):
        values = [row["statistics"][name] for row in rows if name in row["statistics"]]
        means = [value["mean"] for value in values]
        low, span = min(means), max(means) - min(means)
        for value in values:
            mean, *interval = (
                (number - low) / span if span else _EQUAL for number in (value["mean"], *value["interval"])
            )
            value["normalised"] = {"mean": mean, "interval": interval}


def statistic_names(rows: Sequence[Data]) -> list[str]:
    """Return the names of the statistics that any row has, in the order of their first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row["statistics"]))


def draw_profiles(figure: Figure, rows: Sequence[Data]) -> bool:
    """Draw one chart per role: a line per statistic, a point with its interval per participant.

    Args:
        figure: An empty figure.
        rows: Participants of all roles, after `normalise`.

    Returns:
        Whether there was anything to draw.
    """
    roles = list(dict.fromkeys(row["role"] for row in rows))
    if not roles:
        return False
    shown = [[row for row in rows if row["role"] == role] for role in roles]
    heights = [0.8 + len(statistic_names(own)) * (0.3 + 0.12 * len(own)) for own in shown]
    figure.set_size_inches(9, 0.6 + sum(heights))
    charts = figure.subplots(len(roles), squeeze=False, height_ratios=heights)[:, 0]
    for axes, role, own in zip(charts, roles, shown, strict=True):
        _draw_role(axes, own)
        axes.set_title(f"Behaviour of {role}, normalised over the shown participants")
    charts[-1].set_xlabel("lowest mean = 0, highest = 1; with 95 % interval")
    return True


def _draw_role(axes: Axes, rows: Sequence[Data]) -> None:
    names = statistic_names(rows)
    for index, row in enumerate(rows):
        drawn = [line for line, name in enumerate(names) if name in row["statistics"]]
        scaled = [row["statistics"][names[line]]["normalised"] for line in drawn]
        mean = np.array([value["mean"] for value in scaled])
        low, high = np.array([value["interval"] for value in scaled]).T
        height = np.array(drawn) + 0.7 * ((index + 0.5) / len(rows) - 0.5)
        axes.errorbar(
            mean, height, xerr=(mean - low, high - mean), fmt="o", ms=4, lw=1, capsize=2, label=row["participant"]
        )
    axes.set_yticks(range(len(names)), [_label(name, rows) for name in names], fontsize=8)
    axes.set(xlim=(-_MARGIN, 1 + _MARGIN), ylim=(len(names) - 0.5, -0.5))
    axes.set_yticks(np.arange(len(names) - 1) + 0.5, minor=True)
    axes.grid(which="minor", axis="y", color="0.85")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


def _label(name: str, rows: Sequence[Data]) -> str:
    """Return the name of a statistic with its lowest and highest mean, which the scale hides."""
    means = [row["statistics"][name]["mean"] for row in rows if name in row["statistics"]]
    return f"{name}  ({min(means):.3g} to {max(means):.3g})"
