"""The README's tables say what the options say."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from ludus_networks import config
from ludus_networks.reference import AETInputs

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def shown(default):
    """Return a default as TOML has it, in code."""
    if default is attrs.NOTHING:
        return ""
    if isinstance(default, attrs.Factory):
        return "`{}` "
    if isinstance(default, tuple):
        return f"`{list(default)}` ".replace("'", '"')
    text = f'"{default}"' if isinstance(default, str) else str(default).lower()
    return f"`{text}` "


@pytest.mark.parametrize("name", config.__all__)
def test_every_option_is_in_the_readme(name):
    """With its default and its line of meaning."""
    for option in attrs.fields(getattr(config, name)):
        assert f"| `{option.name}` | {shown(option.default)}| {option.metadata['help']} |" in README


def test_assumed_sizes_have_a_meaning():
    """Each says what it is the size of."""
    assert all(option.metadata["help"] for option in attrs.fields(AETInputs))
