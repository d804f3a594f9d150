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
from ludus._plugins.loading import ALLOW_VARIABLE, BLOCK_VARIABLE, LoadedPlugin, PluginReport
from ludus._plugins.manager import BUILT_IN_COMMANDS, Plugins
from ludus.component import Component
from ludus.trust import MODULES_VARIABLE


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
    """The output of the command is unchanged."""
    command(lambda: click.echo("done"))
    assert __main__.main(["train"]) == 0
    assert capsys.readouterr().out == "done\n"


def test_ludus_errors_are_printed_as_lines(command, capsys):
    """Standard error has one line per problem and no traceback; the status is 1."""

    def fail():
        raise ConfigError("a.toml:x: wrong", "a.toml:y: wrong too")

    command(fail)
    assert __main__.main(["train"]) == 1
    assert capsys.readouterr().err == "error: a.toml:x: wrong\nerror: a.toml:y: wrong too\n"


def test_error_without_a_message_prints_its_class(command, capsys):
    """There is always a line."""

    def fail():
        raise ConfigError

    command(fail)
    assert __main__.main(["train"]) == 1
    assert capsys.readouterr().err == "error: ConfigError\n"


def test_control_characters_of_errors_are_escaped(command, capsys):
    """Names of a foreign league may contain them; other characters are unchanged."""

    def fail():
        raise ConfigError("there are: random, mini\x1b]0;title\x07max, \x9b2J, käthe")

    command(fail)
    assert __main__.main(["train"]) == 1
    assert capsys.readouterr().err == "error: there are: random, mini\\x1b]0;title\\x07max, \\x9b2J, käthe\n"


def test_ludus_debug_raises_the_error(command, monkeypatch):
    """The traceback is shown."""

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


def test_memory_error_is_one_line(command, capsys):
    """The line holds the message of NumPy and a suggestion."""
    command(lambda: np.zeros(2**59))
    assert __main__.main(["train"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: out of memory: Unable to allocate 4.00 EiB for an array")
    assert err.endswith(" — lower what is large, such as sampling.matches; LUDUS_DEBUG=1 shows where\n")


def test_os_error_of_a_file_is_one_line(command, capsys, tmp_path):
    """An OSError without a file is a bug and shows its traceback."""
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
def test_interrupt_exits_with_130(command, capsys, exception):
    """Shells use this status too."""

    def stop():
        raise exception

    command(stop)
    assert __main__.main(["train"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_exit_statuses_of_commands_are_kept(command):
    """`ctx.exit` and a returned status both work."""
    command(lambda: click.get_current_context().exit(3))
    assert __main__.main(["train"]) == 3
    command(lambda: 4)
    assert __main__.main(["train"]) == 4


def test_usage_errors_are_those_of_click(capsys):
    """The status is 2, and a hint names the help."""
    assert __main__.main(["train", "--nonsense"]) == 2
    assert "ludus train --help" in capsys.readouterr().err


def test_unknown_command_suggests_a_similar_one(capsys):
    """Commands of plugins are suggested too; otherwise the message names plugins as their source."""
    assert __main__.main(["dummy-helo"]) == 2
    assert "No such command 'dummy-helo'. Did you mean 'dummy-hello'?\n" in capsys.readouterr().err
    assert __main__.main(["fly"]) == 2
    assert "No such command 'fly'. Commands come with plugins (pip install ludus-…);" in capsys.readouterr().err


def test_unknown_command_lists_plugins_that_are_not_loaded(monkeypatch, capsys):
    """The message holds broken and blocked plugins with reasons."""
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


def test_hidden_command_is_a_problem():
    """A plugin's command with the name of a built-in command never runs."""
    train = Component(name="train", factory="a:b")
    report = PluginReport(name="x", distribution="ludus-x", version="1", offers={"command": (train,)})
    (line,) = Plugins([LoadedPlugin(report=report)]).problems()
    assert line == "x (ludus-x 1) ok: its command 'train' is hidden by that of ludus itself"


def test_commands_of_plugins_run(capsys):
    """The arguments are passed to the command."""
    assert __main__.main(["dummy-hello", "ludus"]) == 0
    assert capsys.readouterr().out == "hello ludus\n"


def test_commands_of_blocked_plugins_are_unknown():
    """The options that block plugins are processed before the command."""
    assert __main__.main(["--block-plugin", "dummy", "dummy-hello"]) == 2


def test_command_factory_must_be_a_click_command(monkeypatch, capsys):
    """Any other object is an error of the plugin."""
    wrong = Component(name="dummy-hello", factory="collections:OrderedDict")
    loaded = SimpleNamespace(components=lambda kind: {"dummy-hello": wrong}, get=lambda kind, name: wrong)
    monkeypatch.setattr(__main__, "load_plugins", lambda: loaded)
    assert __main__.main(["dummy-hello"]) == 1
    assert "expected a click.Command" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "variable"), [("--block-plugin", BLOCK_VARIABLE), ("--allow-plugin", ALLOW_VARIABLE)]
)
def test_plugin_options_extend_the_environment_variables(monkeypatch, command, option, variable):
    """Child processes of the command inherit them."""
    seen = []
    command(lambda: seen.append(os.environ[variable]))
    monkeypatch.setenv(variable, "first")
    assert __main__.main([option, "a", option, "b", "train"]) == 0
    assert seen == ["first,a,b"]
    assert os.environ[variable] == "first"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--trust-module", "a", "train"], "first,a"),
        (["train", "--trust-module", "a", "--trust-module", "b.c"], "first,a,b.c"),
    ],
)
def test_modules_are_trusted_for_one_command(monkeypatch, command, arguments, expected):
    """Every command takes the option, and so does ludus itself; worker processes inherit the variable."""
    seen = []
    command(lambda: seen.append(os.environ[MODULES_VARIABLE]))
    monkeypatch.setenv(MODULES_VARIABLE, "first")
    for _ in range(2):  # the option is added once
        assert __main__.main(arguments) == 0
    assert seen == [expected] * 2
    assert os.environ[MODULES_VARIABLE] == "first"


def test_only_modules_can_be_trusted(command, capsys):
    """A path with a colon names what is in a module."""
    command(lambda: None)
    assert __main__.main(["train", "--trust-module", "env:Env"]) == 2
    assert "'env:Env' is not a name" in capsys.readouterr().err


def test_help_lists_all_commands(capsys):
    """Built-in commands and those of plugins have separate sections."""
    assert __main__.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out and entry.summary in out for name, entry in BUILT_IN_COMMANDS.items())
    assert out.index("resume") < out.index("Commands of plugins") < out.index("Greets you by name.")


def test_version(capsys):
    """It is that of the core."""
    assert __main__.main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("name", BUILT_IN_COMMANDS)
def test_built_in_commands_exist(name, capsys):
    """Every factory of the table is a command with help."""
    assert __main__.main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: ludus {name}")


def run_help(descriptor, unbuffered):
    """Run ``python -m ludus --help`` with its output on this descriptor, and return the result."""
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
def test_closed_pipe_exits_with_141(unbuffered):
    """The output may fail early or at exit; there is no traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    done = run_help(writer, unbuffered)
    assert (done.stderr, done.returncode) == ("", 141)


@pytest.mark.parametrize(
    ("encoding", "character", "shown"),
    [("ascii", "→", rb"\u2192"), ("latin-1", "…", rb"\u2026"), ("utf-8", "\udcff", rb"\udcff")],
)
def test_unencodable_characters_are_escaped(command, monkeypatch, encoding, character, shown):
    """Names of files may contain them, on standard output and standard error."""
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


@pytest.mark.parametrize(("no_color", "observed"), [("", b"\x1b[32mok\x1b[0m\r\n"), ("1", b"ok\r\n")])
def test_no_color_disables_colours(command, monkeypatch, no_color, observed):
    """The test writes to a terminal; other outputs have no colours."""
    monkeypatch.setenv("NO_COLOR", no_color)
    command(lambda: click.echo(click.style("ok", fg="green")))
    master, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert __main__.main(["train"]) == 0
        assert os.read(master, 100) == observed
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
def test_lost_output_is_one_line(output, why, unbuffered):
    """There is no traceback, and the status is that of a closed pipe."""
    done = run_help(output(), unbuffered)
    assert done.returncode == 141
    assert done.stderr.startswith(f"error: standard output: {why}")
    assert len(done.stderr.splitlines()) == 1


def test_full_disk_of_another_file_is_raised(command):
    """Standard output can be written, so the error is that of the command."""

    def fail():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    command(fail)
    with pytest.raises(OSError, match="No space left"):
        __main__.main(["train"])


def test_status_is_kept_if_errors_cannot_be_printed(command, monkeypatch):
    """The status still reports the error."""

    def fail():
        raise ConfigError("wrong")

    command(fail)
    with os.fdopen(lost_terminal(), "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        assert __main__.main(["train"]) == 1
        with suppress(OSError):
            terminal.close()
