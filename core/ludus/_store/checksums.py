"""Checksums of the rows of a league database, written by the transactions that change the rows.

The table ``checksums`` has one row for each part of a table: the sum, modulo 2¹²⁸, of the hashes of the part's rows. A
part is a whole table, or the rows of `FIXTURES_PER_PART` fixtures in the tables that grow with the matches. A commit
adds the hashes of new rows and subtracts those of replaced rows, so that it costs only the rows that it changes.

Triggers compute the hashes. They belong to the writer's connection, not to the file: a row that another program
changes, or that is damaged, no longer agrees with its checksum.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

#: Fixtures of one part of the tables `PARTED`.
FIXTURES_PER_PART = 1024
#: The column with the id of the fixture, by table that has several parts.
PARTED: Mapping[str, str] = {"fixtures": "id", "matches": "fixture"}

#: (table, index of the part) → sum of the hashes of its rows.
Sums: TypeAlias = dict[tuple[str, int], int]


class _Connection(Protocol):
    def execute(self, sql: str, /) -> sqlite3.Cursor: ...


_BYTES = 16
_MODULUS = 1 << 8 * _BYTES
_TABLES = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name != 'checksums' ORDER BY name"


def hash_row(row: Sequence[Any]) -> int:
    """Return the hash of a row, a tuple of SQLite's values."""
    # `ascii` differs for all values and types of SQLite, and does not depend on the version of Python.
    return int.from_bytes(hashlib.blake2b(ascii(row).encode(), digest_size=_BYTES).digest(), "big")


def sum_rows(rows: Iterable[Sequence[Any]]) -> int:
    """Return the sum of the hashes of rows."""
    return sum(map(hash_row, rows)) % _MODULUS


def stored_sums(connection: _Connection) -> Sums:
    """Return the checksums in a database; a part without rows may be missing."""
    rows = connection.execute("SELECT name, part, sum FROM checksums")
    return {(name, part): int.from_bytes(data, "big") for name, part, data in rows}


def tables(connection: _Connection) -> list[str]:
    """Return the names of the tables that have checksums."""
    return [name for (name,) in connection.execute(_TABLES)]


class ChecksumWriter:
    """Updates the checksums of the rows that one connection changes.

    Args:
        connection: The connection of the writer; its tables exist.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._changes: defaultdict[tuple[str, int], int] = defaultdict(int)
        connection.execute("PRAGMA recursive_triggers = ON")  # REPLACE then runs the triggers of the deleted row
        connection.create_function("ludus_add_row", -1, self._add, deterministic=False)
        connection.create_function("ludus_remove_row", -1, self._remove, deterministic=False)
        for table in tables(connection):
            columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
            added, removed = (_call(table, columns, row) for row in ("NEW", "OLD"))
            for event, calls in (("INSERT", added), ("DELETE", removed), ("UPDATE", f"{removed}; {added}")):
                connection.execute(
                    f"CREATE TEMP TRIGGER {table}_{event.lower()} AFTER {event} ON main.{table} BEGIN {calls}; END"
                )

    def save(self) -> None:
        """Write the checksums of all rows that the open transaction has changed."""
        changes = [(name, part, change) for (name, part), change in self._changes.items() if change % _MODULUS]
        self._changes.clear()
        for name, part, change in changes:
            key = (name, part)
            row = self._connection.execute("SELECT sum FROM checksums WHERE name = ? AND part = ?", key).fetchone()
            self._put(key, (int.from_bytes(row[0], "big") if row else 0) + change)

    def reset(self, table: str) -> None:
        """Write the checksum of the present rows of a table that has one part."""
        self._changes.pop((table, 0), None)
        rows = self._connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - a name of the schema
        self._put((table, 0), sum_rows(rows))

    def _put(self, key: tuple[str, int], total: int) -> None:
        data = (total % _MODULUS).to_bytes(_BYTES, "big")
        self._connection.execute("INSERT OR REPLACE INTO checksums VALUES (?, ?, ?)", (*key, data))

    def forget(self) -> None:
        """Drop the changes of a transaction that was rolled back."""
        self._changes.clear()

    def _add(self, table: str, part: int, *row: Any) -> None:
        self._changes[table, part] += hash_row(row)

    def _remove(self, table: str, part: int, *row: Any) -> None:
        self._changes[table, part] -= hash_row(row)


def _call(table: str, columns: Sequence[str], row: str) -> str:
    """Return the statement that adds the row NEW to the checksum of its part, or removes the row OLD."""
    function = "ludus_add_row" if row == "NEW" else "ludus_remove_row"
    part = f"{row}.{PARTED[table]} / {FIXTURES_PER_PART}" if table in PARTED else "0"
    values = ", ".join(f"{row}.{column}" for column in columns)
    return f"SELECT {function}('{table}', {part}, {values})"
