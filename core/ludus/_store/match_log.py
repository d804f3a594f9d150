"""The match log: an append-only table of finished matches.

A match is one fixture and one number. Its fixture fixes the participants, seed, scenario and reason before it starts
(`ludus._seeding.match_seeds` derives the seed); the log adds the outcome and the length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ludus._seeding import match_seeds
from ludus._store.fixture_table import FixtureTable
from ludus._store.payoff_table import Counts, PayoffTable, count_payoffs, run_starts
from ludus._store.records import FIXTURE_COLUMNS, fixture_of, reading
from ludus._store.transaction import Database, add_to_counter, read_seats
from ludus.errors import WireError
from ludus.records import Fixture, MatchRecord

_DTYPES = {"fixture": np.int64, "number": np.int64, "ticks": np.int32, "outcome": np.float32}


@frozen(kw_only=True)
class FixtureSummary:
    """New matches of one fixture in one report.

    Attributes:
        fixture: The fixture.
        outcome: Points per team summed over the new matches (1 win, ½ draw, 0 loss each).
        matches: Number of new matches.
        ticks: Their ticks in total.
        finished: Whether these were the last matches of the fixture.
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
        payoffs: Counts of the new matches.
    """

    fixtures: tuple[FixtureSummary, ...]
    payoffs: Counts


@frozen
class _Report:
    """Checked arrays of a report: ``[n]`` fixture ids, match numbers and ticks, ``[n, teams]`` outcomes."""

    fixture: NDArray[np.int64]
    number: NDArray[np.int64]
    ticks: NDArray[np.int32]
    outcome: NDArray[np.float32]


@frozen
class _NewMatches:
    """Rows of a report about matches of one fixture that are not in the log, ascending."""

    fixture: Fixture
    rows: NDArray[np.int64]
    finished: bool

    def summarize(self, report: _Report) -> FixtureSummary:
        return FixtureSummary(
            fixture=self.fixture,
            outcome=tuple(report.outcome[self.rows].sum(axis=0, dtype=np.float64).tolist()),
            matches=self.rows.size,
            ticks=int(report.ticks[self.rows].sum()),
            finished=self.finished,
        )


class MatchLog:
    """Reads the log and adds results to it."""

    def __init__(self, database: Database, fixtures: FixtureTable, payoffs: PayoffTable) -> None:
        self._db = database
        self._fixtures = fixtures
        self._payoffs = payoffs

    def add_results(self, arrays: Mapping[str, np.ndarray]) -> RecordedResults:
        """Add finished matches to the log and to the payoffs; matches that are in the log stay as they are.

        Rows of unknown matches and repeated rows are counted in the counters ``results_refused`` and
        ``results_duplicate``.

        Args:
            arrays: ``fixture [n] int64``, ``number [n] int64``, ``ticks [n] int32``, ``outcome [n, teams] float32``.

        Raises:
            WireError: The arrays have other shapes or dtypes, or outcomes outside [0, 1].
        """
        teams = [seat.team for seat in read_seats(self._db)]
        report = _check_report(arrays, num_teams=1 + max(teams, default=0))
        known, num_refused = self._known_rows(report)
        new = [
            found for found in (self._new_matches(f, rows, report.number[rows]) for f, rows in known) if found.rows.size
        ]
        rows = np.concatenate([np.zeros(0, np.int64), *(matches.rows for matches in new)])
        payoffs = count_payoffs(
            [matches.fixture for matches in new], run_starts(report.fixture[rows]), report.outcome[rows], teams=teams
        )
        self._insert(report, rows)
        self._payoffs.add(payoffs)
        for matches in new:
            if matches.finished:
                self._fixtures.close(matches.fixture.id)
        self._count_dropped(duplicate=len(report.fixture) - len(rows) - num_refused, refused=num_refused)
        return RecordedResults(tuple(matches.summarize(report) for matches in new), payoffs)

    def _known_rows(self, report: _Report) -> tuple[list[tuple[Fixture, NDArray[np.int64]]], int]:
        """Return the rows about possible matches by fixture, and the number of other rows."""
        known, num_refused = [], 0
        for number in np.unique(report.fixture).tolist():
            rows = np.flatnonzero(report.fixture == number)
            fixture = self._fixtures.get(number, number).get(number)
            num_matches = 0 if fixture is None else fixture.matches
            inside = rows[(report.number[rows] >= 0) & (report.number[rows] < num_matches)]
            num_refused += rows.size - inside.size
            if fixture is not None and inside.size:
                known.append((fixture, inside))
        return known, num_refused

    def _new_matches(self, fixture: Fixture, rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> _NewMatches:
        """Return the first row of every match that is not in the log.

        Args:
            fixture: The fixture of the rows.
            rows: ``[n] int64``, ascending.
            numbers: ``[n] int64``: their match numbers.
        """
        played = [row[0] for row in self._db.execute("SELECT number FROM matches WHERE fixture = ?", (fixture.id,))]
        _, first = np.unique(numbers, return_index=True)
        new = np.sort(first[~np.isin(numbers[first], played)])
        return _NewMatches(fixture, rows[new], finished=len(played) + new.size == fixture.matches)

    def _insert(self, report: _Report, rows: NDArray[np.int64]) -> None:
        columns = (report.fixture[rows].tolist(), report.number[rows].tolist(), report.ticks[rows].tolist())
        outcomes = (points.tobytes() for points in report.outcome[rows])
        self._db.write_many("INSERT INTO matches VALUES (?, ?, ?, ?)", zip(*columns, outcomes, strict=True))

    def _count_dropped(self, *, duplicate: int, refused: int) -> None:
        for name, count in (("results_duplicate", duplicate), ("results_refused", refused)):
            if count:
                add_to_counter(self._db, name, count)

    def records(self, *, last: int | None = None, kind: str | None = None, first: int = 0) -> Iterator[MatchRecord]:
        """Return the log ordered by fixture and number.

        Args:
            last: Only this many matches from the end.
            kind: Only ``"train"`` or only ``"eval"`` matches.
            first: Only fixtures from this id on.
        """
        columns = ", ".join(f"f.{column}" for column in FIXTURE_COLUMNS)
        order, limit = ("ASC", "") if last is None else ("DESC", "LIMIT :last")
        # CROSS JOIN fixes the order of the loops: otherwise SQLite may read the whole log for a few fixtures.
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

    def count(self, *, kind: str | None = None) -> int:
        """Return the length of the log.

        Args:
            kind: Only ``"train"`` or only ``"eval"`` matches.
        """
        where = "" if kind is None else "WHERE fixture IN (SELECT id FROM fixtures WHERE kind = :kind)"
        return int(self._db.execute(f"SELECT count(*) FROM matches {where}", {"kind": kind}).fetchone()[0])  # noqa: S608


def _check_report(arrays: Mapping[str, np.ndarray], *, num_teams: int) -> _Report:
    if set(arrays) != set(_DTYPES) or any(arrays[name].dtype != dtype for name, dtype in _DTYPES.items()):
        expected = ", ".join(f"{name} {np.dtype(dtype)}" for name, dtype in _DTYPES.items())
        raise WireError(f"results: expected the arrays {expected}")
    report = _Report(**arrays)
    n = report.fixture.size
    shapes = (report.fixture.shape, report.number.shape, report.ticks.shape, report.outcome.shape)
    if shapes != ((n,), (n,), (n,), (n, num_teams)):
        raise WireError(f"results: expected [n] fixtures, numbers, ticks and [n, {num_teams}] outcomes")
    if not np.all((report.outcome >= 0) & (report.outcome <= 1)) or not np.all(report.ticks > 0):
        raise WireError("results: expected outcomes in [0, 1], after 1 tick or more")
    return report
