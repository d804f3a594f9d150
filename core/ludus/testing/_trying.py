"""Plugin code that is tried out: whatever goes wrong becomes one error that says what it was tried on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ludus._plugins.error_wrapping import describe_exception
from ludus.errors import ContractError, LudusError


@contextmanager
def trying(what: str) -> Iterator[None]:
    """Say what is tried in whatever goes wrong, mistakes that Python itself finds included.

    Raises:
        ContractError: Anything was raised.
    """
    try:
        yield
    except LudusError as error:
        raise ContractError(f"{what}: {error}") from error
    except (Exception, SystemExit) as error:
        raise ContractError(f"{what}: {describe_exception(error)}") from error


def expect(kind: type[Any], answer: Any, asked: str) -> Any:
    """Return an answer of that kind.

    Raises:
        ContractError: It is something else; `asked` is named.
    """
    if not isinstance(answer, kind):
        raise ContractError(f"{asked} returned {answer!r:.200}, expected a {kind.__module__}.{kind.__qualname__}")
    return answer
