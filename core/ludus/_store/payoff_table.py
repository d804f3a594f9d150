"""The table of payoffs: sums over the match log, kept in the same transaction as the log."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ludus._store.fixture_table import FixtureTable
from ludus._store.records import reading
from ludus._store.transaction import Database, read_seats
from ludus.errors import StoreError
from ludus.records import Fixture

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
        teams = [seat.team for seat in read_seats(self._db)]
        cursor = self._db.execute("SELECT fixture, outcome FROM matches ORDER BY fixture, number")
        while rows := cursor.fetchmany(_CHUNK):
            with reading(f"table matches, fixtures {rows[0][0]} to {rows[-1][0]},"):
                fixture = np.array([row[0] for row in rows], np.int64)
                outcome = np.frombuffer(b"".join(row[1] for row in rows), np.float32).reshape(len(rows), -1)
            starts = run_starts(fixture)
            ids = fixture[starts].tolist()
            known = self._fixtures.get(ids[0], ids[-1])
            if not known.keys() >= set(ids):
                raise StoreError(
                    f"{self._db.run_dir}: the log has matches of fixtures that do not exist; restore a copy of the run"
                )
            accumulate(totals, count_payoffs([known[i] for i in ids], starts, outcome, teams=teams))
        return totals


def run_starts(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``[G]``: the indices at which runs of equal values begin."""
    return np.flatnonzero(np.diff(values, prepend=values[:1] - 1))


def count_payoffs(
    fixtures: Sequence[Fixture], starts: NDArray[np.int64], outcome: NDArray[np.float32], *, teams: Sequence[int]
) -> Counts:
    """Count wins, draws and losses of every ordered pair of different participants of different teams.

    Args:
        fixtures: G fixtures.
        starts: ``[G] int64``: the first row of each fixture; the rows are sorted as `fixtures` are.
        outcome: ``[n, teams] float32``.
        teams: The team of every seat.
    """
    counts: Counts = {}
    for fixture, points in zip(fixtures, np.split(outcome, starts[1:]), strict=False):
        sides = sorted(set(zip(teams, fixture.participants, strict=True)))
        for (i, a), (j, b) in itertools.combinations(sides, 2):
            if i != j and a != b:
                lead = points[:, i] - points[:, j]
                count = np.array([np.count_nonzero(test) for test in (lead > 0, lead == 0, lead < 0)], np.int64)
                accumulate(counts, {(fixture.kind, a, b): count, (fixture.kind, b, a): count[::-1]})
    return counts


def accumulate(totals: Counts, counts: Counts) -> None:
    """Add counts to totals in place."""
    for key, count in counts.items():
        totals[key] = totals[key] + count if key in totals else count
