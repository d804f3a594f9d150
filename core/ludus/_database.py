"""The league's database file: schema, opening for one writer or many readers, and the lock of a run folder.

Readers see a snapshot: everything they read is from one commit, also while a run goes on.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from ludus.errors import RunError, StoreError

__all__ = ["DATABASE", "SCHEMA_VERSION", "RunLock", "connect_reader", "connect_writer"]

DATABASE = "league.sqlite"
SCHEMA_VERSION = 1
_BUSY_S = 10.0  # a reader that checkpoints may hold the file for a moment

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE players (name TEXT PRIMARY KEY, role TEXT NOT NULL, team INTEGER, position INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE models (
    participant TEXT PRIMARY KEY, player TEXT NOT NULL, number INTEGER NOT NULL, hash TEXT NOT NULL, parent TEXT,
    decisions INTEGER NOT NULL, version INTEGER NOT NULL, created_s REAL NOT NULL, manifest TEXT NOT NULL,
    UNIQUE (player, number)
);
CREATE TABLE pools (
    id INTEGER PRIMARY KEY, pool TEXT NOT NULL, model TEXT NOT NULL, enters INTEGER NOT NULL, created_s REAL NOT NULL
);
CREATE TABLE fixtures (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, player TEXT NOT NULL, seats TEXT NOT NULL, seed INTEGER NOT NULL,
    matches INTEGER NOT NULL, scenario TEXT NOT NULL, reason TEXT NOT NULL, paired TEXT NOT NULL,
    created_s REAL NOT NULL, closed INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX open_fixtures ON fixtures (id) WHERE closed = 0;
CREATE TABLE matches (
    fixture INTEGER NOT NULL, number INTEGER NOT NULL, ticks INTEGER NOT NULL, outcome BLOB NOT NULL,
    PRIMARY KEY (fixture, number)
) WITHOUT ROWID;
CREATE TABLE payoffs (
    kind TEXT NOT NULL, a TEXT NOT NULL, b TEXT NOT NULL,
    wins INTEGER NOT NULL, draws INTEGER NOT NULL, losses INTEGER NOT NULL, PRIMARY KEY (kind, a, b)
) WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE checkpoints (
    player TEXT PRIMARY KEY, path TEXT NOT NULL, hash TEXT NOT NULL, version INTEGER NOT NULL,
    decisions INTEGER NOT NULL, counters TEXT NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER matches_stay BEFORE DELETE ON matches BEGIN SELECT RAISE(ABORT, 'the match log is append-only'); END;
CREATE TRIGGER matches_fixed BEFORE UPDATE ON matches BEGIN SELECT RAISE(ABORT, 'the match log is append-only'); END;
CREATE TRIGGER pools_stay BEFORE DELETE ON pools BEGIN SELECT RAISE(ABORT, 'the pool log is append-only'); END;
CREATE TRIGGER pools_fixed BEFORE UPDATE ON pools BEGIN SELECT RAISE(ABORT, 'the pool log is append-only'); END;
"""


class RunLock:
    """The exclusive right to write a run folder, held from construction to `release`; a dead process loses it.

    Raises:
        RunError: Another process holds it.
    """

    def __init__(self, run_dir: Path) -> None:
        self._handle = os.open(run_dir / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._handle, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(self._handle)
            raise RunError(
                f"{run_dir} is in use by pid {holder}; stop that run first, or choose another folder"
            ) from None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the right back; releasing twice is harmless."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def connect_writer(run_dir: Path, *, create: bool) -> sqlite3.Connection:
    """Open the database for the one writer, in autocommit mode, with every commit on disk before it returns.

    A new one is returned inside its first transaction, so that it exists with its first values or not at all.

    Raises:
        RunError: `create` and there is one already, or not `create` and there is none.
        StoreError: It is damaged or of a newer schema.
    """
    path = run_dir / DATABASE
    if not create and not path.is_file():
        raise RunError(f"{run_dir} is not a run folder (no {DATABASE} in it)")
    try:
        connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_S)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if create:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                connection.close()
                raise RunError(f"{run_dir} already holds a league; resume it, or choose another folder")
            connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION};")
    except sqlite3.Error as error:
        raise StoreError(f"{path}: cannot be opened: {error}; restore it from a copy of the run") from error
    return _checked(connection, path)


def connect_reader(run_dir: Path) -> sqlite3.Connection:
    """Open a read-only snapshot of the database; works while a run writes it, and on read-only media.

    Raises:
        RunError: There is none.
        StoreError: It is damaged or of a newer schema.
    """
    path = run_dir / DATABASE
    if not path.is_file():
        raise RunError(f"{run_dir} is not a run folder (no {DATABASE} in it)")
    # Without a -wal file and the right to make one, only an immutable opening works; then nobody writes either.
    mode = "mode=ro" if os.access(run_dir, os.W_OK) or path.with_name(f"{DATABASE}-wal").exists() else "immutable=1"
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path.resolve()))}?{mode}", uri=True, isolation_level=None, timeout=_BUSY_S
        )
        connection.execute("BEGIN")
    except sqlite3.Error as error:
        raise StoreError(f"{path}: cannot be opened: {error}; restore it from a copy of the run") from error
    return _checked(connection, path)


def _checked(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Return the connection if the schema is one that this ludus reads."""
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute("SELECT count(*) FROM meta").fetchone()
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"{path}: not a league database: {error}; restore it from a copy of the run") from error
    if version != SCHEMA_VERSION:
        connection.close()
        raise StoreError(f"{path}: schema {version}, this ludus reads {SCHEMA_VERSION}; use the ludus that wrote it")
    return connection
