"""Text as a terminal may be given it."""

from __future__ import annotations

import pytest
from ludus.printing import printable


@pytest.mark.parametrize("code", [*range(32), *range(127, 160)])
def test_control_characters_are_escaped(code):
    """Names in somebody else's league could clear the screen, or worse."""
    assert printable(f"a{chr(code)}b") == rf"a\x{code:02x}b"


def test_what_can_be_seen_stays():
    """Also what is not ASCII, and what stands next to control characters."""
    text = " ~\xa0käthe 棋 \\x1b"
    assert printable(text) == text
