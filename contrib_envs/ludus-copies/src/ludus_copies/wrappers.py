"""Wrappers around a game of another library, by import path and arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ludus.errors import ConfigError
from ludus.trust import describe_refusal

from ludus_copies.imports import import_attribute, is_subclass, missing_modules, parameter_names

#: Parameters by which wrappers take the file or folder that they write, such as ``video_folder`` and ``save_dir``.
_PLACE = re.compile(r"(.*_)?(file|filename|folder|dir|directory|path)")


def wrap(env: Any, wrappers: Sequence[str | Mapping[str, Any]], *, id: str, kinds: tuple[type, ...]) -> Any:
    """Return an environment in its wrappers.

    Args:
        env: The environment.
        wrappers: Its wrappers, innermost first, as `ludus.option.import_paths` accepts them. Arrays among their options
            become tuples.
        id: Id of the environment, for error messages.
        kinds: Base classes of environments, which wrappers have too.

    Raises:
        ConfigError: A wrapper cannot be imported, is something else or writes files, or it refuses the environment or
            its arguments.
    """
    for wrapper in wrappers:
        path = _path(wrapper)
        options = {} if isinstance(wrapper, str) else dict(wrapper.get("options", {}))
        try:
            make = import_attribute(path)
            _check_kind(make, path, kinds)
            env = make(env, **_as_tuples(options))
        except (ImportError, AttributeError, TypeError, ValueError, AssertionError) as error:
            missing = ", ".join(missing_modules(error))
            reason = f"no module named {missing}; install it" if missing else str(error) or type(error).__name__
            arguments = f" with {options}" if options else ""
            raise ConfigError(f"wrappers: cannot wrap {id!r} in {path!r}{arguments}: {reason}") from error
        if not isinstance(env, kinds):
            raise ConfigError(f"wrappers: expected {path!r} to return an environment, got {type(env).__name__}")
    return env


def _path(wrapper: str | Mapping[str, Any]) -> str:
    return wrapper if isinstance(wrapper, str) else str(wrapper["path"])


def _check_kind(make: object, path: str, kinds: tuple[type, ...]) -> None:
    """Check that a path names a wrapper, before it is called.

    Raises:
        ConfigError: It names something else, or a wrapper that writes files.
    """
    if not is_subclass(make, kinds) and (
        isinstance(make, type) or parameter_names(make)[:1] not in (["env"], ["environment"])
    ):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ConfigError(
            f"wrappers: {path!r} is no wrapper; expected a class derived from {names}, or a function whose first "
            "parameter is called env"
        )
    module = path.partition(":")[0]
    places = [name for name in parameter_names(make) if _PLACE.fullmatch(name)]
    if places and describe_refusal(module):  # a library, whose modules any run file may name
        raise ConfigError(
            f"wrappers: {path!r} writes files to the place in {places[0]!r}, but a run writes in its own folder only; "
            f"remove it, or trust it with files of yours by --trust-module {module.partition('.')[0]}"
        )


def _as_tuples(value: Any) -> Any:
    """Return a value of TOML with tuples instead of lists, which shapes have to be."""
    if isinstance(value, Mapping):
        return {key: _as_tuples(item) for key, item in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value
