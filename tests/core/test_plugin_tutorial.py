"""Check that the plugin tutorial shows the code of the example package and existing commands."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import click
import pytest
from ludus.__main__ import cli
from ludus_scaffold.command import write_plugin

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "plugin-rock-paper-scissors"
TEXT = (ROOT / "docs" / "plugin-tutorial.md").read_text(encoding="utf-8")
#: "`path`:" or "From `path`:" before a block of code.
SHOWN = re.findall(r"^(From )?`(\S+)`:\n\n```\w+\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = sorted({line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()})


@pytest.mark.parametrize(("excerpt", "path", "code"), SHOWN, ids=lambda value: value[:60])
def test_code_shown_is_the_code_of_the_example(excerpt, path, code):
    """A block shows a whole file, or an excerpt of it."""
    text = (PACKAGE / path).read_text(encoding="utf-8")
    assert code in text if excerpt else code == text


def test_every_module_and_the_run_file_are_shown():
    """The blocks of the tutorial are the whole plugin."""
    whole = {path for excerpt, path, _ in SHOWN if not excerpt}
    modules = {str(path.relative_to(PACKAGE)) for path in PACKAGE.glob("src/*/*.py") if path.name != "__init__.py"}
    assert whole == modules | {"run.toml"}


def test_the_example_has_the_requirements_of_the_tutorial(tmp_path):
    """They are those of a new package, and those that the tutorial adds."""

    def required(folder):
        settings = ConfigParser()
        settings.read(folder / "setup.cfg")
        return set(settings["options"]["install_requires"].split())

    new = write_plugin("environment", "new", into=tmp_path)
    assert required(PACKAGE) == required(new) | set(re.findall(r"gets the line `(\S+)`", TEXT))


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("ludus ")])
def test_commands_exist(command):
    """Every ``ludus`` command of the tutorial is one of the command line."""
    assert command.split()[1] in cli.list_commands(click.Context(cli))


def test_commands_are_found():
    """The tutorial goes from a new package to a trained player."""
    assert "ludus new-plugin environment rock-paper-scissors" in COMMANDS
    assert "ludus train run.toml" in COMMANDS
