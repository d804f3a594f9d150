"""An open league database whose changes accumulate until a commit."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ludus._store.database import suggested_fix
from ludus._store.records import reading
from ludus.environment import Seat
from ludus.errors import StoreError


class Database:
    """Reads a league database, and writes to it in one transaction that lasts until `commit` or `rollback`.

    Args:
        run_dir: The run folder, for messages.
        connection: The open database.
        writable: Whether this process is the writer.
    """

    def __init__(self, run_dir: Path, connection: sqlite3.Connection, *, writable: bool) -> None:
        self.run_dir = run_dir
        self.writable = writable
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> sqlite3.Cursor:
        """Run a statement that reads."""
        return self._connection.execute(sql, parameters)

    def write(self, sql: str, *values: Any) -> int:
        """Run a statement that writes, and return the id of the row that it inserted last.

        Raises:
            StoreError: The disk failed; everything since the last commit is dropped.
        """
        with self._writing():
            return self._connection.execute(sql, values).lastrowid or 0

    def write_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement that writes once per row.

        Raises:
            StoreError: The disk failed; everything since the last commit is dropped.
        """
        with self._writing():
            self._connection.executemany(sql, rows)

    def commit(self) -> None:
        """Make everything since the last commit durable, all of it or nothing.

        Raises:
            StoreError: The disk failed; everything since the last commit is dropped.
        """
        with self._writing():
            self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Drop everything since the last commit."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Drop everything since the last commit and close the database."""
        self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if not self.writable:
            raise StoreError(f"{self.run_dir}: opened for reading only")
        try:
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN IMMEDIATE")
            yield
        except sqlite3.OperationalError as error:
            self.rollback()
            raise StoreError(
                f"{self.run_dir}: the league could not be written: {error}; nothing that was committed is lost — "
                f"{suggested_fix(error, self.run_dir)}"
            ) from error


def read_meta(database: Database, key: str, default: Any = None) -> Any:
    """Return the JSON value of `key` in the table of metadata, or `default`.

    Raises:
        sqlite3.DatabaseError: The value is not JSON, or of another type than `default`.
    """
    row = database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    with reading(f"meta value {key!r}"):
        value = default if row is None else json.loads(row[0])
        if default is not None and type(value) is not type(default):
            raise TypeError(f"expected a {type(default).__name__}, got a {type(value).__name__}")
    return value


def read_seats(database: Database) -> tuple[Seat, ...]:
    """Return the seats of a match, in the environment's order."""
    with reading("meta value 'seats'"):
        return tuple(Seat(role, int(index), int(team)) for role, index, team in read_meta(database, "seats", []))


def add_to_counter(database: Database, name: str, value: float) -> None:
    """Add to a counter that starts at 0."""
    sql = "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value"
    database.write(sql, name, value)
