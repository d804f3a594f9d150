"""The table of behaviour: sums of the statistics of evaluation matches by participant."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ludus._store.database import Database, reading
from ludus._store.tables import FixtureTable
from ludus.environment import Seat
from ludus.records import Fixture

#: (participant, ``"ROLE/NAME"``) → ``[3] float64``: number of matches, and the sum and the sum of squares of a
#: statistic over them. The value of a match is the mean over the participant's seats.
Sums: TypeAlias = dict[tuple[str, str], NDArray[np.float64]]


class BehaviourTable:
    """Reads and updates the sums, and compares them with the match log."""

    def __init__(self, database: Database, fixtures: FixtureTable) -> None:
        self._db = database
        self._fixtures = fixtures

    def add(self, sums: Sums) -> None:
        """Add the sums of new matches."""
        self._db.write_many(
            "INSERT INTO behaviour VALUES (?, ?, ?, ?, ?) ON CONFLICT (participant, name) DO UPDATE SET"
            " matches = matches + excluded.matches, total = total + excluded.total,"
            " squares = squares + excluded.squares",
            [(*key, *values.tolist()) for key, values in sums.items()],
        )

    def totals(self) -> Sums:
        """Return the sums of the whole log.

        Raises:
            sqlite3.DatabaseError: The table is malformed.
        """
        rows = self._db.execute("SELECT participant, name, matches, total, squares FROM behaviour")
        with reading("table behaviour"):
            return {(participant, name): np.array(values, np.float64) for participant, name, *values in rows}

    def recompute(self) -> Sums:
        """Return the sums computed from the match log alone, up to rounding.

        Raises:
            sqlite3.DatabaseError: A row is malformed.
        """
        totals: Sums = {}
        seats = self._db.seats()
        rows = self._db.execute("SELECT fixture, statistics FROM matches WHERE statistics != '{}' ORDER BY fixture")
        for number, group in itertools.groupby(rows, itemgetter(0)):
            fixture = self._fixtures.get(number, number).get(number)
            with reading(f"statistics of fixture {number} in table matches"):
                matches = [json.loads(text) for _, text in group]
                arrays = {name: np.array([match[name] for match in matches], np.float32) for name in matches[0]}
                if fixture is not None:
                    add_sums(totals, sum_statistics(fixture, arrays, seats=seats))
        return totals

    def problems(self) -> Iterator[str]:
        """Yield one line for every sum that contradicts the log.

        Raises:
            sqlite3.DatabaseError: A row is malformed.
        """
        counted, stored, zeros = self.recompute(), self.totals(), np.zeros(3)
        for key in sorted(counted.keys() | stored.keys()):
            expected, actual = counted.get(key, zeros), stored.get(key, zeros)
            if not np.allclose(expected, actual, rtol=1e-6, atol=1e-6):
                yield f"statistic {key[1]} of {key[0]}: stored {actual.tolist()}, the log has {expected.tolist()}"


def sum_statistics(fixture: Fixture, statistics: Mapping[str, np.ndarray], *, seats: Sequence[Seat]) -> Sums:
    """Return the sums over matches of one fixture.

    Args:
        fixture: The fixture.
        statistics: ``[n, S] float32`` by ``"ROLE/NAME"``.
        seats: The seats of a match.
    """
    sums: Sums = {}
    for name, values in statistics.items():
        role = name.partition("/")[0]
        names = [one for one, seat in zip(fixture.participants, seats, strict=True) if seat.role == role]
        for participant in dict.fromkeys(names):
            own = values[:, [one == participant for one in names]].mean(axis=1, dtype=np.float64)
            sums[participant, name] = np.array([len(own), own.sum(), np.square(own).sum()])
    return sums


def add_sums(totals: Sums, sums: Sums) -> None:
    """Add sums to totals in place."""
    for key, values in sums.items():
        totals[key] = totals[key] + values if key in totals else values
