"""Types of command-line options."""

from __future__ import annotations

import click
import pytest
from ludus.cli_types import FiniteRange


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "-nan"])
def test_finite_range_rejects_infinity_and_nan(text):
    """Click accepts both."""
    with pytest.raises(click.BadParameter, match=rf"{text} is not a finite number\."):
        FiniteRange(min=0).convert(text, None, None)


@pytest.mark.parametrize(("text", "why"), [("-1", "x>=0"), ("-inf", "x>=0"), ("x", "not a valid float")])
def test_finite_range_has_bounds(text, why):
    """The message is that of click."""
    with pytest.raises(click.BadParameter, match=why):
        FiniteRange(min=0).convert(text, None, None)
    assert FiniteRange(min=0).convert("1e300", None, None) == 1e300
