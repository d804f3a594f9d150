"""The command ``ludus``: find a subcommand, run it, and print errors as single lines."""

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

from ludus._plugins.loading import ALLOW_VARIABLE, BLOCK_VARIABLE
from ludus._plugins.manager import BUILT_IN_COMMANDS, load_plugins
from ludus._version import __version__
from ludus.errors import LudusError, PluginError
from ludus.printing import printable
from ludus.signals import interrupt_on_termination, terminate_children
from ludus.trust import MODULES_VARIABLE, is_module_name

_INSTALL_HINT = "Commands come with plugins (pip install ludus-…); `ludus --help` lists those that are installed."
_CLOSED_PIPE = 141  # exit status that shells use for SIGPIPE


class _LazyGroup(click.Group):
    """A group that imports a command on first use, and loads plugins only for their commands and for help."""

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
                hint = f" Did you mean {close[0]!r}?" if close else f" {_INSTALL_HINT}"
                missing = [*plugins.load_failures(), *filter(None, [plugins.describe_blocked()])]
                ctx.fail("\n".join([f"No such command {cmd_name!r}.{hint}", *missing]))
            component = plugins.get("command", cmd_name)
        command = component.load_factory()
        if not isinstance(command, click.Command):
            raise PluginError(f"command {cmd_name!r} is a {type(command).__name__}, expected a click.Command")
        _accept_trust(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        commands = load_plugins().components("command").items()
        of_plugins = [component for name, component in commands if name not in BUILT_IN_COMMANDS]
        for title, components in (("Commands", BUILT_IN_COMMANDS.values()), ("Commands of plugins", of_plugins)):
            if components:
                with formatter.section(title):
                    formatter.write_dl([(component.name, component.summary) for component in components])


def _names_option(
    flag: str, variable: str, *, help: str, is_valid: Callable[[str], bool] = bool
) -> Callable[[Any], Any]:
    """Return an option that adds names to an environment variable, which worker processes inherit."""

    def extend(context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> None:
        for name in names:
            if not is_valid(name):
                raise click.BadParameter(f"{name!r} is not a name.")
        if names:
            before = os.environ.get(variable, "")
            os.environ[variable] = ",".join([*filter(None, [before]), *names])
            context.call_on_close(lambda: os.environ.update({variable: before}))

    options: dict[str, Any] = {"multiple": True, "is_eager": True, "expose_value": False}
    return click.option(flag, metavar="NAME", callback=extend, help=f"{help}; may be repeated.", **options)


_trust_option = _names_option(
    "--trust-module",
    MODULES_VARIABLE,
    help="Let a run file name this Python module, with its submodules",
    is_valid=is_module_name,
)


def _accept_trust(command: click.Command) -> None:
    """Add the option ``--trust-module`` to a command and its subcommands, unless they have it."""
    if not any(parameter.name == "trust_module" for parameter in command.params):
        _trust_option(command)
    for subcommand in getattr(command, "commands", {}).values():
        _accept_trust(subcommand)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="LUDUS_DEBUG=1 shows tracebacks of errors, NO_COLOR=1 no colours.",
)
@_names_option("--allow-plugin", ALLOW_VARIABLE, help="Load only this plugin (entry point or distribution)")
@_names_option("--block-plugin", BLOCK_VARIABLE, help="Do not load this plugin")
@_trust_option
@click.version_option(__version__, prog_name="ludus")
def cli() -> None:
    """Train game AI by competitive self-play."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Args:
        arguments: Arguments without the program's name; None for those of the process.

    Returns:
        0 for success; 1 for a `LudusError`, an unusable file or a lack of memory; 2 for wrong usage; 130 after SIGINT,
        SIGTERM or SIGHUP; 141 if the output cannot be written: a closed pipe, a closed terminal or a full disk.
    """
    if sys.stdout is None:  # closed by the caller
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a character that the encoding lacks must not raise
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run_command(arguments)
        sys.stdout.flush()
    except SystemExit as exit_:  # rich exits if a pipe is closed
        if isinstance(exit_.__context__, BrokenPipeError):
            return _CLOSED_PIPE
        raise
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            if not _is_lost_output(error):
                raise
            _print_error(f"standard output: {error.strerror}")
        # The interpreter flushes again at exit, which must not raise.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE
    finally:
        terminate_children()
    return status


def _is_lost_output(error: OSError) -> bool:
    """Return whether an error is that of standard output: a closed terminal or a full disk."""
    if error.errno not in {errno.EIO, errno.ENOSPC}:
        return False
    try:
        sys.stdout.flush()  # text that could not be written is still buffered
        os.write(sys.stdout.fileno(), b"")
    except OSError as again:
        return again.errno == error.errno
    return False


def _print_error(line: str) -> None:
    """Print an error line with control characters escaped; names in it may come from a foreign run folder."""
    with suppress(OSError):  # the exit status reports the error too
        click.echo(f"error: {printable(line)}", err=True)


def _run_command(arguments: Sequence[str] | None) -> int:
    """Run a command; errors become lines and an exit status.

    Raises:
        LudusError: If LUDUS_DEBUG is set, as all errors below.
        OSError: The error names no file, which is a bug or the loss of standard output.
    """
    try:
        return _invoke(list(sys.argv[1:] if arguments is None else arguments))
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        with suppress(OSError):
            click.echo("interrupted", err=True)
        return 130
    except (LudusError, MemoryError, OSError) as error:
        lines = _error_lines(error)
        if os.environ.get("LUDUS_DEBUG") or not lines:
            raise
        for line in lines:
            _print_error(line)
        return 1


def _invoke(arguments: list[str]) -> int:
    color = False if os.environ.get("NO_COLOR") else None  # None: if the output is a terminal
    # Not click's standalone mode, which reports a closed pipe as an error and Ctrl-C as a failure.
    # Signals interrupt commands like Ctrl-C, so that they close their games, and the processes of these end.
    with interrupt_on_termination(), cli.make_context("ludus", arguments, color=color) as context:
        result = cli.invoke(context)
    return result if isinstance(result, int) else 0


def _error_lines(error: LudusError | MemoryError | OSError) -> list[str]:
    """Return the lines to print for an error; none for an OSError without a file."""
    if isinstance(error, LudusError):
        return (str(error) or type(error).__name__).splitlines()
    if isinstance(error, MemoryError):
        text = str(error) or type(error).__name__
        return [f"out of memory: {text} — lower what is large, such as sampling.matches; LUDUS_DEBUG=1 shows where"]
    if error.filename is None:
        return []
    return [f"{error.filename}: {error.strerror} — choose another path, or change its rights"]


if __name__ == "__main__":
    sys.exit(main())
