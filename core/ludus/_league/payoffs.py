"""Wins, draws and losses by pair of participants, in a form that matchmakers can read fast."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

#: In `Payoffs.recent`, the weight of a match halves with this many later matches of the same pair.
HALF_LIFE = 256

_CACHE_SIZE = 64  # cached lists of opponents, and cached sums of live participants
_MAX_LOOKUPS = 100  # opponents that are looked up one by one


@define
class _Row:
    """The counts of one participant against the opponents that it has met.

    Attributes:
        positions: Position of an opponent in the arrays below, by the opponent's index.
        columns: ``[capacity] int64``: index of the opponent at each position.
        counts: ``[capacity, 3] int64``: wins, draws, losses.
    """

    positions: dict[int, int] = field(factory=dict)
    columns: NDArray[np.int64] = field(factory=lambda: np.zeros(4, np.int64))
    counts: NDArray[np.int64] = field(factory=lambda: np.zeros((4, 3), np.int64))

    def add(self, column: int, count: NDArray[np.int64]) -> None:
        position = self.positions.setdefault(column, len(self.positions))
        if position == len(self.columns):
            self.columns = np.concatenate([self.columns, np.zeros_like(self.columns)])
            self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
        self.columns[position] = column
        self.counts[position] += count

    def select(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts ``[n, 3]`` against the opponents of the given indices."""
        if len(columns) <= _MAX_LOOKUPS:
            met = len(self.positions)
            positions = [self.positions.get(column, met) for column in columns.tolist()]
            return np.concatenate([self.counts[:met], np.zeros((1, 3), np.int64)])[positions]
        total = np.zeros((1 + max(columns.max(), self.columns.max()), 3), np.int64)
        self.add_to(total)
        return total[columns]

    def add_to(self, total: NDArray[Any], weight: float = 1) -> None:
        """Add the weighted counts to ``[n, 3]``, one line per index."""
        met = len(self.positions)
        total[self.columns[:met]] += (weight * self.counts[:met]).astype(total.dtype)


@define
class _LiveSum:
    """The counts of a live participant, or of an anchor on all sides, with those that it inherits.

    Attributes:
        weights: Weight by participant whose matches count.
        total: ``[capacity, 3] float64``, one line per index.
    """

    weights: dict[str, float]
    total: NDArray[np.float64]

    def reserve(self, size: int) -> None:
        """Grow the array to at least `size` lines."""
        if len(self.total) < size:
            self.total = np.concatenate([self.total, np.zeros((max(size, 64), 3))])


@frozen
class _Opponents:
    """A list of opponents: the index of each, and those whose counts include inherited ones."""

    columns: NDArray[np.int64]
    live: tuple[tuple[int, str], ...]


class Payoffs:
    """Wins, draws and losses by pair.

    Args:
        inherited: Returns the participants whose matches count for a participant, with their weights.
        sums: Participants besides live ones for which the matches of others count.
    """

    def __init__(self, inherited: Callable[[str], Iterable[tuple[str, float]]], *, sums: Collection[str] = ()) -> None:
        self._inherited = inherited
        self._sums = frozenset(sums)
        self._index: dict[str, int] = {}
        self._rows: dict[str, _Row] = {}
        self._opponents: dict[tuple[str, ...], _Opponents] = {}  # cleared when a participant gets an index
        self._live_sums: dict[str, _LiveSum] = {}
        self._recent: dict[str, dict[str, NDArray[np.float64]]] = {}

    def add(self, a: str, b: str, count: NDArray[np.int64]) -> None:
        """Add ``[3]`` wins, draws and losses of a against b. The caller also adds the mirrored counts of (b, a)."""
        for name in (a, b):
            if name not in self._index:
                self._index[name] = len(self._index)
                self._opponents.clear()
        self._rows.setdefault(a, _Row()).add(self._index[b], count)
        for live_sum in self._live_sums.values():
            if a in live_sum.weights:
                live_sum.reserve(len(self._index) + 1)
                live_sum.total[self._index[b]] += live_sum.weights[a] * count

    def payoff(self, participant: str, opponents: Sequence[str]) -> NDArray[np.float64]:
        """Return ``[n, 3] float64``: wins, draws and losses of `participant` against each opponent."""
        indexed = self._index_opponents(tuple(opponents))
        result = self._counts(participant, indexed.columns)
        for i, name in indexed.live:
            weights = {} if name == participant else dict(self._inherited(name))
            columns = np.array([self._index.get(one, len(self._index)) for one in weights], np.int64)
            result[i] = np.array(list(weights.values())) @ self._counts(participant, columns)
        return result

    def _counts(self, participant: str, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``[n, 3]``: counts against the participants of the given indices."""
        if self._is_sum(participant):
            return self._live_total(participant)[columns]
        row = self._rows.get(participant)
        return np.zeros((len(columns), 3)) if row is None else row.select(columns).astype(np.float64)

    def _is_sum(self, participant: str) -> bool:
        return participant.endswith("+") or participant in self._sums

    def _live_total(self, participant: str) -> NDArray[np.float64]:
        """Return ``[> n, 3]``: the counts of a live participant by index; line n is 0, for unknown opponents."""
        live_sum = self._live_sums.get(participant)
        if live_sum is None:
            live_sum = _LiveSum(dict(self._inherited(participant)), np.zeros((len(self._index) + 64, 3)))
            for name, weight in live_sum.weights.items():
                if name in self._rows:
                    self._rows[name].add_to(live_sum.total, weight)
            if len(self._live_sums) >= _CACHE_SIZE:
                self._live_sums.clear()
            self._live_sums[participant] = live_sum
        live_sum.reserve(len(self._index) + 1)
        return live_sum.total

    def _index_opponents(self, opponents: tuple[str, ...]) -> _Opponents:
        indexed = self._opponents.get(opponents)
        if indexed is None:
            unknown = len(self._index)
            columns = np.array([self._index.get(name, unknown) for name in opponents], np.int64)
            live = tuple((i, name) for i, name in enumerate(opponents) if self._is_sum(name))
            if len(self._opponents) >= _CACHE_SIZE:
                self._opponents.clear()
            indexed = self._opponents[opponents] = _Opponents(columns, live)
        return indexed

    # --- recent counts --------------------------------------------------------------------------------------------

    def add_recent(self, player: str, opponent: str, count: NDArray[np.int64]) -> None:
        """Add ``[3]`` wins, draws and losses of a player's live weights to its recent counts.

        Args:
            player: The player.
            opponent: Another player, for its live weights, or a frozen model or anchor.
            count: Counts of the matches since the last call; they are weighted as if evenly mixed.
        """
        matches = int(count.sum())
        new_weight = -np.expm1(-matches * np.log(2) / HALF_LIFE) / -np.expm1(-np.log(2) / HALF_LIFE)
        counts = self._recent.setdefault(player, {})
        decayed = counts.get(opponent, np.zeros(3)) * 0.5 ** (matches / HALF_LIFE)
        counts[opponent] = decayed + count * (new_weight / max(matches, 1))

    def recent(self, player: str, opponents: Sequence[str]) -> NDArray[np.float64]:
        """Return ``[n, 3] float64``: the sums of `add_recent`, in which older matches weigh less."""
        counts, zeros = self._recent.get(player, {}), np.zeros(3)
        return np.array([counts.get(name, zeros) for name in opponents]).reshape(-1, 3)

    def forget_recent(self, player: str) -> None:
        """Drop the recent counts for and against a player's live weights."""
        self._recent.pop(player, None)
        for counts in self._recent.values():
            counts.pop(player, None)
