"""The command line: finding commands, and turning errors into lines."""

from __future__ import annotations

import errno
import io
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest
from ludus import ConfigError, __main__, __version__
from ludus._plugins.commands import BUILT_IN_COMMANDS
from ludus._plugins.loading import ALLOW_VARIABLE, BLOCK_VARIABLE, LoadedPlugin, PluginReport
from ludus._plugins.manager import Plugins
from ludus.component import Component


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
        monkeypatch.setitem(BUILT_IN_COMMANDS, "train", Component(name="train", factory="ludus_test_command:train"))
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


def test_control_characters_of_an_error_do_not_reach_the_terminal(command, capsys):
    """Names of somebody else's league may hold orders to it; other letters stay."""

    def fail():
        raise ConfigError("there are: random, mini\x1b]0;title\x07max, \x9b2J, käthe")

    command(fail)
    assert __main__.main(["train"]) == 1
    assert capsys.readouterr().err == "error: there are: random, mini\\x1b]0;title\\x07max, \\x9b2J, käthe\n"


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


def test_a_lack_of_memory_is_one_line(command, capsys):
    """NumPy says how much was asked for, which follows from numbers that a person gave."""
    command(lambda: np.zeros(2**59))
    assert __main__.main(["train"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: out of memory: Unable to allocate 4.00 EiB for an array")
    assert err.endswith(" — lower what is large, such as sampling.matches; LUDUS_DEBUG=1 shows where\n")


def test_a_file_that_cannot_be_used_is_one_line(command, capsys, tmp_path):
    """Whichever command wanted it; a failure without a file is a bug and shows its traceback."""
    command(lambda: (tmp_path / "none" / "x").write_text("x"))
    assert __main__.main(["train"]) == 1
    err = capsys.readouterr().err
    assert err == f"error: {tmp_path}/none/x: No such file or directory — choose another path, or change its rights\n"

    def fail():
        raise OSError("odd")

    command(fail)
    with pytest.raises(OSError, match="odd"):
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
    assert __main__.main(["train", "--nonsense"]) == 2
    assert "ludus train --help" in capsys.readouterr().err


def test_unknown_commands_are_guessed(capsys):
    """Commands of plugins are proposed as well; where none is close, its plugin may not be installed."""
    assert __main__.main(["dummy-helo"]) == 2
    assert "No such command 'dummy-helo'. Did you mean 'dummy-hello'?\n" in capsys.readouterr().err
    assert __main__.main(["fly"]) == 2
    assert "No such command 'fly'. Commands come with plugins (pip install ludus-…);" in capsys.readouterr().err


def test_a_command_may_be_missing_because_its_plugin_is(monkeypatch, capsys):
    """Those that could not be loaded are told, and why; so are those that were not to be."""
    reports = [
        PluginReport(name="x", distribution="ludus-x", version="1", status="broken", problems=("ImportError: z",)),
        PluginReport(name="y", distribution="ludus-y", version="1", status="blocked", problems=("by you",)),
    ]
    plugins = Plugins([LoadedPlugin(report=report) for report in reports], unmatched=["z"])
    monkeypatch.setattr(__main__, "load_plugins", lambda: plugins)
    assert __main__.main(["look"]) == 2
    assert capsys.readouterr().err.endswith(
        "No such command 'look'. Commands come with plugins (pip install ludus-…); `ludus --help` lists those that are "
        "installed.\n"
        "x (ludus-x 1) broken: ImportError: z\n"
        "not loaded: y; no installed plugin is called 'z' (see LUDUS_ALLOW_PLUGINS, LUDUS_BLOCK_PLUGINS)\n"
    )


def test_hidden_commands_are_a_problem():
    """A plugin's command with the name of a built-in one would never run."""
    train = Component(name="train", factory="a:b")
    report = PluginReport(name="x", distribution="ludus-x", version="1", offers={"command": (train,)})
    (line,) = Plugins([LoadedPlugin(report=report)]).problems()
    assert line == "x (ludus-x 1) ok: its command 'train' is hidden by that of ludus itself"


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
    assert all(name in out and entry.summary in out for name, entry in BUILT_IN_COMMANDS.items())
    assert out.index("resume") < out.index("Commands of plugins") < out.index("Greets you by name.")


def test_version(capsys):
    """Of the core."""
    assert __main__.main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("name", BUILT_IN_COMMANDS)
def test_built_in_commands_exist(name, capsys):
    """The table leads to a command with the help it promises to have."""
    assert __main__.main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: ludus {name}")


def helped(descriptor, unbuffered):
    """Return how ``python -m ludus --help`` ended, which printed to this descriptor."""
    try:
        return subprocess.run(
            [sys.executable, "-m", "ludus", "--help"],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=descriptor,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_python_m_ludus_and_a_closed_pipe(unbuffered):
    """The module runs as a program, and nobody reading it is no drama, whether it notices early or at the end."""
    reader, writer = os.pipe()
    os.close(reader)
    done = helped(writer, unbuffered)
    assert (done.stderr, done.returncode) == ("", 141)


@pytest.mark.parametrize(
    ("encoding", "character", "shown"),
    [("ascii", "→", rb"\u2192"), ("latin-1", "…", rb"\u2026"), ("utf-8", "\udcff", rb"\udcff")],
)
def test_a_character_that_the_encoding_lacks_is_its_number(command, monkeypatch, encoding, character, shown):
    """Both streams go on with the rest of the line, and with the next; names of files may hold what no encoding has."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)

    def tell():
        for line in (f"learner {character} ended", "restarted"):
            print(line)  # as rich does; click knows of some such streams
            print(line, file=sys.stderr)

    command(tell)
    assert __main__.main(["train"]) == 0
    err.flush()
    assert out.buffer.getvalue() == err.buffer.getvalue() == b"learner %s ended\nrestarted\n" % shown


@pytest.mark.parametrize(("no_color", "seen"), [("", b"\x1b[32mok\x1b[0m\r\n"), ("1", b"ok\r\n")])
def test_whoever_wants_no_colours_has_none(command, monkeypatch, no_color, seen):
    """At a terminal; elsewhere there are none anyway."""
    monkeypatch.setenv("NO_COLOR", no_color)
    command(lambda: click.echo(click.style("ok", fg="green")))
    master, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert __main__.main(["train"]) == 0
        assert os.read(master, 100) == seen
    os.close(master)


def lost_terminal():
    """Return the descriptor of a terminal that was closed."""
    master, terminal = pty.openpty()
    os.close(master)
    return terminal


def full_disk():
    """Return the descriptor of a file for which there is no room."""
    if not Path("/dev/full").exists():
        pytest.skip("only Linux has a disk that is always full")
    return os.open("/dev/full", os.O_WRONLY)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("output", "why"), [(lost_terminal, "Input/output error"), (full_disk, "No space left")])
def test_output_that_reaches_nobody_is_one_line(output, why, unbuffered):
    """Not a traceback, and told as a closed pipe is, to programs."""
    done = helped(output(), unbuffered)
    assert done.returncode == 141
    assert done.stderr.startswith(f"error: standard output: {why}")
    assert len(done.stderr.splitlines()) == 1


def test_a_disk_that_is_full_elsewhere_is_not_hidden(command):
    """The standard output has room: the error is of a file that a command writes."""

    def fail():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    command(fail)
    with pytest.raises(OSError, match="No space left"):
        __main__.main(["train"])


def test_a_status_survives_a_lost_terminal(command, monkeypatch):
    """Where an error cannot be told, its status still says that there was one."""

    def fail():
        raise ConfigError("wrong")

    command(fail)
    with os.fdopen(lost_terminal(), "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        assert __main__.main(["train"]) == 1
        with suppress(OSError):
            terminal.close()
