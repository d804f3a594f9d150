"""The league's database file: schema, transactions, opening for one writer or many readers, and the run lock.

A reader sees a snapshot: all that it reads is from one commit, also while a run writes.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shlex
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ludus._store.checksums import ChecksumWriter
from ludus._store.definitions import SCHEMA, expected_definitions, read_definitions
from ludus._store.durable import moved_folder_error
from ludus._store.foreign_files import check_entries
from ludus.environment import Seat
from ludus.errors import RunError, StoreError

DATABASE = "league.sqlite"
SCHEMA_VERSION = 6
_JOURNAL_BYTES = 16 * 1024**2  # the write-ahead log shrinks to this once a long reader has closed
_BUSY_S = 10.0  # timeout while another process holds the file, such as a reader that checkpoints

_CHECK_S = 5.0  # for the check of the structure at a start; about 8 GB if the file is in memory

_CLEAR = "DELETE FROM meta; DELETE FROM players; DELETE FROM counters; DELETE FROM fixtures; DELETE FROM checksums;"
_USED = "SELECT 1 FROM matches UNION ALL SELECT 1 FROM models UNION ALL SELECT 1 FROM checkpoints LIMIT 1"


class RunInUse(RunError):  # noqa: N818 - reads better in `except` than with a suffix
    """Another process writes the run."""


class RunLock:
    """The exclusive lock of a run folder's writer, from construction to `release`; the system releases it at exit.

    Raises:
        RunInUse: Another process holds it.
    """

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / "lock"
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._handle, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(self._handle)
            raise RunInUse(
                f"{run_dir} is in use by pid {holder}; stop that run first, or choose another folder"
            ) from None
        _held.add(self._handle)
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def check(self) -> None:
        """Check that the folder was not moved: open files move with it, but new files are created at the old path.

        Raises:
            RunError: The folder or its lock file was moved or removed.
        """
        with suppress(FileNotFoundError, NotADirectoryError):
            if os.path.samestat(os.fstat(self._handle), self._path.stat()):
                return
        raise moved_folder_error(self._path.parent)

    def release(self) -> None:
        """Release the lock; releasing twice is harmless."""
        if self._handle >= 0:
            _held.discard(self._handle)
            os.close(self._handle)
            self._handle = -1


_held: set[int] = set()  # file descriptors of the locks that this process holds


def _forget_locks() -> None:
    """Close the locks in a forked child: a child of a game that survives the run must not keep them."""
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_forget_locks)


def connect_writer(run_dir: Path, *, create: bool) -> sqlite3.Connection:
    """Open the database for the one writer, in autocommit mode, with every commit on disk before it returns.

    A new database is returned inside its first transaction, so that it exists with its first values or not at all.

    Raises:
        RunError: `create` and there is one already that is not `is_unused`, or not `create` and there is none.
        StoreError: It is damaged or of a newer schema.
    """
    path = run_dir / DATABASE if create else _existing(run_dir)
    again = create and is_unused(run_dir)
    with wrap_database_errors(path):
        _check_length(path)
        connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_S)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")
        if again:
            connection.executescript("BEGIN; " + _CLEAR)
        elif create:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                connection.close()
                raise RunError(f"{run_dir} already holds a league; resume it, or choose another folder")
            schema = SCHEMA.read_text(encoding="utf-8")
            connection.executescript(f"BEGIN; {schema} PRAGMA user_version = {SCHEMA_VERSION};")
        else:
            _quick_check(connection)
        return _checked(connection, path)


def _quick_check(connection: sqlite3.Connection) -> None:
    """Check the structure of a database for at most `_CHECK_S`; damage beyond is found when it is read.

    Raises:
        sqlite3.DatabaseError: The database is damaged.
    """
    end = time.monotonic() + _CHECK_S
    connection.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return
    finally:
        connection.set_progress_handler(None, 0)
    if found != "ok":
        found = " ".join(found.split()).removeprefix("*** in database main *** ")
        raise sqlite3.DatabaseError(f"damaged pages: {found}")


def is_unused(run_dir: Path) -> bool:
    """Return whether a folder holds a league without a match, model or checkpoint, as a failed start leaves it."""
    if next(run_dir.rglob("*.safetensors"), None) is not None:
        return False
    try:
        with closing(connect_reader(run_dir)) as connection:
            return connection.execute(_USED).fetchone() is None
    except RunError:  # no league, or an unreadable one
        return False


def connect_reader(run_dir: Path) -> sqlite3.Connection:
    """Open a read-only snapshot of the database; works while a run writes it, and on read-only media.

    Raises:
        RunError: There is no database, or it is a link that leads out of the folder.
        StoreError: The database is damaged or has another schema.
    """
    path = _existing(run_dir)
    # Without a -wal file and the permission to create one, only mode immutable works; then there is no writer either.
    mode = "mode=ro" if os.access(run_dir, os.W_OK) or path.with_name(f"{DATABASE}-wal").exists() else "immutable=1"
    uri = f"file:{quote(os.fsencode(path.resolve()))}?{mode}"
    check_entries(run_dir, sorted(run_dir.glob(f"{DATABASE}*")))
    with wrap_database_errors(path):
        _check_length(path)
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_S)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN")
        return _checked(connection, path)


def _existing(run_dir: Path) -> Path:
    path = run_dir / DATABASE
    if not path.is_file():
        raise RunError(f"{run_dir} is not a run folder (no {DATABASE} in it)")
    return path


@contextmanager
def wrap_database_errors(path: Path) -> Iterator[None]:
    """Convert errors of SQLite to `StoreError` with advice.

    Raises:
        StoreError: The database is damaged, or the disk is full or cannot be written.
    """
    try:
        yield
    except sqlite3.ProgrammingError:  # a programming error, such as reading a closed database
        raise
    except UnicodeDecodeError as error:  # also the message of an error of SQLite that quotes damaged text
        raise StoreError(f"{path}: not a sound league database: {error}; restore it from a copy of the run") from error
    except sqlite3.Error as error:
        # OperationalError: disk space, permissions or locks; but also a missing table or damaged text
        is_damage = any(part in str(error) for part in ("no such table", "Could not decode"))
        if isinstance(error, sqlite3.OperationalError) and not is_damage:
            raise StoreError(f"{path}: {error}; {suggested_fix(error, path.parent)}") from error
        raise StoreError(f"{path}: not a sound league database: {error}; restore it from a copy of the run") from error


def suggested_fix(error: sqlite3.OperationalError, run_dir: Path) -> str:
    """Return advice about an operational error."""
    held = "locked" in str(error)  # by another writer, for longer than `_BUSY_S`; readers do not block
    first = f"close the other program that writes {DATABASE}" if held else "free disk space or fix its permissions"
    return f"{first} and continue with `ludus resume {shlex.quote(str(run_dir))}`"


def _check_length(path: Path) -> None:
    """Check that a database does not end within a page; SQLite would read zeros there.

    A database with a write-ahead log is not checked: its end may be in the log.

    Raises:
        sqlite3.DatabaseError: The database is truncated.
    """
    size = _num_bytes(path)
    if size and not _num_bytes(path.with_name(f"{path.name}-wal")):
        page = 0
        with suppress(PermissionError), path.open("rb") as file:  # SQLite raises the error
            page = int.from_bytes(file.read(18)[16:], "big")
        if page and size % page:  # the value 1 means 65536, which ludus never uses
            raise sqlite3.DatabaseError("it is truncated")


def _num_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _checked(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Return the connection if its schema is that of this version of ludus."""
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        definitions = read_definitions(connection.execute)
        if ("table", "meta") not in definitions and ("view", "meta") not in definitions:
            raise sqlite3.DatabaseError("no such table: meta")
    except sqlite3.Error:
        connection.close()
        raise
    if version != SCHEMA_VERSION:
        connection.close()
        raise StoreError(f"{path}: schema {version}, this ludus reads {SCHEMA_VERSION}; use the ludus that wrote it")
    # Before a table is read: SQLite executes triggers, views, generated columns, and expressions of indices.
    for (kind, name), _ in definitions.items() - expected_definitions().items():
        connection.close()
        raise StoreError(f"{path}: it contains a {kind} {name!r} that ludus did not write; do not use this file")
    return connection


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
        self._checksums = ChecksumWriter(connection) if writable else None

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
            if self._checksums is not None:
                self._checksums.save()
            self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Drop everything since the last commit."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        if self._checksums is not None:
            self._checksums.forget()

    def reset_checksum(self, table: str) -> None:
        """Set the checksum of a table to that of its rows; errors as for `write`. The table must have one part."""
        with self._writing():
            if self._checksums is not None:
                self._checksums.reset(table)

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

    # --- metadata and counters ------------------------------------------------------------------------------------

    def meta(self, key: str, default: Any = None) -> Any:
        """Return the JSON value stored under `key`, or `default`.

        Raises:
            sqlite3.DatabaseError: The value is not JSON, or of another type than `default`.
        """
        row = self.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        with reading(f"meta value {key!r}"):
            value = default if row is None else json.loads(row[0])
            if default is not None and type(value) is not type(default):
                raise TypeError(f"expected a {type(default).__name__}, got a {type(value).__name__}")
        return value

    def set_meta(self, key: str, value: Any) -> None:
        """Store a JSON value under `key`."""
        self.write("INSERT OR REPLACE INTO meta VALUES (?, ?)", key, json.dumps(value))

    def seats(self) -> tuple[Seat, ...]:
        """Return the seats of a match, in the environment's order."""
        with reading("meta value 'seats'"):
            return tuple(Seat(role, int(index), int(team)) for role, index, team in self.meta("seats", []))

    def counters(self) -> dict[str, float]:
        """Return all counters.

        Raises:
            sqlite3.DatabaseError: A counter is not a finite number.
        """
        with reading("table counters"):
            counters = {name: float(value) for name, value in self.execute("SELECT name, value FROM counters")}
            if not all(map(math.isfinite, counters.values())):
                raise ValueError("a counter is not finite")
        return counters

    def set_counter(self, name: str, value: float) -> None:
        """Set a counter."""
        self.write("INSERT OR REPLACE INTO counters VALUES (?, ?)", name, value)

    def add_counter(self, name: str, value: float) -> None:
        """Add to a counter that starts at 0."""
        sql = "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value"
        self.write(sql, name, value)
