"""Options of the commands of all installed plugins, and of those of ludus itself."""

from __future__ import annotations

import click
import pytest
from ludus._plugins.commands import BUILT_IN_COMMANDS
from ludus._plugins.manager import load_plugins
from ludus.cli_types import FiniteRange

COMPONENTS = {**load_plugins().components("command"), **BUILT_IN_COMMANDS}


def parameters(command):
    """Yield the parameters of a command and of those below it."""
    yield from command.params
    for below in getattr(command, "commands", {}).values():
        yield from parameters(below)


@pytest.mark.parametrize("name", COMPONENTS)
def test_numbers_are_finite(name):
    """No command waits for ever because nan, which passes every bound, was not refused."""
    numbers = [p for p in parameters(COMPONENTS[name].load_factory()) if isinstance(p.type, click.types.FloatParamType)]
    assert [option.name for option in numbers if not isinstance(option.type, FiniteRange)] == []
