"""The command ``ludus``: finds the subcommand asked for, runs it, and turns errors into lines."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from ludus._plugins.commands import BUILT_IN_COMMANDS
from ludus._plugins.manager import ALLOW_VARIABLE, BLOCK_VARIABLE, load_plugins
from ludus._version import __version__
from ludus.errors import LudusError, PluginError
from ludus.printing import printable

_ORIGIN = "Commands come with plugins (pip install ludus-…); `ludus --help` lists those that are installed."
_UNREAD = 141  # as a shell says it of a program that a closed pipe has ended


class _LazyGroup(click.Group):
    """A group that imports a command when it is used, and plugins when a name is not built in or for help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [
            *BUILT_IN_COMMANDS,
            *(name for name in load_plugins().components("command") if name not in BUILT_IN_COMMANDS),
        ]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        component = BUILT_IN_COMMANDS.get(cmd_name)
        if component is None:
            if cmd_name.startswith("-"):
                return None
            plugins = load_plugins()
            if cmd_name not in plugins.components("command"):
                close = get_close_matches(cmd_name, self.list_commands(ctx), n=1)
                hint = f" Did you mean {close[0]!r}?" if close else f" {_ORIGIN}"
                why = [*plugins.problems(broken=True), *filter(None, [plugins.withheld()])]
                ctx.fail("\n".join([f"No such command {cmd_name!r}.{hint}", *why]))
            component = plugins.get("command", cmd_name)
        command = component.load_factory()
        if not isinstance(command, click.Command):
            raise PluginError(f"command {cmd_name!r} is a {type(command).__name__}, expected a click.Command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        others = [part for name, part in load_plugins().components("command").items() if name not in BUILT_IN_COMMANDS]
        for title, parts in (("Commands", BUILT_IN_COMMANDS.values()), ("Commands of plugins", others)):
            if parts:
                with formatter.section(title):
                    formatter.write_dl([(part.name, part.summary) for part in parts])


def _choice(flag: str, variable: str, *, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return an option that adds plugins to an environment variable, so that workers inherit them."""

    def extend(_context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> None:
        if names:
            before = os.environ.get(variable, "")
            os.environ[variable] = ",".join([*filter(None, [before]), *names])

    options: dict[str, Any] = {"multiple": True, "is_eager": True, "expose_value": False}
    return click.option(flag, metavar="NAME", callback=extend, help=f"{help}; may be repeated.", **options)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="LUDUS_DEBUG=1 shows tracebacks of errors, NO_COLOR=1 no colours.",
)
@_choice("--allow-plugin", ALLOW_VARIABLE, help="Load only this plugin (entry point or distribution)")
@_choice("--block-plugin", BLOCK_VARIABLE, help="Do not load this plugin")
@click.version_option(__version__, prog_name="ludus")
def cli() -> None:
    """Train game AI by competitive self-play."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Args:
        arguments: Without the program's name; None takes those of the process.

    Returns:
        0 for success, 1 for a `LudusError`, a file that cannot be used or a lack of memory, 2 for wrong usage, 130
        after Ctrl-C, 141 when the output reaches nobody: a closed pipe, a terminal that is gone, a full disk.
    """
    if sys.stdout is None:  # closed by the caller
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a character that its encoding lacks must not end a run
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except SystemExit as exit_:  # what rich makes of a closed pipe
        if isinstance(exit_.__context__, BrokenPipeError):
            return _UNREAD
        raise
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            if not _is_lost(error):
                raise
            _complain(f"standard output: {error.strerror}")
        # The interpreter flushes once more when it exits; there must be somewhere to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _UNREAD
    return status


def _is_lost(error: OSError) -> bool:
    """Return whether an error of some file is that of the standard output: no terminal, or no room, any more."""
    if error.errno not in {errno.EIO, errno.ENOSPC}:
        return False
    try:
        sys.stdout.flush()  # what could not be written still waits there, unless nothing ever does
        os.write(sys.stdout.fileno(), b"")
    except OSError as again:
        return again.errno == error.errno
    return False


def _complain(line: str) -> None:
    """Print an error, where that is possible: the status tells it, too.

    Names in it may be those of somebody else's league: their control characters would be orders to the terminal.
    """
    with suppress(OSError):
        click.echo(f"error: {printable(line)}", err=True)


def _lines(error: LudusError | MemoryError) -> list[str]:
    text = str(error) or type(error).__name__
    if isinstance(error, MemoryError):
        return [f"out of memory: {text} — lower what is large, such as sampling.matches; LUDUS_DEBUG=1 shows where"]
    return text.splitlines()


def _run(arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    color = False if os.environ.get("NO_COLOR") else None  # None: at a terminal
    try:
        # Not click's own error handling: it would call a broken pipe an error and Ctrl-C a failure.
        with cli.make_context("ludus", given, color=color) as context:
            result = cli.invoke(context)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except (LudusError, MemoryError) as error:
        if os.environ.get("LUDUS_DEBUG"):
            raise
        for line in _lines(error):
            _complain(line)
        return 1
    except OSError as error:  # a bug names no file
        if os.environ.get("LUDUS_DEBUG") or error.filename is None:
            raise
        _complain(f"{error.filename}: {error.strerror} — choose another path, or change its rights")
        return 1
    except (KeyboardInterrupt, click.Abort):
        with suppress(OSError):
            click.echo("interrupted", err=True)
        return 130
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(main())
