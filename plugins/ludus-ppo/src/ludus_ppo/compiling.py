"""A function compiled by torch, for as long as that works."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar, cast

import torch

__all__ = ["Compilable"]

_Function = TypeVar("_Function", bound=Callable[..., object])
_Result = TypeVar("_Result")
_log = logging.getLogger("ludus.ppo")


class Compilable(Generic[_Function]):
    """A function, compiled if wanted; the first failure of the compiled one is the last.

    Args:
        plain: The function.
        compiled: Whether it is to be compiled, when it is used first and for new shapes and types of its arguments.
    """

    def __init__(self, plain: _Function, *, compiled: bool) -> None:
        self._plain = plain
        self._compiled = cast(_Function, torch.compile(plain)) if compiled else None

    def used_by(self, work: Callable[[_Function], _Result]) -> _Result:
        """Return what `work` makes of the function, gradients included: they are compiled when they are asked for.

        Args:
            work: Calls the function it gets; called again after a failure.

        Raises:
            Exception: The plain function raised it.
        """
        if self._compiled is None:
            return work(self._plain)
        try:
            return work(self._compiled)
        except Exception as error:  # noqa: BLE001 - a compiler may fail in any way
            result = work(self._plain)  # what fails here too is no fault of the compiler
            self._compiled = None
            reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            _log.warning("the losses cannot be compiled (%s); torch computes them as they are", reason)
            return result
