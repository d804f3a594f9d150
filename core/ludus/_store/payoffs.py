"""The table of payoffs, which are sums over the match log, and how matches are counted."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ludus._store.database import Database, reading
from ludus.environment import Seat
from ludus.matchmaker import rated_names

#: (kind, a, b) → ``[3] int64``: wins, draws and losses of a against b in matches of that kind.
Counts: TypeAlias = dict[tuple[str, str, str], NDArray[np.int64]]


class PayoffTable:
    """Reads and updates payoffs."""

    def __init__(self, database: Database) -> None:
        self._db = database

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
            if not all(isinstance(name, str) for key in totals for name in key):
                raise TypeError("a name is not a text")
        return totals


@frozen(eq=False)
class CountedPair:
    """Two participants of a lineup whose results count.

    Attributes:
        a: One participant, named as in `ludus.matchmaker.rated_names`.
        b: The other one.
        teams: ``[m, 2] int64``: pairs of a team of `a` and a different team of `b`.
    """

    a: str
    b: str
    teams: NDArray[np.int64]


@lru_cache(maxsize=4096)
def counted_pairs(participants: tuple[str, ...], seats: tuple[Seat, ...]) -> tuple[CountedPair, ...]:
    """Return the pairs of different participants of different teams.

    Args:
        participants: Participant of every seat.
        seats: The seats of a match.
    """
    teams = [seat.team for seat in seats]
    sides: dict[str, list[int]] = {}
    for participant, team in sorted(set(zip(rated_names(participants, seats), teams, strict=True))):
        sides.setdefault(participant, []).append(team)
    pairs = []
    for (a, own), (b, other) in itertools.combinations(sides.items(), 2):
        if different := [(i, j) for i in own for j in other if i != j]:
            pairs.append(CountedPair(a, b, np.array(different, np.int64)))
    return tuple(pairs)


def count_payoffs(
    kind: str,
    pairs: Sequence[CountedPair],
    *,
    number: NDArray[np.int64],
    outcome: NDArray[np.float32],
    times: NDArray[np.int64] | None = None,
) -> Counts:
    """Count wins, draws and losses of every ordered pair of participants in matches of one lineup.

    Each match counts once per pair of participants. If they fill several teams, the result is that of one pair of their
    teams, which changes with the match number: results of several pairs of one match would not be independent.

    Args:
        kind: Kind of the matches.
        pairs: The lineup's `counted_pairs`.
        number: ``[n] int64``: the number of each match within its fixture.
        outcome: ``[n, teams] float32``.
        times: ``[n] int64``: how often each match counts; None: once.
    """
    counts: Counts = {}
    rows = np.arange(len(outcome))
    times = np.ones(len(outcome), np.int64) if times is None else times
    for pair in pairs:
        i, j = pair.teams[number % len(pair.teams)].T
        lead = outcome[rows, i] - outcome[rows, j]
        count = np.array([times[test].sum() for test in (lead > 0, lead == 0, lead < 0)], np.int64)
        accumulate(counts, {(kind, pair.a, pair.b): count, (kind, pair.b, pair.a): count[::-1]})
    return counts


def accumulate(totals: Counts, counts: Counts) -> None:
    """Add counts to totals in place."""
    for key, count in counts.items():
        totals[key] = totals[key] + count if key in totals else count
