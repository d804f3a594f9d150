"""Errors of the testing kit: every broken contract becomes a `ContractError` that names the tested part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from ludus._plugins.error_wrapping import describe_exception
from ludus.environment import EnvironmentSpec
from ludus.errors import ContractError, LudusError


@contextmanager
def wrap_errors(subject: str) -> Iterator[None]:
    """Convert any exception of plugin code into a ContractError that starts with `subject`.

    Raises:
        ContractError: Any exception was raised.
    """
    try:
        yield
    except LudusError as error:
        raise ContractError(f"{subject}: {error}") from error
    except (Exception, SystemExit) as error:
        raise ContractError(f"{subject}: {describe_exception(error)}") from error


def require(condition: object, problem: str) -> None:
    """Check a condition.

    Raises:
        ContractError: The condition is false; `problem` is the message.
    """
    if not condition:
        raise ContractError(problem)


def require_array(subject: str, array: object, shape: tuple[int, ...], dtype: Any) -> None:
    """Check shape and dtype of an array.

    Raises:
        ContractError: It is no array, or has another shape or dtype; the message starts with `subject`.
    """
    got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
    expected = f"{np.dtype(dtype)} {shape}"
    require(got == expected, f"{subject} is {got}, expected {expected}")


def rejects(error: type[Exception], function: Callable[..., object], *args: Any, **options: Any) -> bool:
    """Return whether a call raises an error of the expected class."""
    try:
        function(*args, **options)
    except error:
        return True
    return False


def expect_type(kind: type[Any], value: object, source: str) -> Any:
    """Return a value after a check of its type.

    Args:
        kind: Expected type.
        value: Value to check.
        source: Function that returned the value, for the message.

    Raises:
        ContractError: The value has another type.
    """
    if not isinstance(value, kind):
        raise ContractError(f"{source} returned {value!r:.200}, expected a {kind.__module__}.{kind.__qualname__}")
    return value


def fail_environment(spec: EnvironmentSpec, problem: str, **location: object) -> NoReturn:
    """Raise a ContractError about an environment.

    Args:
        spec: Specification of the environment.
        problem: What is wrong, and what was expected.
        location: Role, seat, match and tick of the problem, where known.
    """
    place = describe_place(**location)
    raise ContractError(f"environment {spec.name!r}{', ' * bool(place)}{place}: {problem}")


def describe_place(**location: object) -> str:
    """Return role, seat, match and tick as text, where known."""
    return ", ".join(f"{name} {value!r}" for name, value in location.items() if value is not None)
