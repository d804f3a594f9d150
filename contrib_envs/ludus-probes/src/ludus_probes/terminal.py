"""Names of actions, and colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

__all__ = ["action_name", "highlight", "parse_action"]


def highlight(text: str) -> str:
    """Return the text in yellow."""
    return f"\x1b[33m{text}\x1b[0m"


def action_name(choice_names: Sequence[Sequence[str]], action: np.ndarray) -> str:
    """Return the names of the choices of all labels, or the numbers of a continuous action, separated by spaces."""
    if not choice_names:
        return " ".join(f"{value:g}" for value in action)
    return " ".join(names[int(choice)] for names, choice in zip(choice_names, action, strict=True))


def parse_action(choice_names: Sequence[Sequence[str]], space: Space[Any], text: str) -> np.ndarray:
    """Parse an action into ``[L] int64`` or ``[D] float32``.

    Args:
        choice_names: Names of the choices of every label; empty for a Box.
        space: The action space.
        text: Text to parse.

    Raises:
        ValueError: The text names no action; the message lists what is expected.
    """
    typed = text.lower().split()
    if isinstance(space, spaces.Box):
        return _numbers(space, typed, text)
    if len(typed) != len(choice_names) or not all(
        word in names for word, names in zip(typed, choice_names, strict=True)
    ):
        wanted = ", then ".join(_choices(names) for names in choice_names)
        raise ValueError(f"expected {wanted}; got {text.strip()!r}")
    return np.array([list(names).index(word) for word, names in zip(typed, choice_names, strict=True)], np.int64)


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
