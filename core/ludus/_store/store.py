"""The league store: the history of a run in SQLite, with one writer.

Changes accumulate until `Store.commit`, which returns when they are on the disk. A crash before that loses all of them
together. The coordinator acknowledges nothing to a worker before `Store.commit` has returned.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from ludus._store.behaviour import BehaviourTable
from ludus._store.database import Database, RunLock, connect_reader, connect_writer
from ludus._store.durable import make_folder, write_durably
from ludus._store.foreign_files import check_folder
from ludus._store.journal import JOURNAL, lost_commits
from ludus._store.match_log import MatchLog
from ludus._store.model_files import DAMAGED, remove_partial
from ludus._store.payoffs import PayoffTable
from ludus._store.quarantine import QuarantineTable
from ludus._store.retired import RetiredTable
from ludus._store.tables import CheckpointTable, FixtureTable, ModelTable, PoolLog
from ludus.environment import Seat
from ludus.errors import RunError, StoreError

#: The role of a player, and its team where the role has one fixed team.
Player: TypeAlias = "tuple[str, int | None]"


class Store(Database, AbstractContextManager["Store"]):
    """The league's database. Made by `create`, `open` or `read`; used by one thread.

    Args:
        run_dir: The run folder.
        connection: An open database.
        lock: The run folder's lock; None for a reader.

    Attributes:
        run_dir: The run folder.
        writable: Whether this is the writer.
        fixtures: The table of fixtures.
        payoffs: The table of payoffs.
        behaviour: The table of behaviour.
        matches: The match log.
        models: The table of frozen models.
        pools: The log of pool changes.
        checkpoints: The table of checkpoints.
        quarantine: The quarantined models.
        retired: The retired models.
        lost_commits: Commits that the database has lost by damage of its write-ahead log, when its writer opened it.
    """

    lost_commits: int = 0

    def __init__(self, run_dir: Path, connection: sqlite3.Connection, *, lock: RunLock | None) -> None:
        super().__init__(run_dir, connection, writable=lock is not None)
        self._lock = lock
        self.fixtures = FixtureTable(self)
        self.payoffs = PayoffTable(self)
        self.behaviour = BehaviourTable(self)
        self.matches = MatchLog(self, fixtures=self.fixtures, payoffs=self.payoffs, behaviour=self.behaviour)
        self.models = ModelTable(self)
        self.pools = PoolLog(self)
        self.checkpoints = CheckpointTable(self)
        self.quarantine = QuarantineTable(self)
        self.retired = RetiredTable(self)

    @classmethod
    def create(cls, run_dir: Path, meta: Mapping[str, Any]) -> Store:
        """Create the store of a new run; the folder may exist, but hold no league, or one without any progress.

        Args:
            run_dir: The run folder; made if missing.
            meta: JSON values to keep, such as the seed and the environment; ``created_s`` is added.

        Raises:
            RunError: The folder is in use, already holds a league, or has a link that leads out of it.
        """
        make_folder(run_dir, parents=True)
        store = cls._open_locked(run_dir, create=True)
        for key, value in {**meta, "created_s": time.time()}.items():
            store.set_meta(key, value)
        store.commit()
        return store

    @classmethod
    def open(cls, run_dir: Path) -> Store:
        """Open an existing store as its writer.

        Raises:
            RunError: The folder is in use, holds no league, or has a link that leads out of it.
            StoreError: The store is damaged or was written by another version of ludus.
        """
        if not run_dir.is_dir():
            raise RunError(f"{run_dir} is not a run folder (there is no such folder)")
        return cls._open_locked(run_dir, create=False)

    @classmethod
    def read(cls, run_dir: Path) -> Store:
        """Open a read-only snapshot; works while a run writes the store.

        Raises:
            RunError: The folder holds no league.
            StoreError: The store is damaged or was written by another version of ludus.
        """
        return cls(run_dir, connect_reader(run_dir), lock=None)

    @classmethod
    def _open_locked(cls, run_dir: Path, *, create: bool) -> Store:
        check_folder(run_dir)
        lock = RunLock(run_dir)
        try:
            remove_partial(run_dir)
            lost = 0 if create else _keep_damaged_journal(run_dir)
            store = cls(run_dir, connect_writer(run_dir, create=create), lock=lock)
        except BaseException:
            lock.release()
            raise
        store.lost_commits = lost
        return store

    def commit(self) -> None:
        """Check the folder, then commit as `Database.commit` does.

        Raises:
            RunError: The run folder was moved or removed, so files that the commit refers to may be elsewhere.
            StoreError: The disk failed; everything since the last commit is dropped.
        """
        self.check_folder()
        super().commit()

    def check_folder(self) -> None:
        """Check that the run folder of a writer is where it was when it was opened.

        Raises:
            RunError: It was moved or removed.
        """
        if self._lock is not None:
            self._lock.check()

    def close(self) -> None:
        """Drop everything since the last commit and release the folder; closing twice is harmless."""
        super().close()
        if self._lock is not None:
            self._lock.release()

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- participants ---------------------------------------------------------------------------------------------

    def declare(
        self,
        players: Mapping[str, Player],
        *,
        anchors: Sequence[str],
        seats: Sequence[Seat],
        anchor_teams: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Store the players and anchors of a league and the seats of a match; earlier players are kept.

        Args:
            players: Role and team by player.
            anchors: The anchors.
            seats: The seats of a match.
            anchor_teams: Teams of the anchors that play one team only.

        Raises:
            StoreError: The log has matches with other seats, which would change its meaning.
        """
        described = [[seat.role, seat.index, seat.team] for seat in seats]
        if self.meta("seats", described) != described:
            raise StoreError(
                f"{self.run_dir}: its matches have seats {self.meta('seats')}, the environment {described}"
            )
        for key, value in (("seats", described), ("anchors", list(anchors)), ("anchor_teams", dict(anchor_teams))):
            if self.meta(key) != value:
                self.set_meta(key, value)
        if list(self.players().items()) != list(players.items()):
            for position, (name, (role, team)) in enumerate(players.items()):
                self.write("INSERT OR REPLACE INTO players VALUES (?, ?, ?, ?)", name, role, team, position)

    def players(self) -> dict[str, Player]:
        """Return the players by name, in the order in which they were declared."""
        rows = self.execute("SELECT name, role, team FROM players ORDER BY position, name")
        return {name: (role, team) for name, role, team in rows}

    def anchors(self) -> tuple[str, ...]:
        """Return the names of the anchors."""
        return tuple(self.meta("anchors", []))

    def anchor_teams(self) -> dict[str, int]:
        """Return the teams of the anchors that play one team only."""
        return dict(self.meta("anchor_teams", {}))


def _keep_damaged_journal(run_dir: Path) -> int:
    """Copy the write-ahead log into the folder of damaged files if commits in it are lost; return their number."""
    log = run_dir / JOURNAL
    lost = lost_commits(log)
    if lost:
        make_folder(run_dir / DAMAGED)
        write_durably(run_dir / DAMAGED / JOURNAL, log.read_bytes())
    return lost
