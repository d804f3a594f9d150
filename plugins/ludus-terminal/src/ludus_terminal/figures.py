"""Figures as PNG files, drawn by matplotlib."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from ludus.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["new_figure", "save_figure"]

_DPI = 110


def new_figure() -> Figure:
    """Return an empty figure, which needs no display.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and half a second to import
    except ModuleNotFoundError as error:
        raise ConfigError("plots need matplotlib; pip install 'ludus-terminal[plot]'") from error
    return Figure(layout="constrained")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG; missing folders are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # letters that the font lacks
        figure.savefig(path, dpi=_DPI, format="png")
