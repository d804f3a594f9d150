"""The league store: what happened, in SQLite, with one writer and one append-only match log.

Changes accumulate until `commit`, which returns when they are on the disk. A crash before that loses all of them
together. Nothing may be acknowledged to a worker before `commit` has returned.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

from ludus._messaging.messages import Checkpoint
from ludus._store import database
from ludus._store.match_log import MatchLog
from ludus._store.model_files import remove_partial
from ludus._store.records import PoolRecord, reading, record_of, row_of
from ludus.environment import Seat
from ludus.errors import RunError, StoreError
from ludus.matchmaker import PoolChange
from ludus.records import ModelRecord

#: Its role, and the team of that role where it has one fixed team.
Player: TypeAlias = "tuple[str, int | None]"


class Store(MatchLog, AbstractContextManager["Store"]):
    """The league's database. Made by `create`, `open` or `read`; used by one thread.

    Args:
        run_dir: The run folder.
        connection: An open database.
        lock: The run folder's lock; None for a reader.
    """

    def __init__(self, run_dir: Path, connection: sqlite3.Connection, *, lock: database.RunLock | None) -> None:
        super().__init__(run_dir, connection, writable=lock is not None)
        self._lock = lock

    @classmethod
    def create(cls, run_dir: Path, meta: Mapping[str, Any]) -> Store:
        """Make the store of a new run, in a folder that may exist but holds no league, or one without any progress.

        Args:
            run_dir: The run folder; made if missing.
            meta: JSON values to keep: seed, environment and so on; ``created_s`` is added.

        Raises:
            RunError: The folder is in use or already holds a league.
        """
        run_dir.mkdir(parents=True, exist_ok=True)
        store = cls._locked(run_dir, create=True)
        for key, value in {**meta, "created_s": time.time()}.items():
            store.set_meta(key, value)
        store.commit()
        return store

    @classmethod
    def open(cls, run_dir: Path) -> Store:
        """Open an existing store as its one writer.

        Raises:
            RunError: The folder is in use or holds no league.
            StoreError: The store is damaged or was written by a newer ludus.
        """
        if not run_dir.is_dir():
            raise RunError(f"{run_dir} is not a run folder (there is no such folder)")
        return cls._locked(run_dir, create=False)

    @classmethod
    def read(cls, run_dir: Path) -> Store:
        """Open a read-only snapshot; works while a run writes the store.

        Raises:
            RunError: The folder holds no league.
            StoreError: The store is damaged or was written by a newer ludus.
        """
        return cls(run_dir, database.connect_reader(run_dir), lock=None)

    @classmethod
    def _locked(cls, run_dir: Path, *, create: bool) -> Store:
        lock = database.RunLock(run_dir)
        try:
            remove_partial(run_dir)
            return cls(run_dir, database.connect_writer(run_dir, create=create), lock=lock)
        except BaseException:
            lock.release()
            raise

    def commit(self) -> None:
        """Make everything since the last commit durable, all of it or nothing.

        Raises:
            RunError: The run folder lies no longer where it did, so files that are spoken of may not be in it.
            StoreError: The disk refused; everything since the last commit is dropped.
        """
        self.check_folder()
        super().commit()

    def check_folder(self) -> None:
        """Check that the run folder lies where it did when it was opened for writing.

        Raises:
            RunError: It does not.
        """
        if self._lock is not None:
            self._lock.check()

    def close(self) -> None:
        """Drop what is not committed and give the folder free; closing twice is harmless."""
        self._db.close()
        if self._lock is not None:
            self._lock.release()

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- meta, players, counters, checkpoints ---------------------------------------------------------------------

    def set_meta(self, key: str, value: Any) -> None:
        """Keep a JSON value under `key`."""
        self._write("INSERT OR REPLACE INTO meta VALUES (?, ?)", key, json.dumps(value))

    def declare(self, players: Mapping[str, Player], *, anchors: Sequence[str], seats: Sequence[Seat]) -> None:
        """Say who takes part and how the seats of a match are arranged.

        Players that were declared earlier stay. Changed seats would change the meaning of the log.

        Raises:
            StoreError: The log was written for other seats.
        """
        described = [[seat.role, seat.index, seat.team] for seat in seats]
        if self.meta("seats", described) != described:
            raise StoreError(
                f"{self.run_dir}: its matches have seats {self.meta('seats')}, the environment {described}"
            )
        if self.meta("seats") != described or self.meta("anchors") != list(anchors):
            self.set_meta("seats", described)
            self.set_meta("anchors", list(anchors))
        if list(self.players().items()) != list(players.items()):
            for position, (name, (role, team)) in enumerate(players.items()):
                self._write("INSERT OR REPLACE INTO players VALUES (?, ?, ?, ?)", name, role, team, position)

    def players(self) -> dict[str, Player]:
        """Return the players by name, in the order of their declaration."""
        rows = self._db.execute("SELECT name, role, team FROM players ORDER BY position, name")
        return {name: (role, team) for name, role, team in rows}

    def anchors(self) -> tuple[str, ...]:
        """Return the anchors' names."""
        return tuple(self.meta("anchors", []))

    def counters(self) -> dict[str, float]:
        """Return all counters."""
        with reading("table counters"):
            counters = {name: float(value) for name, value in self._db.execute("SELECT name, value FROM counters")}
            if not all(map(math.isfinite, counters.values())):
                raise ValueError("a counter is not finite")
        return counters

    def set_counter(self, name: str, value: float) -> None:
        """Set a counter."""
        self._write("INSERT OR REPLACE INTO counters VALUES (?, ?)", name, value)

    def put_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Make a checkpoint, whose file is already on the disk, the one to resume from."""
        # what the last column held is in the file; it stays, so that earlier run folders can be opened
        self._write("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, '{}')", *row_of(checkpoint))

    def checkpoints(self) -> dict[str, Checkpoint]:
        """Return the checkpoint to resume from, by player."""
        rows = self._db.execute("SELECT player, path, hash, version, decisions FROM checkpoints")
        return {row[0]: record_of(Checkpoint, row, table="checkpoints") for row in rows}

    def saved_decisions(self) -> dict[str, int]:
        """Return how many decisions checkpoints and models hold by player; what was learned since, a crash loses."""
        sql = """
            SELECT player, max(decisions)
            FROM (SELECT player, decisions FROM checkpoints UNION ALL SELECT player, decisions FROM models)
            GROUP BY player
        """
        with reading("table checkpoints or models"):
            return {player: int(decisions) for player, decisions in self._db.execute(sql)}

    # --- models and pools -----------------------------------------------------------------------------------------

    def add_model(self, model: ModelRecord) -> None:
        """Add a frozen model whose file is already on the disk.

        Raises:
            StoreError: There is one of that name already.
        """
        try:
            self._write("INSERT INTO models VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *row_of(model))
        except sqlite3.IntegrityError as error:
            raise StoreError(f"model {model.participant} is already in the league") from error

    def models(self) -> tuple[ModelRecord, ...]:
        """Return the models, in the order in which they were frozen."""
        return tuple(
            record_of(ModelRecord, row, table="models")
            for row in self._db.execute("SELECT * FROM models ORDER BY rowid")
        )

    def pool_change(self, change: PoolChange) -> None:
        """Log that a model enters or leaves a pool."""
        sql = "INSERT INTO pools (pool, model, enters, created_s) VALUES (?, ?, ?, ?)"
        self._write(sql, change.pool, change.model, int(change.enters), time.time())

    def pool_log(self) -> Iterator[PoolRecord]:
        """Return the changes of pools with the times at which they were made, oldest first."""
        for pool, model, enters, created_s in self._db.execute(
            "SELECT pool, model, enters, created_s FROM pools ORDER BY id"
        ):
            yield PoolRecord(change=PoolChange(pool=pool, model=model, enters=bool(enters)), created_s=created_s)

    def damage(self) -> list[str]:
        """Return what SQLite finds wrong with the file, and matches that their fixture does not have."""
        found = [row[0] for row in self._db.execute("PRAGMA integrity_check") if row[0] != "ok"]
        sql = """
            SELECT m.fixture, count(*) FROM matches m JOIN fixtures f ON f.id = m.fixture
            WHERE m.number NOT BETWEEN 0 AND f.matches - 1 GROUP BY m.fixture
        """
        return found + [f"fixture {i}: {n} matches beyond its number of matches" for i, n in self._db.execute(sql)]
