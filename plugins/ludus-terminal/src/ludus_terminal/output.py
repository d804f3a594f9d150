"""The width of the commands' output."""

from __future__ import annotations

import shutil

__all__ = ["output_width"]

_DEFAULT = 100  # columns of output to a file or pipe


def output_width() -> int:
    """Return the number of columns of the terminal, or 100 where the output is no terminal."""
    return shutil.get_terminal_size((_DEFAULT, 1)).columns
