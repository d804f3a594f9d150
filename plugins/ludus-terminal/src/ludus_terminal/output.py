"""Tables, and the width of the commands' output."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["NEAR", "output_width", "table"]

NEAR = 1.96  # standard deviations of a 95 % interval

_DEFAULT = 100  # columns of output to a file or pipe


def output_width() -> int:
    """Return the number of columns of the terminal, or 100 where the output is no terminal."""
    return shutil.get_terminal_size((_DEFAULT, 1)).columns


def table(title: str, *columns: str) -> Table:
    """Return an empty table; columns whose names start with > are aligned to the right."""
    from rich.table import Table  # noqa: PLC0415 - only here: lists must be fast

    result = Table(title=title, title_justify="left", min_width=len(title), box=None, pad_edge=False)
    for column in columns:
        result.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", overflow="fold")
    return result
