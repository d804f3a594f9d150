"""Actions as people type them, and colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

__all__ = ["action_name", "highlight", "parse_action"]


def highlight(text: str) -> str:
    """Return the text in yellow."""
    return f"\x1b[33m{text}\x1b[0m"


def action_name(words: Sequence[Sequence[str]], action: np.ndarray) -> str:
    """Return the word of each label's choice, or the numbers of a continuous action, with spaces between."""
    if not words:
        return " ".join(f"{value:g}" for value in action)
    return " ".join(names[int(choice)] for names, choice in zip(words, action, strict=True))


def parse_action(words: Sequence[Sequence[str]], space: Space[Any], text: str) -> np.ndarray:
    """Return the action that `text` names, ``[L] int64`` or ``[D] float32``.

    Args:
        words: The choices of every label; empty for a Box.
        space: The action space.
        text: What was typed.

    Raises:
        ValueError: It names none; the message says what can be typed.
    """
    typed = text.lower().split()
    if isinstance(space, spaces.Box):
        return _numbers(space, typed, text)
    if len(typed) != len(words) or not all(word in names for word, names in zip(typed, words, strict=True)):
        wanted = ", then ".join(_choices(names) for names in words)
        raise ValueError(f"expected {wanted}; got {text.strip()!r}")
    return np.array([list(names).index(word) for word, names in zip(typed, words, strict=True)], np.int64)


def _choices(names: Sequence[str]) -> str:
    return f"one of {' '.join(names)}"


def _numbers(space: spaces.Box, typed: Sequence[str], text: str) -> np.ndarray:
    try:
        action = np.array([float(word) for word in typed], np.float32)
    except ValueError:
        action = np.zeros(0, np.float32)
    if not space.contains(action):
        low, high = space.low.min(), space.high.max()
        raise ValueError(f"expected {space.shape[0]} numbers from {low:g} to {high:g}; got {text.strip()!r}")
    return action
