"""The table of behaviour: sums of the statistics of evaluation matches by participant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ludus._store.database import Database, reading
from ludus.environment import Seat
from ludus.records import Fixture

#: (participant, ``"ROLE/NAME"``) → ``[3] float64``: number of matches, and the sum and the sum of squares of a
#: statistic over them. The value of a match is the mean over the participant's seats.
Sums: TypeAlias = dict[tuple[str, str], NDArray[np.float64]]


class BehaviourTable:
    """Reads and updates the sums."""

    def __init__(self, database: Database) -> None:
        self._db = database

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
            totals = {(participant, name): np.array(values, np.float64) for participant, name, *values in rows}
            if not all(isinstance(name, str) for key in totals for name in key):
                raise TypeError("a name is not a text")
            if not all(np.isfinite(values).all() for values in totals.values()):
                raise ValueError("a sum is not finite")
        return totals


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
