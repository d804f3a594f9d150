"""The match log: an append-only table of finished matches; and the table of payoffs, its sums.

A match is one fixture and one number. Its fixture fixes the participants, seed, scenario and reason before it starts
(`ludus._seeding.match_seeds` derives the seed); the log adds the outcome and the length.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ludus._seeding import match_seeds
from ludus._store.behaviour import BehaviourTable, Sums, add_sums, sum_statistics
from ludus._store.database import Database, reading
from ludus._store.tables import FIXTURE_COLUMNS, FixtureTable, fixture_of
from ludus.environment import Seat
from ludus.errors import StoreError, WireError
from ludus.matchmaker import rated_names
from ludus.option import name as name_check
from ludus.records import Fixture, MatchRecord

_CHUNK = 50_000  # matches read at once when the whole log is counted

#: (kind, a, b) → ``[3] int64``: wins, draws and losses of a against b in matches of that kind.
Counts: TypeAlias = dict[tuple[str, str, str], NDArray[np.int64]]


class PayoffTable:
    """Reads and updates payoffs, and recomputes them from the match log."""

    def __init__(self, database: Database, fixtures: FixtureTable) -> None:
        self._db = database
        self._fixtures = fixtures

    def add(self, counts: Counts) -> None:
        """Add the counts of new matches."""
        self._db.write_many(
            "INSERT INTO payoffs VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (kind, a, b) DO UPDATE SET"
            " wins = wins + excluded.wins, draws = draws + excluded.draws, losses = losses + excluded.losses",
            [(*key, *count.tolist()) for key, count in counts.items()],
        )

    def totals(self) -> Counts:
        """Return the payoffs of the whole log.

        Raises:
            sqlite3.DatabaseError: The table is malformed.
        """
        rows = self._db.execute("SELECT kind, a, b, wins, draws, losses FROM payoffs")
        with reading("table payoffs"):
            totals = {(kind, a, b): np.array(counts, np.int64) for kind, a, b, *counts in rows}
            if np.min([*totals.values()], initial=0) < 0:
                raise ValueError("a count is negative")
        return totals

    def recompute(self) -> Counts:
        """Return the payoffs counted from the match log alone.

        Raises:
            StoreError: The log has matches of fixtures that do not exist.
        """
        totals: Counts = {}
        seats = self._db.seats()
        cursor = self._db.execute("SELECT fixture, number, outcome FROM matches ORDER BY fixture, number")
        while rows := cursor.fetchmany(_CHUNK):
            with reading(f"table matches, fixtures {rows[0][0]} to {rows[-1][0]},"):
                fixture, number = np.array([row[:2] for row in rows], np.int64).T
                outcome = np.frombuffer(b"".join(row[2] for row in rows), np.float32).reshape(len(rows), -1)
            starts = run_starts(fixture)
            ids = fixture[starts].tolist()
            known = self._fixtures.get(ids[0], ids[-1])
            if not known.keys() >= set(ids):
                raise StoreError(
                    f"{self._db.run_dir}: the log has matches of fixtures that do not exist; restore a copy of the run"
                )
            accumulate(totals, count_payoffs([known[i] for i in ids], starts, number, outcome, seats=seats))
        return totals


def run_starts(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``[G]``: the indices at which runs of equal values begin."""
    return np.flatnonzero(np.diff(values, prepend=values[:1] - 1))


def count_payoffs(
    fixtures: Sequence[Fixture],
    starts: NDArray[np.int64],
    number: NDArray[np.int64],
    outcome: NDArray[np.float32],
    *,
    seats: Sequence[Seat],
) -> Counts:
    """Count wins, draws and losses of every ordered pair of different participants of different teams.

    Participants are counted under the names of `ludus.matchmaker.rated_names`.

    Each match counts once per pair of participants. If they fill several teams, the result is that of one pair of their
    teams, which changes with the match number: results of several pairs of one match would not be independent.

    Args:
        fixtures: G fixtures.
        starts: ``[G] int64``: the first row of each fixture; the rows are sorted as `fixtures` are.
        number: ``[n] int64``: the number of each match within its fixture.
        outcome: ``[n, teams] float32``.
        seats: The seats of a match.
    """
    counts: Counts = {}
    teams = [seat.team for seat in seats]
    for fixture, points, numbers in zip(
        fixtures, np.split(outcome, starts[1:]), np.split(number, starts[1:]), strict=False
    ):
        sides: dict[str, list[int]] = {}
        for participant, team in sorted(set(zip(rated_names(fixture.participants, seats), teams, strict=True))):
            sides.setdefault(participant, []).append(team)
        for (a, own), (b, other) in itertools.combinations(sides.items(), 2):
            pairs = np.array([(i, j) for i in own for j in other if i != j], np.int64)
            if len(pairs):
                i, j = pairs[numbers % len(pairs)].T
                rows = np.arange(len(points))
                lead = points[rows, i] - points[rows, j]
                count = np.array([np.count_nonzero(test) for test in (lead > 0, lead == 0, lead < 0)], np.int64)
                accumulate(counts, {(fixture.kind, a, b): count, (fixture.kind, b, a): count[::-1]})
    return counts


def accumulate(totals: Counts, counts: Counts) -> None:
    """Add counts to totals in place."""
    for key, count in counts.items():
        totals[key] = totals[key] + count if key in totals else count


_STATISTIC = "statistic/"
_DTYPES = {
    "fixture": np.dtype(np.int64),
    "number": np.dtype(np.int64),
    "ticks": np.dtype(np.int32),
    "outcome": np.dtype(np.float32),
}


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
        behaviour: Sums of their statistics.
    """

    fixtures: tuple[FixtureSummary, ...]
    payoffs: Counts
    behaviour: Sums


@frozen
class _Report:
    """Checked arrays of a report.

    Attributes:
        fixture: ``[n]`` fixture ids.
        number: ``[n]`` match numbers.
        ticks: ``[n]``.
        outcome: ``[n, teams]``.
        statistics: ``[n, S]`` by ``"ROLE/NAME"``.
    """

    fixture: NDArray[np.int64]
    number: NDArray[np.int64]
    ticks: NDArray[np.int32]
    outcome: NDArray[np.float32]
    statistics: Mapping[str, NDArray[np.float32]]


class MatchLog:
    """Reads the log and adds results to it."""

    def __init__(
        self, database: Database, *, fixtures: FixtureTable, payoffs: PayoffTable, behaviour: BehaviourTable
    ) -> None:
        self._db = database
        self._fixtures = fixtures
        self._payoffs = payoffs
        self._behaviour = behaviour

    def add_results(self, arrays: Mapping[str, np.ndarray]) -> RecordedResults:
        """Add finished matches to the log, payoffs and behaviour; matches that are in the log stay as they are.

        Rows of unknown matches and repeated rows are counted in the counters ``results_refused`` and
        ``results_duplicate``.

        Args:
            arrays: As in `ludus._messaging.messages.Results`. Statistics of training matches are not logged.

        Raises:
            WireError: The arrays have other shapes or dtypes, or outcomes outside [0, 1].
        """
        seats = self._db.seats()
        report = _check_report(arrays, seats)
        new, num_refused = self._find_new(report)
        summaries = tuple(summary for summary, _ in new if summary.matches)
        rows = np.concatenate([np.zeros(0, np.int64), *(rows for _, rows in new)])
        starts = run_starts(report.fixture[rows])
        fixtures = [summary.fixture for summary in summaries]
        payoffs = count_payoffs(fixtures, starts, report.number[rows], report.outcome[rows], seats=seats)
        behaviour: Sums = {}
        texts: list[str] = []
        for fixture, own in zip(fixtures, np.split(rows, starts[1:]), strict=False):
            logged = report.statistics if fixture.kind == "eval" else {}
            statistics = {name: values[own] for name, values in logged.items()}
            add_sums(behaviour, sum_statistics(fixture, statistics, seats=seats))
            texts += _to_json(statistics, len(own))
        self._insert(report, rows, texts)
        self._payoffs.add(payoffs)
        self._behaviour.add(behaviour)
        for fixture_id in [summary.fixture.id for summary in summaries if summary.finished]:
            self._fixtures.close(fixture_id)
        self._count("results_duplicate", len(report.fixture) - len(rows) - num_refused)
        self._count("results_refused", num_refused)
        return RecordedResults(summaries, payoffs, behaviour)

    def _count(self, name: str, count: int) -> None:
        if count:
            self._db.add_counter(name, count)

    def _find_new(self, report: _Report) -> tuple[list[tuple[FixtureSummary, NDArray[np.int64]]], int]:
        """Return the result of `_new_matches` for each known fixture, and the number of rows of unknown matches."""
        new, num_refused = [], 0
        for number in np.unique(report.fixture).tolist():
            rows = np.flatnonzero(report.fixture == number)
            fixture = self._fixtures.get(number, number).get(number)
            num_matches = 0 if fixture is None else fixture.matches
            possible = rows[(report.number[rows] >= 0) & (report.number[rows] < num_matches)]
            num_refused += rows.size - possible.size
            if fixture is not None:
                new.append(self._new_matches(fixture, report, possible))
        return new, num_refused

    def _new_matches(
        self, fixture: Fixture, report: _Report, rows: NDArray[np.int64]
    ) -> tuple[FixtureSummary, NDArray[np.int64]]:
        """Return a summary of the matches of a fixture that are not in the log, and the first row of each.

        Args:
            fixture: The fixture.
            report: The report.
            rows: ``[n] int64``, ascending: the rows about matches of the fixture.
        """
        played = [row[0] for row in self._db.execute("SELECT number FROM matches WHERE fixture = ?", (fixture.id,))]
        numbers, first = np.unique(report.number[rows], return_index=True)
        new = rows[np.sort(first[~np.isin(numbers, played)])]
        summary = FixtureSummary(
            fixture=fixture,
            outcome=tuple(report.outcome[new].sum(axis=0, dtype=np.float64).tolist()),
            matches=new.size,
            ticks=int(report.ticks[new].sum()),
            finished=len(played) + new.size == fixture.matches,
        )
        return summary, new

    def _insert(self, report: _Report, rows: NDArray[np.int64], statistics: list[str]) -> None:
        columns = (report.fixture[rows].tolist(), report.number[rows].tolist(), report.ticks[rows].tolist())
        outcomes = [points.tobytes() for points in report.outcome[rows]]
        self._db.write_many(
            "INSERT INTO matches VALUES (?, ?, ?, ?, ?)", zip(*columns, outcomes, statistics, strict=True)
        )

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
            f"SELECT m.number, m.ticks, m.outcome, m.statistics, {columns}"  # noqa: S608
            " FROM fixtures f CROSS JOIN matches m ON m.fixture = f.id"
            f" WHERE f.id >= :first AND f.kind = ifnull(:kind, f.kind) ORDER BY f.id {order}, m.number {order} {limit}"
        )
        rows: Iterable[Any] = self._db.execute(sql, {"kind": kind, "last": last, "first": first})
        for number, ticks, outcome, statistics, *rest in rows if last is None else reversed(list(rows)):
            fixture = fixture_of(rest)
            with reading(f"match {number} of fixture {fixture.id} in table matches"):
                record = MatchRecord(
                    fixture=fixture,
                    number=number,
                    seed=int(match_seeds(fixture.seed, np.array([number], np.int64))[0]),
                    outcome=tuple(np.frombuffer(outcome, np.float32).tolist()),
                    ticks=int(ticks),
                    statistics={name: tuple(map(float, values)) for name, values in json.loads(statistics).items()},
                )
            yield record

    def count(self, *, kind: str | None = None) -> int:
        """Return the length of the log.

        Args:
            kind: Only ``"train"`` or only ``"eval"`` matches.
        """
        where = "" if kind is None else "WHERE fixture IN (SELECT id FROM fixtures WHERE kind = :kind)"
        return int(self._db.execute(f"SELECT count(*) FROM matches {where}", {"kind": kind}).fetchone()[0])  # noqa: S608


def _check_report(arrays: Mapping[str, np.ndarray], seats: Sequence[Seat]) -> _Report:
    statistics = {name.removeprefix(_STATISTIC): array for name, array in arrays.items() if name.startswith(_STATISTIC)}
    plain = {name: array for name, array in arrays.items() if not name.startswith(_STATISTIC)}
    if {name: array.dtype for name, array in plain.items()} != _DTYPES:
        expected = ", ".join(f"{name} {dtype}" for name, dtype in _DTYPES.items())
        raise WireError(f"results: expected the arrays {expected}")
    report = _Report(**plain, statistics=statistics)
    n, num_teams = report.fixture.size, 1 + max((seat.team for seat in seats), default=0)
    shapes = (report.fixture.shape, report.number.shape, report.ticks.shape, report.outcome.shape)
    if shapes != ((n,), (n,), (n,), (n, num_teams)):
        raise WireError(f"results: expected [n] fixtures, numbers, ticks and [n, {num_teams}] outcomes")
    if not np.all((report.outcome >= 0) & (report.outcome <= 1)) or not np.all(report.ticks > 0):
        raise WireError("results: expected outcomes in [0, 1], after 1 tick or more")
    for name, values in statistics.items():
        _check_statistic(name, values, matches=n, roles=[seat.role for seat in seats])
    return report


def _check_statistic(name: str, values: np.ndarray, *, matches: int, roles: Sequence[str]) -> None:
    role, _, short = name.partition("/")
    shape = (matches, roles.count(role))
    is_known = role in roles and name_check().accepts(short)
    if not is_known or values.shape != shape or values.dtype != np.float32 or not np.isfinite(values).all():
        raise WireError(f"results: statistic {name[:140]!r}: expected finite float32 {[*shape]} of a role's seats")


def _to_json(statistics: Mapping[str, np.ndarray], count: int) -> list[str]:
    """Return the statistics of each of `count` matches as a JSON object."""
    if not statistics:
        return ["{}"] * count
    values = {name: array.tolist() for name, array in statistics.items()}
    return [json.dumps({name: lists[i] for name, lists in values.items()}) for i in range(count)]
