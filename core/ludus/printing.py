"""Text of messages, safe for terminals."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["did_you_mean", "printable"]

_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def printable(text: str) -> str:
    """Return a text with control characters (C0, DEL and C1) escaped, which a terminal would execute."""
    return text.translate(_ESCAPED)


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """Return `` — did you mean 'x'?`` for the closest choice, or an empty text if none is close."""
    text, sorted_choices = str(word), sorted(choices)
    close = difflib.get_close_matches(text, sorted_choices, n=1) or [
        choice for choice in sorted_choices if text and choice.startswith(text)
    ]
    return f" — did you mean {close[0]!r}?" if close else ""
