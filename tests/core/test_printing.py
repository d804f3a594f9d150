"""Text as a terminal may be given it."""

from __future__ import annotations

import pytest
from ludus.printing import did_you_mean, printable


@pytest.mark.parametrize("code", [*range(32), *range(127, 160)])
def test_control_characters_are_escaped(code):
    """Names of a foreign league could execute commands of the terminal."""
    assert printable(f"a{chr(code)}b") == rf"a\x{code:02x}b"


def test_printable_characters_are_unchanged():
    """This includes characters that are not ASCII."""
    text = " ~\xa0käthe 棋 \\x1b"
    assert printable(text) == text


@pytest.mark.parametrize(
    ("word", "hint"),
    [("alhpa", " — did you mean 'alpha'?"), ("al", " — did you mean 'alpha'?"), ("xyz", ""), ("", "")],
)
def test_the_closest_choice_is_suggested(word, hint):
    """Or one that the word begins; none if no choice is similar."""
    assert did_you_mean(word, ["beta", "alpha"]) == hint
