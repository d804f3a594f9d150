"""One reader per run, which all clients share: it reads the folder again only when its files have changed."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from attrs import define, field, frozen
from ludus.runs import PoolRecord, Run, open_run

from ludus_dashboard.history import History, RunState, run_state
from ludus_dashboard.matches import KINDS
from ludus_dashboard.opponents import OpponentCounts

__all__ = ["Readers", "RunReader", "Snapshot"]

_INTERVAL_S = 2.0  # between two snapshots
_CATCH_UP_S = 0.2  # while the last one has not reached the end of the log
_MAX_LOAD = 0.1  # maximum share of the time that snapshots take
_FIRST_COUNTING_S = 0.2  # of the first snapshot, for the mix of opponents
_COUNTING_S = 0.4  # of later ones
_MAX_PAGES = 128  # that a snapshot keeps
_MAX_READERS = 32
_FILES = ("league.sqlite", "league.sqlite-wal", "metrics.jsonl", "lock")

Signature: TypeAlias = "tuple[tuple[int, int, int], ...]"


@frozen(kw_only=True, eq=False)
class Snapshot:
    """A run as of one moment.

    Attributes:
        version: Number of the snapshot.
        run: The run, closed: its league stays readable, its log does not.
        environment: Name of its environment.
        created_s: Unix time of its start.
        matches: Matches by kind.
        payoffs: ``[3] int64`` wins, draws and losses of a against b by (kind, a, b).
        pool_log: Changes of pools, oldest first.
        history: Its metrics.
        opponents: Its mix of opponents.
        state: What it is doing.
        pages: Rendered pages by address.
    """

    version: int
    run: Run
    environment: str
    created_s: float
    matches: Mapping[str, int]
    payoffs: Mapping[tuple[str, str, str], np.ndarray]
    pool_log: tuple[PoolRecord, ...]
    history: History
    opponents: OpponentCounts
    state: RunState
    pages: OrderedDict[str, str] = field(factory=OrderedDict)

    @property
    def is_complete(self) -> bool:
        """Return whether metrics and opponents were read up to the end."""
        return self.opponents.is_complete and not self.history.behind_bytes


@define(eq=False)
class RunReader:
    """Reads one run. A snapshot costs the run nothing but disk reads; it is made at most every two seconds.

    Args:
        folder: The run folder.
    """

    folder: Path
    _lock: threading.Lock = field(init=False, factory=threading.Lock)
    _snapshot: Snapshot | None = field(init=False, default=None)
    _signature: Signature = field(init=False, default=())
    _due_s: float = field(init=False, default=0.0)
    _history: History = field(init=False)
    _opponents: OpponentCounts = field(init=False, factory=OpponentCounts)

    def __attrs_post_init__(self) -> None:
        self._history = History(self.folder)

    def snapshot(self) -> Snapshot:
        """Return the present snapshot, after reading a new one if it is due.

        Raises:
            LudusError: The run cannot be read.
        """
        with self._lock:
            return self._current()

    def render(self, address: str, page: Callable[[Snapshot], str]) -> str:
        """Return a page of the present snapshot; equal addresses are rendered once.

        Args:
            address: Path and query of the page.
            page: Renders it.

        Raises:
            LudusError: The run cannot be read.
        """
        with self._lock:  # the league computes ratings when they are read, in one thread
            snapshot = self._current()
            if address not in snapshot.pages:
                snapshot.pages[address] = page(snapshot)
                if len(snapshot.pages) > _MAX_PAGES:
                    snapshot.pages.popitem(last=False)
            return snapshot.pages[address]

    def expire(self) -> None:
        """Make the next call read a new snapshot, after an action."""
        with self._lock:
            self._due_s, self._signature = 0.0, ()

    def _current(self) -> Snapshot:
        started_s = time.monotonic()
        if self._snapshot is None or started_s >= self._due_s:
            self._snapshot = self._refresh(self._snapshot)
            seconds = time.monotonic() - started_s
            pause_s = max(_INTERVAL_S, seconds / _MAX_LOAD) if self._snapshot.is_complete else _CATCH_UP_S
            self._due_s = started_s + seconds + pause_s
        return self._snapshot

    def _refresh(self, last: Snapshot | None) -> Snapshot:
        """Return a new snapshot, or the last one if nothing has changed."""
        signature, before = _signature(self.folder), self._signature
        if last is not None and signature == before and last.is_complete and last.state == self._state(last.run):
            return last
        if before and before[0][0] != signature[0][0]:  # another run has the name of this one
            self._history, self._opponents = History(self.folder), OpponentCounts()
        snapshot = self._read()
        self._signature = signature
        return snapshot

    def _state(self, run: Run) -> RunState:
        return run_state(self._history, run.league.players)

    def _read(self) -> Snapshot:
        with open_run(self.folder) as run:
            self._history.read()
            self._opponents.read(run, max_s=_FIRST_COUNTING_S if self._snapshot is None else _COUNTING_S)
            return Snapshot(
                version=1 if self._snapshot is None else self._snapshot.version + 1,
                run=run,
                environment=str(run.meta("environment")),
                created_s=_number(run.meta("created_s")),
                matches={kind: run.num_matches(kind=kind) for kind in KINDS},
                payoffs=run.payoffs(),
                pool_log=tuple(run.pool_log()),
                history=self._history,
                opponents=self._opponents,
                state=self._state(run),
            )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _signature(folder: Path) -> Signature:
    """Return what changes when a file of a run is written: inode, time and size of each."""
    found = []
    for name in _FILES:
        status = None
        with suppress(OSError):
            status = (folder / name).stat()
        found.append((0, 0, 0) if status is None else (status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)


@define
class Readers:
    """The readers of the runs that were looked at last."""

    _readers: OrderedDict[Path, RunReader] = field(init=False, factory=OrderedDict)
    _lock: threading.Lock = field(init=False, factory=threading.Lock)

    def get(self, folder: Path) -> RunReader:
        """Return the reader of a run folder."""
        with self._lock:
            reader = self._readers.setdefault(folder, RunReader(folder))
            self._readers.move_to_end(folder)
            while len(self._readers) > _MAX_READERS:
                self._readers.popitem(last=False)
            return reader
