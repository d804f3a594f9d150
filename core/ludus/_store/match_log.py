"""The match log of the league store: fixtures, the matches played, and the payoffs.

A match is one fixture and one number: its participants, seed, scenario and reason are fixed by the fixture before it
starts (`ludus._seeding.match_seeds` gives the seed), and only its outcome and length are added to the log. The payoffs
are sums over the log, kept in the same transaction; `recompute_payoffs` makes them from the log alone.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from ludus._seeding import match_seeds
from ludus._store.database import suggested_fix
from ludus._store.records import FIXTURE_COLUMNS, fixture_of, reading
from ludus.environment import Seat
from ludus.errors import StoreError, WireError
from ludus.records import Fixture, FixtureRecord, MatchRecord

_CHUNK = 50_000  # matches read at once when the whole log is counted
_RESULTS = {"fixture": np.int64, "number": np.int64, "ticks": np.int32, "outcome": np.float32}


#: (kind, a, b) → ``[3] int64``: wins, draws and losses of a against b in matches of that kind.
Counts: TypeAlias = dict[tuple[str, str, str], NDArray[np.int64]]


@frozen(kw_only=True)
class FixtureSummary:
    """New matches of one fixture in one report.

    Attributes:
        fixture: What was played.
        outcome: Points per team summed over the new matches (1 win, ½ draw, 0 loss each).
        matches: How many new matches.
        ticks: How long they were together.
        finished: Whether these were the last ones of the fixture.
    """

    fixture: Fixture
    outcome: tuple[float, ...]
    matches: int
    ticks: int
    finished: bool


@frozen
class RecordedResults:
    """What a report added to the log.

    Attributes:
        fixtures: One summary per fixture with new matches, by id.
        payoffs: What the new matches add to the payoffs.
    """

    fixtures: tuple[FixtureSummary, ...]
    payoffs: Counts


class MatchLog:
    """Read and write the fixtures, matches and payoffs of an open league database.

    Args:
        run_dir: The run folder, for messages.
        connection: The open database.
        writable: Whether this is the one writer.
    """

    def __init__(self, run_dir: Path, connection: sqlite3.Connection, *, writable: bool) -> None:
        self.run_dir = run_dir
        self.writable = writable
        self._db = connection

    def meta(self, key: str, default: Any = None) -> Any:
        """Return a value kept under `key`, or `default`.

        Raises:
            sqlite3.DatabaseError: It is not JSON, or of another type than `default` has.
        """
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        with reading(f"meta value {key!r}"):
            value = default if row is None else json.loads(row[0])
            if default is not None and type(value) is not type(default):
                raise TypeError(f"{key}: expected a {type(default).__name__}, got a {type(value).__name__}")
        return value

    def seats(self) -> tuple[Seat, ...]:
        """Return the seats of a match, in the environment's order."""
        with reading("meta value 'seats'"):
            return tuple(Seat(role, int(index), int(team)) for role, index, team in self.meta("seats", []))

    def add_counter(self, name: str, value: float) -> None:
        """Add to a counter that starts at 0."""
        sql = "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value"
        self._write(sql, name, value)

    def add_fixture(self, fixture: Fixture) -> Fixture:
        """Add a fixture and return it with its id.

        Args:
            fixture: What is fixed before its matches start; its `id` and `models` are of no account.

        """
        f = fixture
        scenario = json.dumps([f.scenario.name, dict(f.scenario.parameters)])
        row = (
            f.kind,
            f.player,
            json.dumps(f.participants),
            f.seed,
            f.matches,
            scenario,
            f.reason,
            f.paired,
            time.time(),
        )
        return evolve(f, id=self._write("INSERT INTO fixtures VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)", *row))

    def close_fixture(self, fixture: int) -> None:
        """Note that the rest of a fixture will not be played; results that still arrive are kept."""
        self._write("UPDATE fixtures SET closed = 1 WHERE id = ?", fixture)

    def open_fixtures(self) -> list[Fixture]:
        """Return the fixtures that are neither finished nor closed."""
        return self._fixtures("closed = 0")

    def add_results(self, arrays: Mapping[str, np.ndarray]) -> RecordedResults:
        """Add finished matches to the log; what is there already is left as it is.

        Refused and duplicate rows are counted in the counters ``results_refused`` and ``results_duplicate``.

        Args:
            arrays: ``fixture [n] int64``, ``number [n] int64``, ``ticks [n] int32``, ``outcome [n, teams] float32``.

        Raises:
            WireError: The arrays have other shapes or dtypes, or outcomes outside [0, 1].
        """
        fixture, number, ticks, outcome = self._checked_results(arrays)
        found, refused = [], 0
        for which in np.unique(fixture).tolist():
            rows, records = np.flatnonzero(fixture == which), self._fixtures("id = ?", which)
            inside = rows[(number[rows] >= 0) & (number[rows] < (records[0].matches if records else 0))]
            refused += rows.size - inside.size
            new, finished = self._new(records[0], inside, number[inside]) if inside.size else (inside, False)
            if new.size:
                summary = FixtureSummary(
                    fixture=records[0],
                    outcome=tuple(outcome[new].sum(axis=0, dtype=np.float64).tolist()),
                    matches=new.size,
                    ticks=int(ticks[new].sum()),
                    finished=finished,
                )
                found.append((summary, new))
        summaries = tuple(summary for summary, _ in found)
        new = np.concatenate([np.zeros(0, np.int64), *(rows for _, rows in found)])
        payoffs = tally(
            [summary.fixture for summary in summaries],
            _starts(fixture[new]),
            outcome[new],
            teams=[seat.team for seat in self.seats()],
        )
        blobs = (points.tobytes() for points in outcome[new])
        self._add(zip(fixture[new].tolist(), number[new].tolist(), ticks[new].tolist(), blobs, strict=True), payoffs)
        for summary in summaries:
            if summary.finished:
                self.close_fixture(summary.fixture.id)
        duplicates = len(fixture) - len(new) - refused
        for name, count in (("results_duplicate", duplicates), ("results_refused", refused)):
            if count:
                self.add_counter(name, count)
        return RecordedResults(summaries, payoffs)

    def _new(self, fixture: Fixture, rows: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return which rows are new, the first ones about matches not in the log, and whether they are the last.

        Args:
            fixture: That the rows are about.
            rows: ``[n] int64``, ascending.
            numbers: Their match numbers.
        """
        played = [row[0] for row in self._db.execute("SELECT number FROM matches WHERE fixture = ?", (fixture.id,))]
        _, first = np.unique(numbers, return_index=True)
        new = np.sort(first[~np.isin(numbers[first], played)])
        return rows[new], len(played) + new.size == fixture.matches

    def _add(self, matches: Iterable[tuple[Any, ...]], payoffs: Counts) -> None:
        """Add matches to the log, and what they come to to the sums."""
        with self._writing() as database:
            database.executemany("INSERT INTO matches VALUES (?, ?, ?, ?)", matches)
            database.executemany(
                "INSERT INTO payoffs VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (kind, a, b) DO UPDATE SET"
                " wins = wins + excluded.wins, draws = draws + excluded.draws, losses = losses + excluded.losses",
                [(*key, *count.tolist()) for key, count in payoffs.items()],
            )

    def payoffs(self) -> Counts:
        """Return the sums over the log by (kind, a, b), each ``[3] int64`` wins, draws, losses of a."""
        rows = self._db.execute("SELECT kind, a, b, wins, draws, losses FROM payoffs")
        with reading("table payoffs"):
            payoffs = {(kind, a, b): np.array(counts, np.int64) for kind, a, b, *counts in rows}
            if np.min([*payoffs.values()], initial=0) < 0:
                raise ValueError("a payoff is negative")
        return payoffs

    def recompute_payoffs(self) -> Counts:
        """Return the same sums counted from the match log alone.

        Raises:
            StoreError: The log has matches of fixtures that do not exist.
        """
        total: Counts = {}
        teams = [seat.team for seat in self.seats()]
        cursor = self._db.execute("SELECT fixture, outcome FROM matches ORDER BY fixture, number")
        while rows := cursor.fetchmany(_CHUNK):
            with reading(f"table matches, fixtures {rows[0][0]} to {rows[-1][0]},"):
                fixture = np.array([row[0] for row in rows], np.int64)
                outcome = np.frombuffer(b"".join(row[1] for row in rows), np.float32).reshape(len(rows), -1)
            starts = _starts(fixture)
            ids = fixture[starts].tolist()
            known = {record.id: record for record in self._fixtures("id BETWEEN ? AND ?", ids[0], ids[-1])}
            if not known.keys() >= set(ids):
                raise StoreError(f"{self.run_dir}: the log has matches of fixtures that do not exist; restore a copy")
            accumulate(total, tally([known[i] for i in ids], starts, outcome, teams=teams))
        return total

    def matches(self, *, last: int | None = None, kind: str | None = None, first: int = 0) -> Iterator[MatchRecord]:
        """Return the log ordered by fixture and number.

        Args:
            last: Only so many from its end.
            kind: Only ``"train"`` or only ``"eval"`` matches.
            first: Only fixtures from this id on.
        """
        columns = ", ".join(f"f.{column}" for column in FIXTURE_COLUMNS)
        order, limit = ("ASC", "") if last is None else ("DESC", "LIMIT :last")
        # CROSS: fixtures first, in this order, whatever SQLite thinks of their number; else it may read the whole log
        sql = (
            f"SELECT m.number, m.ticks, m.outcome, {columns} FROM fixtures f CROSS JOIN matches m ON m.fixture = f.id"  # noqa: S608
            f" WHERE f.id >= :first AND f.kind = ifnull(:kind, f.kind) ORDER BY f.id {order}, m.number {order} {limit}"
        )
        rows: Iterable[Any] = self._db.execute(sql, {"kind": kind, "last": last, "first": first})
        for number, ticks, outcome, *rest in rows if last is None else reversed(list(rows)):
            fixture = fixture_of(rest)
            with reading(f"match {number} of fixture {fixture.id} in table matches"):
                record = MatchRecord(
                    fixture=fixture,
                    number=number,
                    seed=int(match_seeds(fixture.seed, np.array([number], np.int64))[0]),
                    outcome=tuple(np.frombuffer(outcome, np.float32).tolist()),
                    ticks=int(ticks),
                )
            yield record

    def fixtures(self, *, kind: str | None = None) -> Iterator[FixtureRecord]:
        """Return all fixtures ordered by id, also those of which nothing was played.

        Args:
            kind: Only ``"train"`` or only ``"eval"`` fixtures.
        """
        sql = (
            f"SELECT created_s, (SELECT count(*) FROM matches WHERE fixture = id), {', '.join(FIXTURE_COLUMNS)}"  # noqa: S608 - constants
            " FROM fixtures WHERE :kind IS NULL OR kind = :kind ORDER BY id"
        )
        for created_s, played, *rest in self._db.execute(sql, {"kind": kind}):
            yield FixtureRecord(fixture=fixture_of(rest), created_s=created_s, played=played)

    def num_matches(self, *, kind: str | None = None) -> int:
        """Return the length of the log.

        Args:
            kind: Only ``"train"`` or only ``"eval"`` matches.
        """
        where = "" if kind is None else "WHERE fixture IN (SELECT id FROM fixtures WHERE kind = :kind)"
        return int(self._db.execute(f"SELECT count(*) FROM matches {where}", {"kind": kind}).fetchone()[0])  # noqa: S608

    def commit(self) -> None:
        """Make everything since the last commit durable, all of it or nothing.

        Raises:
            StoreError: The disk refused; everything since the last commit is dropped.
        """
        with self._writing() as database:
            database.execute("COMMIT")

    def rollback(self) -> None:
        """Drop everything since the last commit."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

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
            raise StoreError(
                f"{self.run_dir}: the league could not be written: {error}; nothing that was committed is lost — "
                f"{suggested_fix(error, self.run_dir)}"
            ) from error

    def _write(self, sql: str, *values: Any) -> int:
        """Run one statement and return the id of the row that it inserted last."""
        with self._writing() as database:
            return database.execute(sql, values).lastrowid or 0

    def _fixtures(self, where: str, *values: Any) -> list[Fixture]:
        sql = f"SELECT {', '.join(FIXTURE_COLUMNS)} FROM fixtures WHERE {where} ORDER BY id"  # noqa: S608 - constants
        return [fixture_of(row) for row in self._db.execute(sql, values)]

    def _checked_results(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        if set(arrays) != set(_RESULTS) or any(arrays[name].dtype != dtype for name, dtype in _RESULTS.items()):
            expected = ", ".join(f"{name} {np.dtype(dtype)}" for name, dtype in _RESULTS.items())
            raise WireError(f"results: expected the arrays {expected}")
        fixture, number, ticks, outcome = (arrays[name] for name in _RESULTS)
        teams = 1 + max((seat.team for seat in self.seats()), default=0)
        n = (fixture.size,)
        if not (fixture.shape == number.shape == ticks.shape == n and outcome.shape == (*n, teams)):
            raise WireError(f"results: expected [n] fixtures, numbers, ticks and [n, {teams}] outcomes")
        if not np.all((outcome >= 0) & (outcome <= 1)) or not np.all(ticks > 0):
            raise WireError("results: expected outcomes in [0, 1], after 1 tick or more")
        return fixture, number, ticks, outcome


def _starts(fixture: np.ndarray) -> NDArray[np.int64]:
    """Return ``[G]``: where the runs of equal values begin."""
    return np.flatnonzero(np.diff(fixture, prepend=fixture[:1] - 1))


def tally(
    fixtures: Sequence[Fixture], starts: NDArray[np.int64], outcome: NDArray[np.float32], *, teams: Sequence[int]
) -> Counts:
    """Count who beat whom.

    Args:
        fixtures: G fixtures.
        starts: ``[G] int64``: the first row of each fixture; its rows lie together, in the order of `fixtures`.
        outcome: ``[n, teams] float32``.
        teams: The team of every seat.

    Returns:
        The counts of every ordered pair of different participants who sat in different teams.
    """
    result: Counts = {}
    for fixture, points in zip(fixtures, np.split(outcome, starts[1:]), strict=False):
        sides = sorted(set(zip(teams, fixture.participants, strict=True)))
        for (i, a), (j, b) in itertools.combinations(sides, 2):
            if i != j and a != b:
                lead = points[:, i] - points[:, j]
                count = np.array([np.count_nonzero(test) for test in (lead > 0, lead == 0, lead < 0)], np.int64)
                accumulate(result, {(fixture.kind, a, b): count, (fixture.kind, b, a): count[::-1]})
    return result


def accumulate(total: Counts, more: Counts) -> None:
    """Add counts to sums in place."""
    for key, count in more.items():
        total[key] = total[key] + count if key in total else count
