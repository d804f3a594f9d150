"""The match log of the league store: fixtures, the matches played, and the payoffs.

A match is one fixture and one number: its participants, seed, scenario and reason are fixed by the fixture before it
starts (`ludus._seeding.match_seeds` gives the seed), and only its outcome and length are added to the log. The payoffs
are sums over the log, kept in the same transaction; `recompute_payoffs` makes them from the log alone.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ludus._messages import Fixture
from ludus._records import FIXTURE_COLUMNS, MatchRecord, fixture_record
from ludus._seeding import match_seeds
from ludus._tally import Block, FixtureSummary, Payoffs, Recorded, tally
from ludus.environment import Scenario, Seat
from ludus.errors import StoreError, WireError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MatchLog"]

_CHUNK = 50_000  # matches read at once when the whole log is counted
_RESULTS = {"fixture": np.int64, "number": np.int64, "ticks": np.int32, "outcome": np.float32}


class MatchLog:
    """Fixtures, matches and payoffs in an open database; the part of `ludus._store.Store` that deals with matches.

    Args:
        run_dir: The run folder, for messages.
        connection: The open database.
        writable: Whether this is the one writer.
    """

    def __init__(self, run_dir: Path, connection: sqlite3.Connection, *, writable: bool) -> None:
        self.run_dir = run_dir
        self.writable = writable
        self._db = connection
        self._blocks: dict[int, Block] = {}  # fixtures in play
        self._pending: Payoffs = {}  # what the next commit adds
        self._closing: list[int] = []  # fixtures that the next commit closes
        self._last_fixture: int | None = None
        self._teams: tuple[int, ...] | None = None

    def meta(self, key: str, default: Any = None) -> Any:
        """Return a value kept under `key`, or `default`."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return default if row is None else json.loads(row[0])

    def seats(self) -> tuple[Seat, ...]:
        """Return the seats of a match, in the environment's order."""
        return tuple(Seat(*parts) for parts in self.meta("seats", []))

    def add_counter(self, name: str, value: float) -> None:
        """Add to a counter that starts at 0."""
        sql = "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value"
        self._write(sql, name, value)

    def add_fixture(
        self,
        kind: str,
        seats: Sequence[str],
        *,
        player: str,
        seed: int,
        matches: int,
        reason: str,
        scenario: Scenario | None = None,
        paired: str = "",
    ) -> Fixture:
        """Add a fixture and return it with its id.

        Args:
            kind: ``"train"`` or ``"eval"``.
            seats: The participant in every seat.
            player: Who learns from it; empty for evaluations.
            seed: 63 bits; the seeds of its matches derive from it.
            matches: How many, at least 1.
            reason: Why these opponents.
            scenario: What is played; None is the default.
            paired: Id of the fixture with the same seed and swapped seats.

        Raises:
            StoreError: The number of seats is not that of the environment, or matches < 1.
        """
        if len(seats) != len(self._seat_teams()) or matches < 1:
            wanted = f"{len(self._seat_teams())} participants and at least 1 match"
            raise StoreError(f"a fixture needs {wanted}, got {', '.join(seats)} and {matches}")
        record = Fixture(
            id=self._next_fixture(),
            kind=kind,
            player=player,
            seats=tuple(seats),
            seed=seed,
            matches=matches,
            scenario=scenario or Scenario(),
            reason=reason,
            paired=paired,
        )
        scenario_text = json.dumps([record.scenario.name, dict(record.scenario.parameters)])
        row = (record.id, kind, player, json.dumps(record.seats), seed, matches, scenario_text, reason, paired)
        self._write("INSERT INTO fixtures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)", *row, time.time())
        self._blocks[record.id] = self._new_block(record)
        return record

    def close_fixture(self, fixture: int) -> None:
        """Note that the rest of a fixture will not be played; results that still arrive are kept."""
        self._write("UPDATE fixtures SET closed = 1 WHERE id = ?", fixture)
        self._blocks.pop(fixture, None)

    def open_fixtures(self) -> list[tuple[Fixture, NDArray[np.int64]]]:
        """Return the fixtures that are not finished, each with the numbers ``[k] int64`` still to play."""
        result = []
        for record in self._fixtures("closed = 0"):
            block = self._blocks.setdefault(record.id, self._loaded_block(record))
            missing = np.flatnonzero(~block.played)
            if missing.size:
                result.append((record, missing))
        return result

    def add_results(self, arrays: Mapping[str, np.ndarray]) -> Recorded:
        """Add finished matches to the log; what is there already is left as it is.

        Refused and duplicate rows are counted in the counters ``results_refused`` and ``results_duplicate``.

        Args:
            arrays: ``fixture [n] int64``, ``number [n] int64``, ``ticks [n] int32``, ``outcome [n, teams] float32``.

        Raises:
            WireError: The arrays have other shapes or dtypes, or outcomes outside [0, 1].
        """
        fixture, number, ticks, outcome = self._checked_results(arrays)
        order = np.lexsort((number, fixture))
        fresh, groups, refused = self._sift(fixture[order], number[order])
        rows = order[fresh]
        self._insert(fixture[rows], number[rows], ticks=ticks[rows], outcome=outcome[rows])
        duplicates = len(fixture) - len(rows) - refused
        for name, count in (("results_duplicate", duplicates), ("results_refused", refused)):
            if count:
                self.add_counter(name, count)
        payoffs, summaries = self._count(groups, outcome[rows])
        return Recorded(new=rows, duplicates=duplicates, refused=refused, fixtures=summaries, payoffs=payoffs)

    def _insert(self, fixture: np.ndarray, number: np.ndarray, *, ticks: np.ndarray, outcome: np.ndarray) -> None:
        width = outcome.dtype.itemsize * outcome.shape[1]
        data = outcome.tobytes()
        blobs = [data[i : i + width] for i in range(0, len(data), width)]
        rows = zip(fixture.tolist(), number.tolist(), ticks.tolist(), blobs, strict=True)
        with self._writing() as database:
            database.executemany("INSERT INTO matches VALUES (?, ?, ?, ?)", rows)

    def _sift(self, fixture: np.ndarray, number: np.ndarray) -> tuple[NDArray[np.int64], list[tuple[Block, int]], int]:
        """Find which of the rows, sorted by fixture and number, are new, and mark them as played.

        Returns:
            The new rows, every fixture that has some with their count, and how many rows are refused.
        """
        fresh = np.ones(len(fixture), bool)
        fresh[1:] = (fixture[1:] != fixture[:-1]) | (number[1:] != number[:-1])
        starts = _starts(fixture)
        groups, refused = [], 0
        for start, stop in zip(starts, [*starts[1:], len(fixture)], strict=False):
            block = self._block(int(fixture[start]))
            numbers, mine = number[start:stop], fresh[start:stop]  # views: what is written to `mine` is in `fresh`
            known = 0 if block is None else len(block.played)
            if numbers[0] < 0 or numbers[-1] >= known:
                inside = (numbers >= 0) & (numbers < known)
                refused += int(np.count_nonzero(~inside))
                mine &= inside
            if block is None:
                continue
            mine[mine] = ~block.played[numbers[mine]]
            block.played[numbers[mine]] = True
            count = int(np.count_nonzero(mine))
            if count:
                groups.append((block, count))
            elif block.played.all():
                self._blocks.pop(block.fixture)  # a late repetition; nothing more is expected
        return np.flatnonzero(fresh), groups, refused

    def _count(
        self, groups: list[tuple[Block, int]], outcome: np.ndarray
    ) -> tuple[Payoffs, tuple[FixtureSummary, ...]]:
        """Add new matches, which lie together fixture by fixture, to the payoffs, and describe them."""
        if not groups:
            return {}, ()
        blocks = [block for block, _ in groups]
        starts = np.cumsum([0, *(count for _, count in groups[:-1])], dtype=np.int64)
        payoffs = tally(blocks, starts, outcome)
        _accumulate(self._pending, payoffs)
        points = np.add.reduceat(outcome, starts, dtype=np.float64).tolist()
        summaries = tuple(
            FixtureSummary(
                fixture=block.fixture,
                kind=block.kind,
                player=block.player,
                participants=block.seats,
                outcome=tuple(sums),
                matches=matches,
                finished=bool(block.played.all()),
            )
            for (block, matches), sums in zip(groups, points, strict=True)
        )
        self._closing += [summary.fixture for summary in summaries if summary.finished]
        return payoffs, summaries

    def payoffs(self) -> Payoffs:
        """Return the committed sums over the log by (kind, a, b), each ``[3] int64`` wins, draws, losses of a."""
        rows = self._db.execute("SELECT kind, a, b, wins, draws, losses FROM payoffs")
        return {(kind, a, b): np.array(counts, np.int64) for kind, a, b, *counts in rows}

    def recompute_payoffs(self) -> Payoffs:
        """Return the same sums counted from the match log alone.

        Raises:
            StoreError: The log has matches of fixtures that do not exist.
        """
        total: Payoffs = {}
        cursor = self._db.execute("SELECT fixture, outcome FROM matches ORDER BY fixture, number")
        while rows := cursor.fetchmany(_CHUNK):
            fixture = np.array([row[0] for row in rows], np.int64)
            outcome = np.frombuffer(b"".join(row[1] for row in rows), np.float32).reshape(len(rows), -1)
            starts = _starts(fixture)
            ids = fixture[starts].tolist()
            blocks = {
                record.id: self._new_block(record) for record in self._fixtures("id BETWEEN ? AND ?", ids[0], ids[-1])
            }
            if not blocks.keys() >= set(ids):
                raise StoreError(f"{self.run_dir}: the log has matches of fixtures that do not exist; restore a copy")
            _accumulate(total, tally([blocks[i] for i in ids], np.array(starts), outcome))
        return total

    def matches(self, *, last: int | None = None, kind: str | None = None) -> Iterator[MatchRecord]:
        """Return the log ordered by fixture and number.

        Args:
            last: Only so many from its end.
            kind: Only ``"train"`` or only ``"eval"`` matches.
        """
        columns = ", ".join(f"f.{column}" for column in FIXTURE_COLUMNS.split(", "))
        where = "" if kind is None else "WHERE f.kind = :kind"
        order, limit = ("ASC", "") if last is None else ("DESC", "LIMIT :last")
        sql = (
            f"SELECT m.number, m.ticks, m.outcome, {columns} FROM matches m JOIN fixtures f ON f.id = m.fixture"  # noqa: S608
            f" {where} ORDER BY m.fixture {order}, m.number {order} {limit}"
        )
        rows: Iterable[Any] = self._db.execute(sql, {"kind": kind, "last": last})
        for number, ticks, outcome, *rest in rows if last is None else reversed(list(rows)):
            fixture = fixture_record(rest)
            yield MatchRecord(
                fixture=fixture,
                number=number,
                seed=int(match_seeds(fixture.seed, np.array([number]))[0]),
                outcome=tuple(np.frombuffer(outcome, np.float32).tolist()),
                ticks=ticks,
            )

    def num_matches(self) -> int:
        """Return the length of the log."""
        return int(self._db.execute("SELECT count(*) FROM matches").fetchone()[0])

    def commit(self) -> None:
        """Make everything since the last commit durable, all of it or nothing.

        Raises:
            StoreError: The disk refused; everything since the last commit is dropped.
        """
        with self._writing() as database:
            database.executemany(
                "INSERT INTO payoffs VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (kind, a, b) DO UPDATE SET"
                " wins = wins + excluded.wins, draws = draws + excluded.draws, losses = losses + excluded.losses",
                [(*key, *count.tolist()) for key, count in self._pending.items()],
            )
            database.executemany("UPDATE fixtures SET closed = 1 WHERE id = ?", [(i,) for i in self._closing])
            database.execute("COMMIT")
        for fixture in self._closing:
            self._blocks.pop(fixture, None)
        self._pending, self._closing = {}, []

    def rollback(self) -> None:
        """Drop everything since the last commit."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self._blocks, self._pending, self._closing = {}, {}, []
        self._last_fixture = self._teams = None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Give the database with a transaction begun; a disk that refuses drops the whole transaction."""
        if not self.writable:
            raise StoreError(f"{self.run_dir}: opened for reading only")
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN IMMEDIATE")
            yield self._db
        except sqlite3.OperationalError as error:
            self.rollback()
            raise StoreError(f"{self.run_dir}: the league could not be written: {error}") from error

    def _write(self, sql: str, *values: Any) -> None:
        with self._writing() as database:
            database.execute(sql, values)

    def _next_fixture(self) -> int:
        if self._last_fixture is None:
            self._last_fixture = int(self._db.execute("SELECT coalesce(max(id), 0) FROM fixtures").fetchone()[0])
        self._last_fixture += 1
        return self._last_fixture

    def _seat_teams(self) -> tuple[int, ...]:
        if self._teams is None:
            self._teams = tuple(seat.team for seat in self.seats())
        return self._teams

    def _fixtures(self, where: str, *values: Any) -> list[Fixture]:
        sql = f"SELECT {FIXTURE_COLUMNS} FROM fixtures WHERE {where} ORDER BY id"  # noqa: S608 - constants of this module
        return [fixture_record(row) for row in self._db.execute(sql, values)]

    def _block(self, fixture: int) -> Block | None:
        """Return what has been played of a fixture; None if there is no such fixture."""
        block = self._blocks.get(fixture)
        if block is None:
            for record in self._fixtures("id = ?", fixture):
                block = self._blocks[fixture] = self._loaded_block(record)
        return block

    def _new_block(self, record: Fixture) -> Block:
        return Block.make(
            record.id,
            record.kind,
            player=record.player,
            seats=record.seats,
            teams=self._seat_teams(),
            matches=record.matches,
        )

    def _loaded_block(self, record: Fixture) -> Block:
        block = self._new_block(record)
        rows = self._db.execute("SELECT number FROM matches WHERE fixture = ?", (record.id,))
        block.played[[row[0] for row in rows]] = True
        return block

    def _checked_results(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        if set(arrays) != set(_RESULTS) or any(arrays[name].dtype != dtype for name, dtype in _RESULTS.items()):
            expected = ", ".join(f"{name} {np.dtype(dtype)}" for name, dtype in _RESULTS.items())
            raise WireError(f"results: expected the arrays {expected}")
        fixture, number, ticks, outcome = (arrays[name] for name in _RESULTS)
        teams = 1 + max(self._seat_teams(), default=0)
        n = fixture.shape[:1]
        if not (fixture.shape == number.shape == ticks.shape == n and outcome.shape == (*n, teams)):
            raise WireError(f"results: expected [n] fixtures, numbers, ticks and [n, {teams}] outcomes")
        if not np.all((outcome >= 0) & (outcome <= 1)):
            raise WireError("results: expected outcomes in [0, 1]")
        return fixture, number, ticks, outcome


def _starts(fixture: np.ndarray) -> list[int]:
    """Return where the runs of equal values begin."""
    changes: list[int] = (np.flatnonzero(fixture[1:] != fixture[:-1]) + 1).tolist()
    return [0, *changes] if len(fixture) else []


def _accumulate(total: Payoffs, more: Payoffs) -> None:
    for key, count in more.items():
        total[key] = total[key] + count if key in total else count
