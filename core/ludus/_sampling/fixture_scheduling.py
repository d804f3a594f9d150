"""Tables: which fixture every row plays, who sits in its seats, and which matches come next.

Everything is an array over tables or rows, so that starting matches costs the same however many rows start at once;
only a table that takes another fixture, every few hundred matches, is looked at by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import numpy as np

from ludus._seeding import match_seeds
from ludus.environment import Scenario
from ludus.records import Fixture

Actor = TypeVar("Actor")


class Tables(Generic[Actor]):
    """Fixtures dealt to rows.

    Args:
        rows: B.
        rows_per_table: Of all tables but the last, which may have fewer.
        seats: Of a match.
        resolve: Fixture and seat number → actor and slot, called when a table takes the fixture.

    Attributes:
        actors: Everybody who sits somewhere; places that have become free are used again.
        occupant: ``[B, seats]`` place in `actors`; -1 where no match was played yet.
        slot: ``[B, seats]`` which of that actor's models.
        fixture_id: ``[B]`` what the row plays or played last.
        number: ``[B]`` which match of it.
        low: How many tables will soon need a fixture.
        begun: How many fixtures tables have taken.
        queue: Fixtures that no table has taken yet.
    """

    def __init__(
        self, rows: int, *, rows_per_table: int, seats: int, resolve: Callable[[Fixture, int], tuple[Actor, int]]
    ) -> None:
        self.queue: deque[Fixture] = deque()
        self.actors: list[Actor] = []
        self.occupant = np.full((rows, seats), -1, np.int64)
        self.slot = np.zeros((rows, seats), np.int64)
        self.fixture_id = np.zeros(rows, np.int64)
        self.number = np.zeros(rows, np.int64)
        self._resolve = resolve
        self._of_row = np.arange(rows) // min(rows_per_table, rows)
        self._rows = np.bincount(self._of_row)  # from here on, arrays over tables
        self.low = count = len(self._rows)
        self.begun = 0
        self._fixture_id = np.zeros(count, np.int64)
        self._seed = np.zeros(count, np.uint64)
        self._next_number = np.zeros(count, np.int64)
        self._left = np.zeros(count, np.int64)  # matches of the fixture that have not started
        self._scenario = np.full(count, None, object)  # None: the default one
        self._occupant = np.full((count, seats), -1, np.int64)
        self._slot = np.zeros((count, seats), np.int64)
        self._row_seed = np.zeros(rows, np.uint64)
        self._row_scenario = np.full(rows, None, object)

    def deal(self, rows: np.ndarray) -> np.ndarray:
        """Give rows, ascending, their next matches; returns, ascending, those for which there was one."""
        table = self._of_row.take(rows)
        rank = np.arange(rows.size) - table.searchsorted(table)  # among the rows of its table
        waits = rank >= self._left.take(table)
        if waits.any():
            now = ~waits
            dealt = [self._deal(rows[now], table[now], rank[now]), *self._refill(rows[waits])]
            rows = np.sort(np.concatenate(dealt))
        else:
            self._deal(rows, table, rank)
        self.low = int((self._left <= self._rows).sum())
        return rows

    def _deal(self, rows: np.ndarray, table: np.ndarray, rank: np.ndarray) -> np.ndarray:
        self.number[rows] = self._next_number.take(table) + rank
        self.fixture_id[rows] = self._fixture_id.take(table)
        self.occupant[rows] = self._occupant.take(table, axis=0)
        self.slot[rows] = self._slot.take(table, axis=0)
        self._row_seed[rows] = self._seed.take(table)
        self._row_scenario[rows] = self._scenario.take(table)
        dealt = np.bincount(table, minlength=len(self._left))
        self._next_number += dealt
        self._left -= dealt
        return rows

    def _refill(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Take fixtures from the queue for the tables of these rows and deal them; yields rows that got a match."""
        while rows.size and self.queue:
            table = int(self._of_row[rows[0]])
            self._take(table, self.queue.popleft())
            here = np.searchsorted(self._of_row.take(rows), table, side="right")
            count = min(int(here), int(self._left[table]))
            yield self._deal(rows[:count], np.full(count, table), np.arange(count))
            rows = rows[count:]

    def _take(self, table: int, fixture: Fixture) -> None:
        self.begun += 1
        self._fixture_id[table], self._seed[table] = fixture.id, fixture.seed
        self._next_number[table], self._left[table] = 0, fixture.matches
        self._scenario[table] = None if fixture.scenario.name == "default" else fixture.scenario
        for seat in range(len(fixture.participants)):
            actor, slot = self._resolve(fixture, seat)
            self._occupant[table, seat], self._slot[table, seat] = self._place(actor), slot

    def _place(self, actor: Actor) -> int:
        for index, known in enumerate(self.actors):
            if known is actor:
                return index
        used = {*np.unique(self.occupant).tolist(), *np.unique(self._occupant).tolist()}
        for index in range(len(self.actors)):
            if index not in used:  # nobody sits there any more
                self.actors[index] = actor
                return index
        self.actors.append(actor)
        return len(self.actors) - 1

    def starts(self, rows: np.ndarray) -> tuple[np.ndarray, list[Scenario] | None]:
        """Return the seeds ``[n] uint64`` and the scenarios of the rows' matches, None where all are the default."""
        seeds = match_seeds(self._row_seed.take(rows), self.number.take(rows))
        special = self._row_scenario.take(rows).tolist()
        return seeds, [scenario or Scenario() for scenario in special] if any(special) else None

    def by_actor(self, seat_ids: np.ndarray) -> Iterator[tuple[Actor, np.ndarray | None]]:
        """Yield everybody who sits in the streams (row · seats + seat) and where in them; None means everywhere."""
        if not seat_ids.size:
            return
        if len(self.actors) == 1:
            yield self.actors[0], None
            return
        occupant = self.occupant.ravel().take(seat_ids)
        order, start = occupant.argsort(kind="stable"), 0
        for actor, count in zip(self.actors, np.bincount(occupant).tolist(), strict=False):
            if count:
                yield actor, order[start : start + count]
                start += count

    def slots_in_use(self, actor: Actor) -> np.ndarray:
        """Return ``[k] int64``, ascending: the slots of an actor that some row or table plays with."""
        place = next((index for index, known in enumerate(self.actors) if known is actor), -2)
        return np.union1d(self.slot[self.occupant == place], self._slot[self._occupant == place])
