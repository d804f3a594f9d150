"""Read TOML files with errors that name file and line, and override single values."""

from __future__ import annotations

import copy
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ludus.errors import ConfigError

#: A table as `tomllib` returns it: str, int, float, bool, lists and tables of those.
Table: TypeAlias = "dict[str, Any]"

_MAX_DEPTH = 32
_MAX_BYTES = 1_000_000  # tomllib reads a few MB/s
_MAX_ITEMS = 10_000
_LINE = re.compile(r"(.*) \(at line (\d+), column \d+\)\Z", re.DOTALL)


def read_toml(path: str | Path) -> Table:
    """Read a TOML file.

    Raises:
        ConfigError: The file is missing, cannot be read, or is not valid TOML.
    """
    try:
        file = Path(os.path.realpath(path))  # resolves /dev/stdin, which a shell may pipe into
        if file.is_fifo() or file.is_char_device():
            raise ConfigError(f"{path}: is not a regular file; expected a TOML file")
        with Path(path).open(encoding="utf-8-sig") as stream:  # skips a byte-order mark
            text = stream.read(_MAX_BYTES + 1)
        if len(text) > _MAX_BYTES:
            raise ConfigError(f"{path}: expected a file of at most {_MAX_BYTES:,} characters")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file in UTF-8") from None
    try:
        return _loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _LINE.match(str(error))
        reason, line = found.groups() if found else (str(error), str(1 + text.count("\n")))
        raise ConfigError(f"{path}:{line}: not valid TOML: {reason}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def _loads(text: str) -> Table:
    """Parse TOML text.

    Raises:
        tomllib.TOMLDecodeError: The text is not valid TOML.
        ValueError: It is nested too deeply, or holds a number of too many digits.
    """
    try:
        table = tomllib.loads(text)
        repr(table)  # raises for an integer of thousands of digits
        deep = _depth(table) > _MAX_DEPTH
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        deep = True
    except ValueError:
        raise ValueError("a number has too many digits") from None
    if deep:
        raise ValueError(f"tables and lists are nested more than {_MAX_DEPTH} levels deep")
    return table


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def find_large(value: Any, path: str = "") -> Iterator[str]:
    """Yield one line for every table and list of too many items within plain values, by its path."""
    if not isinstance(value, Mapping | list | tuple):
        return
    if len(value) > _MAX_ITEMS:
        noun = "keys in a table" if isinstance(value, Mapping) else "items in a list"
        yield f"{path or 'top level'}: expected at most {_MAX_ITEMS:,} {noun}, got {len(value):,}"
        return
    for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from find_large(inner, f"{path}.{key}" if path else str(key))


def apply_overrides(data: Mapping[str, Any], overrides: Sequence[str]) -> Table:
    """Return a copy of `data` with ``key.path=value`` texts applied in order.

    The right side is parsed as a TOML value. Text that is not valid TOML is taken as a string, so words need no quotes.

    Raises:
        ConfigError: With one line for every override that is malformed or whose path leads through a value.
    """
    merged: Table = copy.deepcopy(dict(data))
    problems = []
    for override in overrides:
        try:
            _apply(merged, override)
        except ValueError as error:  # go on, to report the problems of every override
            problems.append(f"--set {override}: {error}")
    if problems:
        raise ConfigError(*problems)
    return merged


def _apply(merged: Table, override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals:
        raise ValueError("expected key.path=value")
    *parents, last = key_path(key)
    table = merged
    for depth, parent in enumerate(parents, start=1):
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise ValueError(f"{'.'.join(parents[:depth])} is a value, not a table")  # noqa: TRY004 - a wrong value, not a wrong type
    table[last] = _value(text.strip())


def key_path(key: str) -> list[str]:
    """Return the parts of a dotted key.

    Raises:
        ValueError: The text is not a dotted key.
    """
    path: list[str] = []
    try:
        table: Any = _loads(f"{key} = 0")
        while isinstance(table, dict):
            [(part, table)] = table.items()
            path.append(part)
    except ValueError:
        raise ValueError(f"{key.strip()!r} is not a dotted key such as run.seed") from None
    return path


def _value(text: str) -> Any:
    try:
        table = _loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return table["value"] if len(table) == 1 else text
