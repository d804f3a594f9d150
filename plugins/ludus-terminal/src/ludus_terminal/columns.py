"""Tables of plain text."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence

__all__ = ["columns"]


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines whose cells stand below each other; the last column is wrapped to fit the terminal.

    Args:
        rows: Cells, as many in every row.
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    indent = " " * (sum(widths[:-1]) + 2 * (len(widths) - 1))
    most = max(shutil.get_terminal_size((120, 1)).columns, len(indent) + 40)
    lines = []
    for cells in rows:
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
        lines.append(textwrap.fill(line, most, subsequent_indent=indent, break_on_hyphens=False))
    return "\n".join(lines)
