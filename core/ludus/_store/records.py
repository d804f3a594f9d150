"""Conversion between records and rows of the store's tables, in which mappings are JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs
from attrs import frozen

from ludus.environment import Scenario
from ludus.matchmaker import PoolChange
from ludus.records import Fixture

#: Columns of the table of fixtures that make a `Fixture`; `seats` holds its participants.
FIXTURE_COLUMNS = ("id", "kind", "player", "seats", "seed", "matches", "scenario", "reason", "paired")
_JSON = {"manifest", "scenario", "seats"}

R = TypeVar("R", bound=attrs.AttrsInstance)


@frozen(kw_only=True)
class PoolRecord:
    """A change of a pool, and its time (Unix time)."""

    change: PoolChange
    created_s: float


def row_of(record: attrs.AttrsInstance) -> list[Any]:
    """Return the row of a record: one column per field, in their order."""
    values = attrs.asdict(record, recurse=False)
    return [json.dumps(dict(value)) if name in _JSON else value for name, value in values.items()]


def record_of(cls: type[R], row: Sequence[Any], *, table: str) -> R:
    """Return the record of a row with one column per field, in their order.

    Args:
        cls: The class of the record.
        row: The row; its first value identifies it in messages.
        table: The row's table, for messages.

    Raises:
        sqlite3.DatabaseError: The row is malformed.
    """
    names = [attribute.name for attribute in attrs.fields(cls)]
    with reading(f"row {row[0]} of table {table}"):
        return cls(**_parsed(names, row))


def fixture_of(row: Sequence[Any]) -> Fixture:
    """Return the fixture of a row of `FIXTURE_COLUMNS`, without the hashes of its models.

    Raises:
        sqlite3.DatabaseError: The row is malformed.
    """
    with reading(f"row {row[0]} of table fixtures"):
        values = _parsed(FIXTURE_COLUMNS, row)
        name, parameters = values["scenario"]
        values["scenario"] = Scenario(name=name, parameters=parameters)
        return Fixture(participants=tuple(values.pop("seats")), **values)


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raise the error of a damaged database for values that this version of ludus did not write.

    Args:
        what: The value that is read, for the message: ``"row 12 of table matches"``.

    Raises:
        sqlite3.DatabaseError: The value is not JSON, or of an unexpected type, shape or range.
    """
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise sqlite3.DatabaseError(f"{what} is malformed: {error}") from error


def _parsed(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    return {name: json.loads(value) if name in _JSON else value for name, value in zip(names, row, strict=True)}
