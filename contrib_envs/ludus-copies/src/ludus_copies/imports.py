"""Imports of games, wrappers and functions by path: what a path names, and what is missing where an import fails."""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any, get_type_hints


def missing_modules(error: BaseException | None) -> list[str]:
    """Return the names of the modules that were not found, from an error and those that caused it, innermost first.

    Libraries report a missing dependency by an error of their own, which may name another package.
    """
    names: list[str] = []
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name:
            names.insert(0, error.name)
        error = error.__cause__ or error.__context__
    return list(dict.fromkeys(names))


def import_attribute(path: str) -> Any:
    """Return what a path ``"module:name"`` names.

    Raises:
        ImportError: The module cannot be imported.
        AttributeError: It has no such name.
    """
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def is_subclass(value: object, kinds: tuple[type, ...]) -> bool:
    """Return whether a value is a class derived from one of `kinds`."""
    return isinstance(value, type) and issubclass(value, kinds)


def is_own_function(value: object) -> bool:
    """Return whether a value is a function written in Python, outside of the standard library."""
    package = getattr(value, "__module__", "").partition(".")[0]
    return inspect.isfunction(value) and package not in sys.stdlib_module_names


def returns(value: object, kinds: tuple[type, ...]) -> bool:
    """Return whether the annotation of a function declares that it returns one of `kinds`."""
    try:
        annotation = get_type_hints(value).get("return")
    except Exception:  # noqa: BLE001 - evaluating annotations may raise anything
        return False
    return is_subclass(getattr(annotation, "__origin__", annotation), kinds)


def parameter_names(value: object) -> list[str]:
    """Return the names of the parameters of a callable; none if it is none, or has no signature."""
    try:
        return list(inspect.signature(value).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
