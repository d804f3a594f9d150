"""Text as a terminal may be given it."""

from __future__ import annotations

__all__ = ["printable"]

_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def printable(text: str) -> str:
    """Return a text with control characters escaped, which would be orders to the terminal: C0, DEL and C1."""
    return text.translate(_ESCAPED)
