"""Test that the table of the README matches the options."""

from __future__ import annotations

from pathlib import Path

import attrs
from ludus_dqn.config import DQNConfig

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def format_default(value):
    """Return a default in TOML, as code."""
    if value is None:
        return "unset"
    return f'`"{value}"`' if isinstance(value, str) else f"`{str(value).lower()}`"


def test_every_option_is_in_the_readme():
    """With its default and help."""
    for option in attrs.fields(DQNConfig):
        meaning = option.metadata["help"].replace("|", r"\|")
        assert f"| `{option.name}` | {format_default(option.default)} | {meaning} |" in README
