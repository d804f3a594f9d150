"""The match log: an append-only table of finished matches.

A match is one fixture and one number. Its fixture fixes the participants, seed, scenario and reason before it starts
(`ludus._seeding.match_seeds` derives the seed); the log adds the outcome and the length. One row holds many matches,
see `ludus._store.match_arrays`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ludus._seeding import match_seeds
from ludus._store.behaviour import BehaviourTable, Sums, add_sums, sum_statistics
from ludus._store.database import Database, reading
from ludus._store.match_arrays import NUMBERS_PER_ROW, MatchArrays, PackedMatches, pack, unpack
from ludus._store.payoffs import Counts, PayoffTable, accumulate, count_payoffs, counted_pairs
from ludus._store.tables import FIXTURE_COLUMNS, FixtureTable, fixture_of
from ludus.environment import Seat
from ludus.errors import WireError
from ludus.option import name as name_check
from ludus.records import Fixture, MatchRecord

_STATISTIC = "statistic/"
_SELECT_ROW = "SELECT played, numbers, outcomes, ticks, statistics FROM matches WHERE fixture = ? AND first = ?"
_PUT_ROW = (
    "INSERT INTO matches VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (fixture, first) DO UPDATE SET"
    " played = excluded.played, numbers = excluded.numbers, outcomes = excluded.outcomes, ticks = excluded.ticks,"
    " statistics = excluded.statistics"
)
_ADD_TOTAL = "INSERT INTO totals VALUES (?, ?) ON CONFLICT (kind) DO UPDATE SET matches = matches + excluded.matches"
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
        report = _matches_by_fixture(arrays, seats)
        summaries: list[FixtureSummary] = []
        payoffs: Counts = {}
        behaviour: Sums = {}
        played: dict[str, int] = {}
        num_refused = 0
        fixtures = self._fixtures.get([number for number, _ in report])
        for number, matches in report:
            fixture = fixtures.get(number)
            known = matches.below(0 if fixture is None else fixture.matches)
            num_refused += len(matches) - len(known)
            if fixture is None or not len(known):
                continue
            new, summary = self._add_new(fixture, known)
            if summary.matches:
                summaries.append(summary)
                played[fixture.kind] = played.get(fixture.kind, 0) + summary.matches
                pairs = counted_pairs(fixture.participants, seats)
                accumulate(payoffs, count_payoffs(fixture.kind, pairs, number=new.number, outcome=new.outcome))
                add_sums(behaviour, sum_statistics(fixture, new.statistics, seats=seats))
        self._payoffs.add(payoffs)
        self._behaviour.add(behaviour)
        self._db.write_many(_ADD_TOTAL, played.items())
        self._count(
            "results_duplicate", sum(len(matches) for _, matches in report) - sum(played.values()) - num_refused
        )
        self._count("results_refused", num_refused)
        return RecordedResults(tuple(summaries), payoffs, behaviour)

    def _count(self, name: str, count: int) -> None:
        if count:
            self._db.add_counter(name, count)

    def _add_new(self, fixture: Fixture, matches: MatchArrays) -> tuple[MatchArrays, FixtureSummary]:
        """Log the matches of a fixture that are not in the log, the first of each number; return these.

        Args:
            fixture: The fixture.
            matches: Matches with ascending numbers of the fixture, some perhaps repeated.
        """
        if fixture.kind != "eval":
            matches = attrs.evolve(matches, statistics={})
        new = MatchArrays.join([self._add_to_row(fixture, row) for row in _split_rows(matches)])
        (played,) = self._db.execute("SELECT sum(played) FROM matches WHERE fixture = ?", (fixture.id,)).fetchone()
        finished = len(new) > 0 and played == fixture.matches
        if finished:
            self._fixtures.close(fixture.id)
        summary = FixtureSummary(
            fixture=fixture,
            outcome=tuple(new.outcome.sum(axis=0, dtype=np.float64).tolist()),
            matches=len(new),
            ticks=int(new.ticks.sum()),
            finished=finished,
        )
        return new, summary

    def _add_to_row(self, fixture: Fixture, matches: MatchArrays) -> MatchArrays:
        """Add the matches that are not in the log, and return these.

        Args:
            fixture: The fixture.
            matches: Matches of one row with ascending numbers, some perhaps repeated.
        """
        first = int(matches.number[0]) // NUMBERS_PER_ROW * NUMBERS_PER_ROW
        is_new = np.ones(len(matches), np.bool_)
        is_new[1:] = matches.number[1:] > matches.number[:-1]
        stored = self._db.execute(_SELECT_ROW, (fixture.id, first)).fetchone()
        logged = None
        if stored is not None:
            with reading(f"matches of fixture {fixture.id} from number {first} in table matches"):
                logged = unpack(PackedMatches(*stored), first=first, num_teams=matches.outcome.shape[1])
            is_played = np.zeros(NUMBERS_PER_ROW, np.bool_)
            is_played[logged.number - first] = True
            is_new &= ~is_played[matches.number - first]
        new = matches.take(is_new)
        if len(new):
            packed = pack(new if logged is None else logged.merge(new), first=first)
            self._db.write(_PUT_ROW, fixture.id, first, *packed)
        return new

    def of_fixture(self, fixture_id: int) -> Iterator[MatchRecord]:
        """Return the matches of one fixture, ordered by number."""
        for row in self._rows(kind=None, first=fixture_id, last=fixture_id, order="ASC"):
            yield from self._records_of(row)

    def records(self, *, last: int | None = None, kind: str | None = None, first: int = 0) -> Iterator[MatchRecord]:
        """Return the log ordered by fixture and number.

        Args:
            last: Only this many matches from the end.
            kind: Only ``"train"`` or only ``"eval"`` matches.
            first: Only fixtures from this id on.
        """
        if last is None:
            for row in self._rows(kind=kind, first=first, order="ASC"):
                yield from self._records_of(row)
            return
        rows: list[tuple[Any, ...]] = []
        found = 0
        for row in self._rows(kind=kind, first=first, order="DESC"):
            if found >= last:
                break
            rows.append(row)
            found += row[1]
        records = (record for row in reversed(rows) for record in self._records_of(row))
        yield from itertools.islice(records, max(found - last, 0), None)

    def _rows(self, *, kind: str | None, first: int, order: str, last: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Return rows of the first number of a range, the columns of `PackedMatches`, and those of the fixture."""
        columns = ", ".join(f"f.{column}" for column in FIXTURE_COLUMNS)
        # CROSS JOIN fixes the order of the loops: otherwise SQLite may read the whole log for a few fixtures.
        sql = (
            f"SELECT first, played, numbers, outcomes, ticks, statistics, {columns}"  # noqa: S608 - constants
            " FROM fixtures f CROSS JOIN matches m ON m.fixture = f.id"
            f" WHERE f.id >= :first AND f.id <= ifnull(:last, f.id) AND f.kind = ifnull(:kind, f.kind)"
            f" ORDER BY f.id {order}, m.first {order}"
        )
        return iter(self._db.execute(sql, {"kind": kind, "first": first, "last": last}))

    def _records_of(self, row: tuple[Any, ...]) -> Iterator[MatchRecord]:
        """Return the matches of one of `_rows`."""
        first, packed, fixture = row[0], PackedMatches(*row[1:6]), fixture_of(row[6:])
        with reading(f"matches of fixture {fixture.id} from number {first} in table matches"):
            num_teams = 1 + max((seat.team for seat in self._db.seats()), default=0)
            matches = unpack(packed, first=first, num_teams=num_teams)
            seeds = match_seeds(fixture.seed, matches.number).tolist()
            numbers, outcomes, ticks = (array.tolist() for array in (matches.number, matches.outcome, matches.ticks))
            statistics = {name: values.tolist() for name, values in matches.statistics.items()}
        for i, number in enumerate(numbers):
            own = {name: tuple(values[i]) for name, values in statistics.items() if not math.isnan(values[i][0])}
            yield MatchRecord(
                fixture=fixture,
                number=number,
                seed=seeds[i],
                outcome=tuple(outcomes[i]),
                ticks=ticks[i],
                statistics=own,
            )

    def count(self, *, kind: str | None = None) -> int:
        """Return the length of the log.

        Args:
            kind: Only ``"train"`` or only ``"eval"`` matches.
        """
        totals = self.totals()
        return sum(totals.values()) if kind is None else totals.get(kind, 0)

    def totals(self) -> dict[str, int]:
        """Return the number of matches by kind.

        Raises:
            sqlite3.DatabaseError: The table is malformed.
        """
        with reading("table totals"):
            return {kind: int(matches) for kind, matches in self._db.execute("SELECT kind, matches FROM totals")}


def _split_rows(matches: MatchArrays) -> list[MatchArrays]:
    """Return the matches of each row of the log; the numbers must ascend."""
    row = matches.number // NUMBERS_PER_ROW
    if row[0] == row[-1]:
        return [matches]
    starts = [0, *(1 + np.flatnonzero(np.diff(row))).tolist(), len(row)]
    return [matches.take(slice(*span)) for span in itertools.pairwise(starts)]


def _matches_by_fixture(arrays: Mapping[str, np.ndarray], seats: Sequence[Seat]) -> list[tuple[int, MatchArrays]]:
    """Return the matches of a report by fixture id, ordered by number.

    Raises:
        WireError: As `MatchLog.add_results`.
    """
    statistics = {name.removeprefix(_STATISTIC): array for name, array in arrays.items() if name.startswith(_STATISTIC)}
    plain = {name: array for name, array in arrays.items() if not name.startswith(_STATISTIC)}
    if {name: array.dtype for name, array in plain.items()} != _DTYPES:
        expected = ", ".join(f"{name} {dtype}" for name, dtype in _DTYPES.items())
        raise WireError(f"results: expected the arrays {expected}")
    fixture, matches = plain.pop("fixture"), MatchArrays(**plain, statistics=statistics)
    _check_matches(fixture, matches, seats)
    order = np.lexsort((matches.number, fixture))  # stable: the first of several rows about one match stays the first
    ids, starts = np.unique(fixture[order], return_index=True)
    ordered, bounds = matches.take(order), itertools.pairwise([*starts.tolist(), fixture.size])
    return [(i, ordered.take(slice(*span))) for i, span in zip(ids.tolist(), bounds, strict=True)]


def _check_matches(fixture: NDArray[np.int64], matches: MatchArrays, seats: Sequence[Seat]) -> None:
    n, num_teams = fixture.size, 1 + max((seat.team for seat in seats), default=0)
    shapes = (fixture.shape, matches.number.shape, matches.ticks.shape, matches.outcome.shape)
    if shapes != ((n,), (n,), (n,), (n, num_teams)):
        raise WireError(f"results: expected [n] fixtures, numbers, ticks and [n, {num_teams}] outcomes")
    if not np.all((matches.outcome >= 0) & (matches.outcome <= 1)) or not np.all(matches.ticks > 0):
        raise WireError("results: expected outcomes in [0, 1], after 1 tick or more")
    for name, values in matches.statistics.items():
        _check_statistic(name, values, matches=n, roles=[seat.role for seat in seats])


def _check_statistic(name: str, values: np.ndarray, *, matches: int, roles: Sequence[str]) -> None:
    role, _, short = name.partition("/")
    shape = (matches, roles.count(role))
    is_known = role in roles and name_check().accepts(short)
    if not is_known or values.shape != shape or values.dtype != np.float32 or not np.isfinite(values).all():
        raise WireError(f"results: statistic {name[:140]!r}: expected finite float32 {[*shape]} of a role's seats")
