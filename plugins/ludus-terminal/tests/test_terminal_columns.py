"""Tables of plain text."""

from __future__ import annotations

from ludus_terminal.columns import columns


def test_cells_stand_below_each_other():
    """Every column is as wide as its widest cell, and no line ends with blanks."""
    assert columns([("a", "bb", "c"), ("ddd", "e", "")]) == "a    bb  c\nddd  e"


def test_the_last_column_is_wrapped(monkeypatch):
    """Its lines stand below each other, also where a row begins with empty cells."""
    monkeypatch.setenv("COLUMNS", "50")
    words = "one two three four five six seven eight nine ten"
    assert columns([("a", words), ("", words)]).splitlines() == [
        "a  one two three four five six seven eight nine",
        "   ten",
        "   one two three four five six seven eight nine",
        "   ten",
    ]
