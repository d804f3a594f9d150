"""Wrap exceptions of plugin code in errors that name the component."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from ludus.environment import Environment
from ludus.errors import ContractError, LudusError, PluginError


@contextmanager
def wrap_errors(component: str) -> Iterator[None]:
    """Wrap exceptions of plugin code in a PluginError that names the component; contract errors get it as a prefix.

    Other errors of ludus, KeyboardInterrupt and GeneratorExit pass unchanged.
    """
    try:
        yield
    except ContractError as error:
        raise ContractError(f"{component}: {error}") from error
    except (LudusError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # SystemExit of a plugin, or a panic of Rust code, must not end the run silently
        raise PluginError(f"{component} failed: {type(error).__name__}: {error} — LUDUS_DEBUG=1 shows where") from error


def close_environment(environment: Environment) -> None:
    """Close an environment.

    Raises:
        PluginError: The environment raised an exception, or called exit.
    """
    with wrap_errors(f"environment {environment.spec.name!r}"):
        environment.close()


def format_error(error: BaseException, when: str = "") -> str:
    """Return an error as one line; for an error that is not one of ludus, with the location in the code."""
    if isinstance(error, LudusError):
        return str(error)
    return f"{describe_exception(error, when)} — LUDUS_DEBUG=1 shows how"


def describe_exception(error: BaseException, when: str = "") -> str:
    """Return an exception as one line with its innermost location outside of NumPy and torch."""
    frames = [(frame.f_globals.get("__name__", "?"), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    module, line = [frame for frame in frames if frame[0].partition(".")[0] not in {"numpy", "torch"}][-1]
    location = f"{module}, line {line}, raised {type(error).__name__} {when}".rstrip()
    return " ".join(f"{location}: {error}".split())
