"""Who beat whom: counts by pair of participants, as fast to read as matchmakers ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

#: In `Payoffs.recent`, a match weighs half as much after so many more matches of the same pair.
HALF_LIFE = 256

_REMEMBERED = 64  # lists of opponents whose places are known, and live participants whose sums are
_FEW = 100  # opponents that are looked up one by one


@define
class _Row:
    """The counts of one participant against those it has met.

    Attributes:
        place: Index of an opponent → its line below.
        columns: ``[capacity] int64``: the reverse.
        counts: ``[capacity, 3] int64``: wins, draws, losses.
    """

    place: dict[int, int] = field(factory=dict)
    columns: NDArray[np.int64] = field(factory=lambda: np.zeros(4, np.int64))
    counts: NDArray[np.int64] = field(factory=lambda: np.zeros((4, 3), np.int64))

    def add(self, column: int, count: NDArray[np.int64]) -> None:
        at = self.place.setdefault(column, len(self.place))
        if at == len(self.columns):
            self.columns = np.concatenate([self.columns, np.zeros_like(self.columns)])
            self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
        self.columns[at] = column
        self.counts[at] += count

    def of(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts ``[n, 3]`` against the opponents of these indices."""
        if len(columns) <= _FEW:
            nothing = len(self.place)
            at = [self.place.get(column, nothing) for column in columns.tolist()]
            return np.concatenate([self.counts[:nothing], np.zeros((1, 3), np.int64)])[at]
        total = np.zeros((1 + max(columns.max(), self.columns.max()), 3), np.int64)
        self.add_to(total)
        return total[columns]

    def add_to(self, total: NDArray[Any], weight: float = 1) -> None:
        """Add the weighted counts to ``[n, 3]``, one line per index."""
        met = len(self.place)
        total[self.columns[:met]] += (weight * self.counts[:met]).astype(total.dtype)


@define
class _Sum:
    """The counts of a live participant, its earlier weights included.

    Attributes:
        weights: Whose matches count, and how much.
        total: ``[capacity, 3] float64``, one line per index.
    """

    weights: dict[str, float]
    total: NDArray[np.float64]

    def cover(self, size: int) -> None:
        """Make room for so many participants."""
        if len(self.total) < size:
            self.total = np.concatenate([self.total, np.zeros((max(size, 64), 3))])


@frozen
class _Opponents:
    """A list of opponents: the index of each, and which of them are live (their matches are those of a chain)."""

    columns: NDArray[np.int64]
    live: tuple[tuple[int, str], ...]


class Payoffs:
    """Counts of wins, draws and losses by pair.

    Args:
        chain: Participant → whose matches count for it, with their weights: itself, and for a live one its earlier
            weights.
    """

    def __init__(self, chain: Callable[[str], Iterable[tuple[str, float]]]) -> None:
        self._chain = chain
        self._index: dict[str, int] = {}
        self._rows: dict[str, _Row] = {}
        self._lists: dict[tuple[str, ...], _Opponents] = {}  # emptied when somebody new has an index
        self._sums: dict[str, _Sum] = {}  # of live participants asked for lately
        self._recent: dict[str, dict[str, NDArray[np.float64]]] = {}

    def add(self, a: str, b: str, count: NDArray[np.int64]) -> None:
        """Add ``[3]`` wins, draws and losses of a against b. To be called for (b, a) with the mirrored counts too."""
        for name in (a, b):
            if name not in self._index:
                self._index[name] = len(self._index)
                self._lists.clear()
        self._rows.setdefault(a, _Row()).add(self._index[b], count)
        for known in self._sums.values():
            if a in known.weights:
                known.cover(len(self._index) + 1)
                known.total[self._index[b]] += known.weights[a] * count

    def payoff(self, participant: str, opponents: Sequence[str]) -> NDArray[np.float64]:
        """Return ``[n, 3] float64``: wins, draws, losses of `participant` against each opponent."""
        known = self._known(tuple(opponents))
        result = self._counts(participant, known.columns)
        for i, name in known.live:
            weights = {} if name == participant else dict(self._chain(name))
            columns = np.array([self._index.get(one, len(self._index)) for one in weights], np.int64)
            result[i] = np.array(list(weights.values())) @ self._counts(participant, columns)
        return result

    def _counts(self, participant: str, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``[n, 3]``: against the participants of these indices."""
        if participant.endswith("+"):
            return self._sum(participant)[columns]
        row = self._rows.get(participant)
        return np.zeros((len(columns), 3)) if row is None else row.of(columns).astype(np.float64)

    def _sum(self, participant: str) -> NDArray[np.float64]:
        """Return ``[> n, 3]``: the counts of a live participant by index; nobody has the index n."""
        known = self._sums.get(participant)
        if known is None:
            known = _Sum(dict(self._chain(participant)), np.zeros((len(self._index) + 64, 3)))
            for name, weight in known.weights.items():
                if name in self._rows:
                    self._rows[name].add_to(known.total, weight)
            if len(self._sums) >= _REMEMBERED:
                self._sums.clear()
            self._sums[participant] = known
        known.cover(len(self._index) + 1)
        return known.total

    def _known(self, opponents: tuple[str, ...]) -> _Opponents:
        known = self._lists.get(opponents)
        if known is None:
            nobody = len(self._index)
            columns = np.array([self._index.get(name, nobody) for name in opponents], np.int64)
            live = tuple((i, name) for i, name in enumerate(opponents) if name.endswith("+"))
            if len(self._lists) >= _REMEMBERED:
                self._lists.clear()
            known = self._lists[opponents] = _Opponents(columns, live)
        return known

    # --- of late --------------------------------------------------------------------------------------------------

    def add_recent(self, player: str, opponent: str, count: NDArray[np.int64]) -> None:
        """Add ``[3]`` wins, draws and losses of a player's live weights.

        Args:
            player: The player.
            opponent: Another player, for its live weights, or a participant that does not change.
            count: Of the matches since the last call.
        """
        matches = int(count.sum())
        fresh = -np.expm1(-matches * np.log(2) / HALF_LIFE) / -np.expm1(-np.log(2) / HALF_LIFE)  # their whole weight
        old = self._recent.setdefault(player, {})
        before = old.get(opponent, np.zeros(3)) * 0.5 ** (matches / HALF_LIFE)
        old[opponent] = before + count * (fresh / max(matches, 1))

    def recent(self, player: str, opponents: Sequence[str]) -> NDArray[np.float64]:
        """Return ``[n, 3] float64``: what `add_recent` has counted, the older the less."""
        counts, nothing = self._recent.get(player, {}), np.zeros(3)
        return np.array([counts.get(name, nothing) for name in opponents]).reshape(-1, 3)

    def forget_recent(self, player: str) -> None:
        """Empty what was counted of late for and against a player's live weights."""
        self._recent.pop(player, None)
        for counts in self._recent.values():
            counts.pop(player, None)
