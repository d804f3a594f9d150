"""Reading the whole match log: its checksums, its rows, and the sums that follow from it."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from attrs import define, field

from ludus._store.behaviour import Sums as BehaviourSums, add_sums, sum_statistics
from ludus._store.checksums import FIXTURES_PER_PART, Sums, sum_rows
from ludus._store.database import Database, reading
from ludus._store.match_arrays import PackedMatches, unpack_bits, unpack_numbers, unpack_statistics, unpack_ticks
from ludus._store.payoffs import Counts, accumulate, count_payoffs, counted_pairs
from ludus._store.tables import FIXTURE_COLUMNS, fixture_of

_KIND, _SEATS, _MATCHES = (FIXTURE_COLUMNS.index(name) for name in ("kind", "seats", "matches"))
_MAX_ID = 2**63 - 1
_NO_END = 2**63

_Row: TypeAlias = tuple[Any, ...]
#: (first number, packed matches) of rows with one kind, one lineup, one number of matches, and one list of outcomes.
_Group: TypeAlias = list[tuple[int, PackedMatches]]


@define
class LogTotals:
    """What a log adds up to.

    Attributes:
        payoffs: As in `ludus._store.payoffs.PayoffTable`.
        behaviour: As in `ludus._store.behaviour.BehaviourTable`.
        matches: Number of matches by kind.
    """

    payoffs: Counts = field(factory=dict)
    behaviour: BehaviourSums = field(factory=dict)
    matches: dict[str, int] = field(factory=dict)

    def copy(self) -> LogTotals:
        """Return a copy that is updated separately."""
        return LogTotals(dict(self.payoffs), dict(self.behaviour), dict(self.matches))


class LogScan:
    """Reads the match log once, one part of `FIXTURES_PER_PART` fixtures after the other.

    Args:
        database: The database.
        totals: Totals of the parts that are skipped; updated in place.

    Attributes:
        totals: The totals of all parts read so far.
        sums: Checksums of the parts read so far.
    """

    def __init__(self, database: Database, totals: LogTotals | None = None) -> None:
        self.totals = totals or LogTotals()
        self.sums: Sums = {}
        self._db = database
        self._seats = database.seats()
        self._num_teams = 1 + max((seat.team for seat in self._seats), default=0)

    def parts(self, first: int = 0, end: int = _NO_END) -> Iterator[int]:
        """Yield the indices of the parts that have rows, from `first` to before `end`; 0 includes negative ones."""
        sql = "SELECT min(i) FROM (SELECT min(id) i FROM fixtures WHERE id >= :start UNION ALL"
        sql += " SELECT min(fixture) FROM matches WHERE fixture >= :start)"
        start = first * FIXTURES_PER_PART if first else -_MAX_ID
        while start <= _MAX_ID:
            (found,) = self._db.execute(sql, {"start": start}).fetchone()
            if found is None or found // FIXTURES_PER_PART >= end:
                return
            yield found // FIXTURES_PER_PART
            start = (found // FIXTURES_PER_PART + 1) * FIXTURES_PER_PART

    def read(self, part: int) -> Iterator[str]:
        """Add a part to totals and checksums; yield one line for every malformed row."""
        first = part * FIXTURES_PER_PART
        span = (first, first + FIXTURES_PER_PART - 1)
        try:
            fixtures = self._db.execute("SELECT * FROM fixtures WHERE id BETWEEN ? AND ?", span).fetchall()
            matches = self._db.execute("SELECT * FROM matches WHERE fixture BETWEEN ? AND ?", span).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            yield f"tables fixtures and matches, fixtures {span[0]} to {span[1]}: {error}"
            return
        self.sums["fixtures", part] = sum_rows(fixtures)
        self.sums["matches", part] = sum_rows(matches)
        groups: defaultdict[_Row, _Group] = defaultdict(list)
        by_id = {row[0]: row for row in fixtures}
        for row in matches:
            try:
                with reading(f"matches of fixture {row[0]} from number {row[1]} in table matches"):
                    yield from self._add_row(by_id, row, groups)
            except sqlite3.DatabaseError as error:
                yield str(error)
        for (kind, seats, *_), group in groups.items():
            try:
                with reading(f"matches of fixtures {span[0]} to {span[1]} in table matches"):
                    self._count(kind, seats, group)
            except sqlite3.DatabaseError as error:
                yield str(error)

    def _add_row(self, fixtures: dict[int, _Row], row: _Row, groups: dict[_Row, _Group]) -> Iterator[str]:
        """Add the row to its group and to the behaviour."""
        fixture, first, packed = fixtures.get(row[0]), row[1], PackedMatches(*row[2:])
        if fixture is None:
            yield f"fixture {row[0]}: the log has matches of fixtures that do not exist"
            return
        last = first + (int(unpack_numbers(packed)[-1]) if packed.numbers else packed.played - 1)
        if not 0 <= first <= last < fixture[_MATCHES]:
            yield f"fixture {row[0]}: match {last} is beyond its number of matches, {fixture[_MATCHES]}"
        if len(packed.ticks) != 5 + -(-packed.ticks[4] * packed.played // 8):
            unpack_ticks(packed)
        end = 1 + 4 * self._num_teams * (1 + packed.outcomes[0])
        key = (fixture[_KIND], fixture[_SEATS], packed.played, packed.outcomes[:end])
        groups[key].append((first, packed))
        self.totals.matches[key[0]] = self.totals.matches.get(key[0], 0) + packed.played
        if packed.statistics:
            statistics = {name: v[~np.isnan(v).any(axis=1)] for name, v in unpack_statistics(packed).items()}
            of = fixture_of(fixture[: len(FIXTURE_COLUMNS)])
            add_sums(self.totals.behaviour, sum_statistics(of, statistics, seats=self._seats))

    def _count(self, kind: str, seats: str, group: Sequence[tuple[int, PackedMatches]]) -> None:
        """Add the matches of a group to the payoffs."""
        outcomes = group[0][1].outcomes
        count = 1 + outcomes[0]
        end = 1 + 4 * self._num_teams * count
        distinct = np.frombuffer(outcomes[1:end], "<f4").reshape(count, self._num_teams)
        rows = [packed.outcomes[end:] for _, packed in group]
        codes = unpack_bits(rows, (count - 1).bit_length(), group[0][1].played)
        if codes.max() >= count:
            raise ValueError("expected indices of outcomes")
        pairs = counted_pairs(tuple(json.loads(seats)), self._seats)
        if all(len(pair.teams) == 1 for pair in pairs):
            # The number of a match does not matter, so that equal outcomes are counted once.
            times = np.bincount(codes.ravel(), minlength=count)
            counted = count_payoffs(kind, pairs, number=np.zeros(count, np.int64), outcome=distinct, times=times)
        else:
            numbers = np.concatenate([first + unpack_numbers(packed) for first, packed in group])
            counted = count_payoffs(kind, pairs, number=numbers, outcome=distinct[codes.ravel()])
        accumulate(self.totals.payoffs, counted)
