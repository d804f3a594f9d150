"""Escape text for terminals."""

from __future__ import annotations

__all__ = ["printable"]

_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def printable(text: str) -> str:
    """Return a text with control characters (C0, DEL and C1) escaped, which a terminal would execute."""
    return text.translate(_ESCAPED)
