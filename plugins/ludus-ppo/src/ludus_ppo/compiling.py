"""Compile a function with torch, and fall back to the plain function if that fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar, cast

import torch

_Function = TypeVar("_Function", bound=Callable[..., object])
_Result = TypeVar("_Result")
_log = logging.getLogger("ludus.ppo")


class Compilable(Generic[_Function]):
    """A function that is compiled on request; after the first failure the plain function is used.

    Args:
        plain: The function.
        compiled: Whether to compile it. torch does so on the first call and for new shapes and types of its arguments.
    """

    def __init__(self, plain: _Function, *, compiled: bool) -> None:
        self._plain = plain
        self._compiled = cast(_Function, torch.compile(plain)) if compiled else None

    def run(self, work: Callable[[_Function], _Result]) -> _Result:
        """Return the result of `work`, which includes the backward pass: torch compiles it when it is first run.

        Args:
            work: Calls the function that it receives. Called again after a failure.

        Raises:
            Exception: The plain function raised it.
        """
        if self._compiled is None:
            return work(self._plain)
        try:
            return work(self._compiled)
        except Exception as error:  # noqa: BLE001 - a compiler may fail in any way
            result = work(self._plain)  # raises if the failure is not the compiler's
            self._compiled = None
            reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            _log.warning("the losses cannot be compiled (%s); they are computed without compilation", reason)
            return result
