"""The command line: finding commands, turning errors into lines, and listing plugins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import click
import pytest
from attrs import frozen
from ludus import ConfigError, __main__, __version__
from ludus._cli import BUILT_IN, plugins as plugins_command
from ludus._plugins import ALLOW_VARIABLE, BLOCK_VARIABLE, PluginReport, Plugins, load_plugins
from ludus.component import KINDS, Component
from ludus.option import option


@pytest.fixture(autouse=True)
def only_dummy(monkeypatch):
    """Load ludus-dummy alone, whatever else is installed."""
    monkeypatch.setenv(ALLOW_VARIABLE, "ludus-dummy")
    monkeypatch.setenv(BLOCK_VARIABLE, "")


@pytest.fixture
def command(monkeypatch):
    """Put a command of one's own behind the name ``train``."""

    def install(function):
        made = click.command("train")(function)
        monkeypatch.setitem(BUILT_IN, "train", Component(name="train", factory="ludus_test_command:train"))
        monkeypatch.setitem(sys.modules, "ludus_test_command", SimpleNamespace(train=made))

    return install


def test_success_is_zero(command, capsys):
    """What the command prints is what is seen."""
    command(lambda: click.echo("done"))
    assert __main__.main(["train"]) == 0
    assert capsys.readouterr().out == "done\n"


def test_a_ludus_error_is_one_line_per_problem(command, capsys):
    """No traceback, status 1, on standard error."""

    def fail():
        raise ConfigError("a.toml:x: wrong", "a.toml:y: wrong too")

    command(fail)
    assert __main__.main(["train"]) == 1
    assert capsys.readouterr().err == "error: a.toml:x: wrong\nerror: a.toml:y: wrong too\n"


def test_an_error_without_words_has_a_name(command, capsys):
    """There is always a line."""

    def fail():
        raise ConfigError

    command(fail)
    assert __main__.main(["train"]) == 1
    assert capsys.readouterr().err == "error: ConfigError\n"


def test_debugging_shows_where(command, monkeypatch):
    """With LUDUS_DEBUG the exception is let through."""

    def fail():
        raise ConfigError("wrong")

    command(fail)
    monkeypatch.setenv("LUDUS_DEBUG", "1")
    with pytest.raises(ConfigError):
        __main__.main(["train"])


def test_other_exceptions_are_not_hidden(command):
    """A bug shows its traceback."""
    command(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        __main__.main(["train"])


@pytest.mark.parametrize("exception", [KeyboardInterrupt, click.Abort])
def test_interruption_is_130(command, capsys, exception):
    """As shells report it."""

    def stop():
        raise exception

    command(stop)
    assert __main__.main(["train"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_exit_statuses_of_commands_are_kept(command):
    """Both ways to say it."""
    command(lambda: click.get_current_context().exit(3))
    assert __main__.main(["train"]) == 3
    command(lambda: 4)
    assert __main__.main(["train"]) == 4


def test_usage_errors_are_those_of_click(capsys):
    """Status 2 and a hint to the help."""
    assert __main__.main(["plugins", "--nonsense"]) == 2
    assert "ludus plugins --help" in capsys.readouterr().err


def test_unknown_commands_are_guessed(capsys):
    """Commands of plugins are proposed as well."""
    assert __main__.main(["dummy-helo"]) == 2
    assert "No such command 'dummy-helo'. Did you mean 'dummy-hello'?" in capsys.readouterr().err


def test_commands_of_plugins_run(capsys):
    """The arguments reach them."""
    assert __main__.main(["dummy-hello", "ludus"]) == 0
    assert capsys.readouterr().out == "hello ludus\n"


def test_commands_of_blocked_plugins_are_unknown():
    """Blocking on the command line works before the command is looked up."""
    assert __main__.main(["--block-plugin", "dummy", "dummy-hello"]) == 2


def test_a_command_must_be_a_command(monkeypatch, capsys):
    """Anything else is the plugin's error."""
    wrong = Component(name="dummy-hello", factory="collections:OrderedDict")
    loaded = SimpleNamespace(components=lambda kind: {"dummy-hello": wrong}, get=lambda kind, name: wrong)
    monkeypatch.setattr(__main__, "load_plugins", lambda: loaded)
    assert __main__.main(["dummy-hello"]) == 1
    assert "expected a click.Command" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "variable"), [("--block-plugin", BLOCK_VARIABLE), ("--allow-plugin", ALLOW_VARIABLE)]
)
def test_children_inherit_the_choice_of_plugins(monkeypatch, option, variable):
    """The options extend the environment variables."""
    monkeypatch.setenv(variable, "first")
    assert __main__.main([option, "a", option, "b", "--help"]) == 0
    assert os.environ[variable] == "first,a,b"


def test_help_lists_every_command(capsys):
    """Built-in ones with their lines, those of plugins apart."""
    assert __main__.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out and entry.summary in out for name, entry in BUILT_IN.items())
    assert out.index("resume") < out.index("Commands of plugins") < out.index("Greets you by name.")


def test_version(capsys):
    """Of the core."""
    assert __main__.main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_commands_exist(name, capsys):
    """The table leads to a command with the help it promises to have."""
    assert __main__.main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: ludus {name}")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_python_m_ludus_and_a_closed_pipe(unbuffered):
    """The module runs as a program, and nobody reading it is no drama, whether it notices early or at the end."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "ludus", "--help"],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    writer.stdout.close()
    assert writer.stderr.read() == ""
    assert writer.wait(timeout=20) == 141
    writer.stderr.close()


def run(capsys, *arguments):
    """Return what a successful command printed."""
    assert __main__.main(["plugins", *arguments]) == 0
    return capsys.readouterr().out


def test_plugins_are_listed(capsys):
    """Distribution, version, status and what it offers."""
    out = run(capsys)
    assert "ludus-dummy" in out
    assert "environment: dummy-count, dummy-guess" in out
    assert "listens to: match_ended" in out


def test_verbose_lists_every_component(capsys):
    """Each with its kind, name and line."""
    out = run(capsys, "-v")
    assert "environment:dummy-count" in out
    assert "One linear layer per head." in out


def test_json_has_everything(capsys):
    """What a program needs to know."""
    reports = {report["distribution"]: report for report in json.loads(run(capsys, "--json"))}
    dummy = reports["ludus-dummy"]
    assert (dummy["name"], dummy["status"], dummy["problems"]) == ("dummy", "ok", [])
    assert dummy["offers"]["metric-sink"][0]["name"] == "dummy-memory"


def test_problems_are_lines_below_the_table(capsys, monkeypatch):
    """Who, what became of it, and why; names that match nothing are told, too."""
    monkeypatch.setenv(BLOCK_VARIABLE, "dummy,nobody")
    out = run(capsys)
    assert "dummy (ludus-dummy 0.1.0) blocked: blocked by LUDUS_BLOCK_PLUGINS" in out
    assert "'nobody' is to be allowed or blocked, but no installed plugin has that name" in out


def test_hidden_commands_are_a_problem(capsys, monkeypatch):
    """A plugin's command with the name of a built-in one would never run."""
    train = Component(name="train", factory="a:b")
    report = PluginReport(name="x", distribution="ludus-x", version="1", status="ok", offers={"command": (train,)})
    monkeypatch.setattr(plugins_command, "load_plugins", lambda: Plugins([(report, None)]))
    assert run(capsys).endswith("\nx (ludus-x 1): its command 'train' is hidden by that of ludus itself\n")


def test_no_plugin_at_all(capsys, monkeypatch):
    """A fresh installation is told what to do."""
    monkeypatch.setattr(plugins_command, "load_plugins", lambda: Plugins([]))
    assert "no plugin is installed" in run(capsys)


def test_show_prints_options(capsys):
    """Name, type, default, range and meaning of each."""
    out = run(capsys, "show", "algorithm:dummy-gradient")
    assert "from ludus-dummy 0.1.0, ludus_dummy.algorithm:Gradient" in out
    assert "gamma" in out
    assert "a number in [0, 1]" in out
    assert "discount per decision" in out


def test_show_has_json(capsys):
    """The same for programs."""
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
    """A component may have none."""
    assert "no options" in run(capsys, "show", "interface:dummy-reverse")


@pytest.mark.parametrize("argument", ["dummy-count", "game:dummy-count", "environment:", "environment"])
def test_show_explains_its_argument(argument, capsys):
    """The kinds are listed."""
    assert __main__.main(["plugins", "show", argument]) == 1
    assert "expected KIND:NAME, where KIND is one of environment, interface" in capsys.readouterr().err


def test_show_guesses(capsys):
    """A misspelt name is answered with a similar one."""
    assert __main__.main(["plugins", "show", "environment:dummy-cuont"]) == 1
    assert "did you mean 'dummy-count'?" in capsys.readouterr().err


def test_every_component_installed_can_be_shown(monkeypatch, capsys):
    """The options of whatever is installed can be written as JSON."""
    monkeypatch.delenv(ALLOW_VARIABLE)
    loaded = load_plugins()
    for kind in KINDS:
        for name in loaded.components(kind):
            assert json.loads(run(capsys, "show", f"{kind}:{name}", "--json"))["name"] == name


def test_defaults_of_all_sorts_can_be_shown(monkeypatch, capsys):
    """Lists and tables are data; other objects are shown as text."""

    @frozen
    class Odd:
        items: tuple = option([1, (2.0, "a"), {"b": None}], help="")
        kind: type = option(int, help="")

    monkeypatch.setattr(Component, "load_config", lambda self: Odd)
    options = json.loads(run(capsys, "show", "agent:dummy-perfect", "--json"))["options"]
    assert [entry["default"] for entry in options] == [[1, [2.0, "a"], {"b": None}], "<class 'int'>"]
    assert "<class 'int'>" in run(capsys, "show", "agent:dummy-perfect")
