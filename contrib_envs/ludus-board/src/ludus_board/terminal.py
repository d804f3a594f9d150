"""Boards and moves as text."""

from __future__ import annotations

import numpy as np

from ludus_board.rules import Rules

_RED, _YELLOW, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[0m"


def _by_cell(rules: Rules) -> bool:
    """Return whether an action names a cell (else it names a column)."""
    return rules.num_actions == rules.shape[0] * rules.shape[1]


def place_name(rules: Rules, action: int) -> str:
    """Describe where a valid action places its stone, counted from 1."""
    row, column = divmod(action, rules.shape[1])
    return f"row {row + 1}, column {column + 1}" if _by_cell(rules) else f"column {action + 1}"


def render(rules: Rules, board: np.ndarray) -> str:
    """Return ``board [rows, columns, 2] int8`` as text: X is seat 0, O is seat 1."""
    height, width = rules.shape
    marks = {(1, 0): f"{_RED}X{_PLAIN}", (0, 1): f"{_YELLOW}O{_PLAIN}", (0, 0): "."}
    rows = []
    for number in range(height):
        label = "abc"[number] if _by_cell(rules) else " "
        rows.append(" ".join([label, *(marks[int(own), int(other)] for own, other in board[number])]))
    return "\n".join([*rows, " ".join([" ", *(str(column + 1) for column in range(width))])])


def action_name(rules: Rules, action: int) -> str:
    """Return ``"b2"`` (row, column) where actions name cells, else the column counted from 1."""
    if _by_cell(rules):
        row, column = divmod(action, rules.shape[1])
        return f"{'abc'[row]}{column + 1}"
    return str(action + 1)


def action_at(rules: Rules, x: float, y: float) -> str:
    """Return the name of the action at a place of a board whose cells are squares of size 1; empty beside it."""
    height, width = rules.shape
    if not (0 <= x < width and 0 <= y < height):
        return ""
    return action_name(rules, int(y) * width + int(x) if _by_cell(rules) else int(x))


def parse_action(rules: Rules, text: str) -> int:
    """Parse an action.

    Raises:
        ValueError: The text names no action.
    """
    typed = text.strip().lower()
    names = {str(action + 1): action for action in range(rules.num_actions)}
    names |= {action_name(rules, action): action for action in range(rules.num_actions)}
    if typed not in names:
        wanted = "a cell from 1 to 9 or a1 to c3" if _by_cell(rules) else f"a column from 1 to {rules.num_actions}"
        raise ValueError(f"expected {wanted}, got {text.strip()!r}")
    return names[typed]
