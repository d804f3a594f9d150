"""Format tables as plain text."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence

__all__ = ["columns"]


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines with aligned cells; the last column is wrapped to the width of the terminal.

    Args:
        rows: Cells; every row has the same number.
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    indent = " " * (sum(widths[:-1]) + 2 * (len(widths) - 1))
    width = max(shutil.get_terminal_size((120, 1)).columns, len(indent) + 40)
    lines = []
    for cells in rows:
        line = "  ".join(f"{cell:<{length}}" for cell, length in zip(cells, widths, strict=True)).rstrip()
        lines.append(textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False))
    return "\n".join(lines)
