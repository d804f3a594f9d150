"""Wrappers around a game of another library, by import path and arguments."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from ludus.errors import ConfigError

from ludus_copies.imports import missing_modules


def wrap(env: Any, wrappers: Sequence[str | Mapping[str, Any]], *, id: str) -> Any:
    """Return an environment in its wrappers.

    Args:
        env: The environment.
        wrappers: Its wrappers, innermost first, as `ludus.option.import_paths` accepts them. Arrays among their options
            become tuples.
        id: Id of the environment, for error messages.

    Raises:
        ConfigError: A wrapper cannot be imported, or refuses the environment or its arguments.
    """
    for wrapper in wrappers:
        table: Mapping[str, Any] = {"path": wrapper} if isinstance(wrapper, str) else wrapper
        path, options = str(table["path"]), dict(table.get("options", {}))
        module, _, name = path.partition(":")
        try:
            env = getattr(importlib.import_module(module), name)(env, **_as_tuples(options))
        except (ImportError, AttributeError, TypeError, ValueError, AssertionError) as error:
            missing = ", ".join(missing_modules(error))
            reason = f"no module named {missing}; install it" if missing else str(error) or type(error).__name__
            arguments = f" with {options}" if options else ""
            raise ConfigError(f"wrappers: cannot wrap {id!r} in {path!r}{arguments}: {reason}") from error
    return env


def _as_tuples(value: Any) -> Any:
    """Return a value of TOML with tuples instead of lists, which shapes have to be."""
    if isinstance(value, Mapping):
        return {key: _as_tuples(item) for key, item in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value
