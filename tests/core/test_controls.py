"""Controls: chords, and what held keys mean."""

from __future__ import annotations

import pytest
from ludus.controls import Controls

CONTROLS = Controls(keys={"ArrowUp": "up", "ArrowUp ArrowRight": "up-right", " ": "serve", "a": "use"})


@pytest.mark.parametrize(
    ("held", "action"),
    [
        ([], ""),
        (["x"], ""),
        (["ArrowUp"], "up"),
        (["ArrowRight"], ""),
        (["ArrowRight", "ArrowUp"], "up-right"),
        ([" "], "serve"),
        (["x", "a"], "use"),
    ],
)
def test_the_longest_chord_counts(held, action):
    """Other keys that are held do not matter."""
    assert CONTROLS.action(held) == action
