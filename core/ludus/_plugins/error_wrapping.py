"""What plugin code raises, told as one line that says whose mistake it is."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from ludus.environment import Environment
from ludus.errors import ContractError, LudusError, PluginError


@contextmanager
def wrap_errors(who: str) -> Iterator[None]:
    """Turn what plugin code raises into an error that names the component."""
    try:
        yield
    except ContractError as error:
        raise ContractError(f"{who}: {error}") from error
    except (LudusError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # exit is no end of a run that anybody has asked for, nor is a panic in Rust
        raise PluginError(f"{who} failed: {type(error).__name__}: {error} — LUDUS_DEBUG=1 shows where") from error


def close_environment(environment: Environment) -> None:
    """Close an environment.

    Raises:
        PluginError: It raised, or called exit.
    """
    with wrap_errors(f"environment {environment.spec.name!r}"):
        environment.close()


def format_error(error: BaseException, when: str = "") -> str:
    """Return an error as one line: ours say enough, those of plugins need the place in the code that they come from."""
    return (
        str(error) if isinstance(error, LudusError) else f"{describe_exception(error, when)} — LUDUS_DEBUG=1 shows how"
    )


def describe_exception(error: BaseException, when: str = "") -> str:
    """Return one line that says what was raised and where: at the innermost place outside of libraries of arrays."""
    frames = [(frame.f_globals.get("__name__", "?"), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    module, line = [place for place in frames if place[0].partition(".")[0] not in {"numpy", "torch"}][-1]
    what = f"{module}, line {line}, raised {type(error).__name__} {when}".rstrip()
    return " ".join(f"{what}: {error}".split())
