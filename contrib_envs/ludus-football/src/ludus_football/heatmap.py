"""Heat maps of the positions of a team."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ludus.errors import ConfigError

from ludus_football.positions import PositionHistogram
from ludus_football.state import FIELD_Y, GOAL_Y, METRES, PENALTY_X, PENALTY_Y

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DPI = 110
_CENTRE_CIRCLE_M = 9.15


def write_heatmap(histogram: PositionHistogram, path: Path, *, title: str, limit: float) -> None:
    """Write a heat map with the lines of the field as PNG.

    Args:
        histogram: Positions in the view of the team, which attacks to the right.
        path: The file, which is replaced; missing folders are created.
        title: Text above the field.
        limit: Share of the positions that has the last color.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and half a second to import
    except ModuleNotFoundError as error:
        raise ConfigError("heat maps need matplotlib; pip install 'ludus-football[plot]'") from error
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(
        100 * histogram.shares,
        extent=(-1, 1, FIELD_Y, -FIELD_Y),
        vmin=0,
        vmax=100 * limit,
        cmap="inferno",
        interpolation="bilinear",
        aspect=float(METRES[1] / METRES[0]),
    )
    axes.set_facecolor("0.2")
    _draw_lines(axes)
    axes.set(xlim=(-1.05, 1.05), ylim=(FIELD_Y + 0.03, -FIELD_Y - 0.03), title=title, xlabel="attacks to the right →")
    axes.set_xticks([])
    axes.set_yticks([])
    figure.colorbar(image, ax=axes, shrink=0.8, label="% of the positions per cell")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DPI, format="png")


def _draw_lines(axes: Axes) -> None:
    """Draw the markings of the field and both goals."""
    from matplotlib.patches import Ellipse, Rectangle  # noqa: PLC0415 - as above

    width, height = (float(2 * _CENTRE_CIRCLE_M / metres) for metres in METRES)
    for patch in (
        Rectangle((-1, -FIELD_Y), 2, 2 * FIELD_Y),
        Rectangle((-1, -PENALTY_Y), PENALTY_X, 2 * PENALTY_Y),
        Rectangle((1 - PENALTY_X, -PENALTY_Y), PENALTY_X, 2 * PENALTY_Y),
        Rectangle((-1.03, -GOAL_Y), 0.03, 2 * GOAL_Y),
        Rectangle((1, -GOAL_Y), 0.03, 2 * GOAL_Y),
        Ellipse((0, 0), width, height),
    ):
        patch.set(fill=False, color="white", lw=0.8, alpha=0.8)
        axes.add_patch(patch)
    axes.plot([0, 0], [-FIELD_Y, FIELD_Y], color="white", lw=0.8, alpha=0.8)
