"""``ludus plugins`` lists the installed plugins with their components and problems."""

from __future__ import annotations

import json

import pytest
from attrs import frozen
from ludus import Component, Plugins, __main__, load_plugins
from ludus.hookspecs import KINDS
from ludus.option import option
from ludus_terminal import plugins as plugins_command
from ludus_terminal.plugins import columns

ALLOW_VARIABLE, BLOCK_VARIABLE = "LUDUS_ALLOW_PLUGINS", "LUDUS_BLOCK_PLUGINS"


@pytest.fixture(autouse=True)
def only_dummy(monkeypatch):
    """Load only ludus-dummy and the command."""
    monkeypatch.setenv(ALLOW_VARIABLE, "ludus-dummy,ludus-terminal")
    monkeypatch.setenv(BLOCK_VARIABLE, "")
    monkeypatch.setenv("COLUMNS", "200")


def run(capsys, *arguments):
    """Return the output of a successful command."""
    assert __main__.main(["plugins", *arguments]) == 0
    return capsys.readouterr().out


def test_plugins_are_listed(capsys):
    """Show distribution, version, status and components of every plugin."""
    out = run(capsys)
    assert "ludus-dummy" in out
    assert "environment: dummy-count, dummy-guess" in out
    assert "listens to: match_ended" in out


def test_verbose_lists_every_component(capsys):
    """Show kind, name and summary of every component."""
    out = run(capsys, "-v")
    assert "environment:dummy-count" in out
    assert "One linear layer per head." in out


def test_json_has_everything(capsys):
    """--json prints every report."""
    reports = {report["distribution"]: report for report in json.loads(run(capsys, "--json"))}
    dummy = reports["ludus-dummy"]
    assert (dummy["name"], dummy["status"], dummy["problems"]) == ("dummy", "ok", [])
    assert dummy["offers"]["metric-sink"][0]["name"] == "dummy-memory"


def test_problems_are_lines_below_the_table(capsys, monkeypatch):
    """Show the plugin, its status and the reason, and names that match no plugin."""
    monkeypatch.setenv(BLOCK_VARIABLE, "dummy,nobody")
    out = run(capsys)
    assert "dummy (ludus-dummy 0.1.0) blocked: blocked by LUDUS_BLOCK_PLUGINS" in out
    assert "'nobody' is to be allowed or blocked, but no installed plugin has that name" in out


def test_no_plugin_at_all(capsys, monkeypatch):
    """The message states what to install."""
    monkeypatch.setattr(plugins_command, "load_plugins", lambda: Plugins([]))
    assert "no plugin is installed" in run(capsys)


def test_show_prints_options(capsys):
    """Show name, type, default, range and meaning of every option."""
    out = run(capsys, "show", "algorithm:dummy-gradient")
    assert "from ludus-dummy 0.1.0, ludus_dummy.algorithm:Gradient" in out
    assert "gamma" in out
    assert "a number in [0, 1]" in out
    assert "discount per decision" in out


def test_show_prints_presets(capsys):
    """Show every preset with its options, as text and as JSON."""
    out = run(capsys, "show", "algorithm:dummy-gradient")
    assert "quick   learning_rate = 8.0, batch_decisions = 64" in out
    data = json.loads(run(capsys, "show", "algorithm:dummy-gradient", "--json"))
    assert data["presets"] == {"quick": {"learning_rate": 8.0, "batch_decisions": 64}}


def test_show_has_json(capsys):
    """--json prints the same values."""
    data = json.loads(run(capsys, "show", "agent:dummy-perfect", "--json"))
    assert data["environments"] == ["dummy-count"]
    assert data["options"] == [
        {
            "name": "error_rate",
            "type": "float",
            "required": False,
            "default": 0.0,
            "expected": "a number in [0, 1]",
            "help": "share of decisions made at random, in [0, 1]",
        }
    ]


def test_show_without_options(capsys):
    """A component may have no options."""
    assert "no options" in run(capsys, "show", "interface:dummy-reverse")


@pytest.mark.parametrize("argument", ["dummy-count", "game:dummy-count", "environment:", "environment"])
def test_show_explains_its_argument(argument, capsys):
    """The message lists the kinds."""
    assert __main__.main(["plugins", "show", argument]) == 1
    assert "expected KIND:NAME, where KIND is one of environment, interface" in capsys.readouterr().err


def test_show_suggests_a_name(capsys):
    """The error for a misspelt name suggests a similar one."""
    assert __main__.main(["plugins", "show", "environment:dummy-cuont"]) == 1
    assert "did you mean 'dummy-count'?" in capsys.readouterr().err


def test_every_component_installed_can_be_shown(monkeypatch, capsys):
    """The options of all installed components can be written as JSON."""
    monkeypatch.delenv(ALLOW_VARIABLE)
    loaded = load_plugins()
    for module in ("ludus.__main__", "ludus_terminal.plugins"):
        monkeypatch.setattr(f"{module}.load_plugins", lambda: loaded)
    for kind in KINDS:
        for name in loaded.components(kind):
            assert json.loads(run(capsys, "show", f"{kind}:{name}", "--json"))["name"] == name


def test_defaults_of_all_sorts_can_be_shown(monkeypatch, capsys):
    """Lists and tables are JSON values; other objects are shown as text."""

    @frozen
    class Odd:
        items: tuple = option([1, (2.0, "a"), {"b": None}], help="")
        kind: type = option(int, help="")

    monkeypatch.setattr(Component, "load_config", lambda self: Odd)
    options = json.loads(run(capsys, "show", "agent:dummy-perfect", "--json"))["options"]
    assert [entry["default"] for entry in options] == [[1, [2.0, "a"], {"b": None}], "<class 'int'>"]
    assert "<class 'int'>" in run(capsys, "show", "agent:dummy-perfect")


def test_cells_are_aligned():
    """Every column is as wide as its widest cell, and no line ends with spaces."""
    assert columns([("a", "bb", "c"), ("ddd", "e", "")]) == "a    bb  c\nddd  e"


def test_cells_are_wrapped(monkeypatch):
    """Wrapped lines are aligned, also if the row starts with empty cells; the first column keeps its width."""
    monkeypatch.setenv("COLUMNS", "50")
    words = "one two three four five six seven eight nine ten"
    assert columns([("a", words), ("", words)]).splitlines() == [
        "a  one two three four five six seven eight nine",
        "   ten",
        "   one two three four five six seven eight nine",
        "   ten",
    ]
    lines = columns([("a-name-without-spaces", words, words)]).splitlines()
    assert max(map(len, lines)) <= 50
    assert lines[0].startswith("a-name-without-spaces  one two")


@pytest.mark.parametrize("arguments", [(), ("-v",), *(("show", f"{kind}:{{}}") for kind in KINDS if kind != "command")])
def test_output_fits_the_terminal(capsys, monkeypatch, arguments):
    """Every installed component is shown within the width of the terminal."""
    monkeypatch.setenv(ALLOW_VARIABLE, "")
    monkeypatch.setenv("COLUMNS", "80")
    kind = arguments[1].partition(":")[0] if len(arguments) > 1 else ""
    names = load_plugins().components(kind) if kind else [""]
    for name in names:
        lines = run(capsys, *(argument.format(name) for argument in arguments)).splitlines()
        assert [line for line in lines if len(line) > 80] == []
