"""Check the options of all built-in and installed commands."""

from __future__ import annotations

import click
import pytest
from ludus.__main__ import cli
from ludus._plugins.manager import BUILT_IN_COMMANDS, load_plugins
from ludus.cli_types import FiniteRange

COMPONENTS = {**load_plugins().components("command"), **BUILT_IN_COMMANDS}


def parameters(command):
    """Yield the parameters of a command and its subcommands."""
    yield from command.params
    for below in getattr(command, "commands", {}).values():
        yield from parameters(below)


@pytest.mark.parametrize("name", COMPONENTS)
def test_numbers_are_finite(name):
    """Numeric options reject nan, which passes every bound."""
    numbers = [p for p in parameters(COMPONENTS[name].load_factory()) if isinstance(p.type, click.types.FloatParamType)]
    assert [option.name for option in numbers if not isinstance(option.type, FiniteRange)] == []


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_command_lets_the_user_trust_modules(name):
    """Subcommands do too; each has the option once."""

    def leaves(command):
        below = getattr(command, "commands", {}).values()
        return [leaf for one in below for leaf in leaves(one)] or [command]

    command = cli.get_command(click.Context(cli), name)
    for leaf in leaves(command):
        assert [option.name for option in leaf.params].count("trust_module") == 1
