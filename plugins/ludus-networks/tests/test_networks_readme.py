"""Tests that the tables of the README match the options."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from ludus_networks import config
from ludus_networks.presets import AETInputs

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def format_default(default):
    """Return a default in TOML, as code."""
    if default is attrs.NOTHING:
        return ""
    if isinstance(default, attrs.Factory):
        return "`{}` "
    if isinstance(default, tuple):
        return f"`{list(default)}` ".replace("'", '"')
    text = f'"{default}"' if isinstance(default, str) else str(default).lower()
    return f"`{text}` "


@pytest.mark.parametrize("name", [name for name in vars(config) if name.endswith(("Config", "Part"))])
def test_every_option_is_in_the_readme(name):
    """With its default and help."""
    for option in attrs.fields(getattr(config, name)):
        assert f"| `{option.name}` | {format_default(option.default)}| {option.metadata['help']} |" in README


def test_reference_inputs_have_help():
    """For every size."""
    assert all(option.metadata["help"] for option in attrs.fields(AETInputs))
