"""A network that has been asked about an observation is not asked again before its weights change.

Samplers play many matches by the same weights for a whole segment. Of the boards of Connect Four that they see, 30 to
80 % were there before, in other matches: first moves, and what good players make of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import define, field

from ludus.environment import Leaves
from ludus.inference import Inference, Outputs, Span
from ludus.row_keys import hashes_of, keys_of

__all__ = ["EvaluationCache", "Evaluations"]

_PLACES = 8  # of the table for every answer, at least: few different rows meet in one
_MOST_ANSWERS = 1 << 15
_MOST_BYTES = 16 << 20  # of what answers were asked for
_FEWEST_CALLS = 4  # that answers are kept for, or it is not worth while

# Whether it pays is found out in a trial now and then. To multiply by a parameter takes some 25 ps; looking up takes as
# long as so many of them, for every row and for every call.
_TRIAL_CALLS, _REST_CALLS = 64, 2048
_COST_OF_ROW, _COST_OF_CALL = 10_000, 2_000_000


@define
class Evaluations:
    """How many rows were to be evaluated, and how many of these networks did evaluate; of any number of caches.

    Args:
        wanted: Rows.
        made: Rows among them.
    """

    wanted: int = 0
    made: int = 0

    def taken(self) -> dict[str, float]:
        """Return the share of the latter for the metrics, if there is any, and count anew."""
        share = {"evaluated_share": self.made / self.wanted} if self.wanted else {}
        self.wanted = self.made = 0
        return share


@define(eq=False)
class EvaluationCache:
    """Runs a network only for rows of which it has no answer; see `ludus.inference.Inference`.

    Answers are those of the runtime, up to the rounding by which products depend on how many rows there are. It steps
    aside where too few rows repeat for what the network costs, and for networks with a state.

    Args:
        inference: The runtime. Its answers depend on weights and rows alone.
        parameters: Of the network: what a row costs at least.
        evaluations: Where rows are counted.
    """

    inference: Inference
    parameters: int
    evaluations: Evaluations = field(factory=Evaluations)
    _generations: dict[int, int] = field(init=False, factory=dict)  # by slot: which weights it holds, none of them 0
    _generation: int = field(init=False, default=0)
    _tables: dict[tuple[str, ...], _Answers] = field(init=False, factory=dict)  # by what was asked with
    _calls: int = field(init=False, default=0)  # of this trial, or of the time after it
    _gain: int = field(init=False, default=0)  # of this trial, in parameters
    _resting: bool = field(init=False, default=False)

    def load(self, weights: Mapping[str, np.ndarray], *, slot: int = 0) -> None:
        """Load weights and forget the answers by those before; see `Inference.load`."""
        self.inference.load(weights, slot=slot)
        self._renew(slot)

    def drop(self, slot: int) -> None:
        """Forget a model; see `Inference.drop`."""
        self.inference.drop(slot)
        self._generations.pop(slot, None)

    def run(self, observation: Leaves, *, privileged: Leaves, state: Leaves, spans: Sequence[Span] = ()) -> Outputs:
        """Evaluate n rows; see `Inference.run`."""
        rows = len(next(iter((observation or privileged).values())))

        def plain() -> Outputs:
            self._count(rows, evaluated=rows)
            return self.inference.run(observation, privileged=privileged, state=state, spans=spans)

        if state or self._rests():
            return plain()
        leaves = {f"observation/{name}": leaf for name, leaf in observation.items()}
        leaves |= {f"privileged/{name}": leaf for name, leaf in privileged.items()}
        answers = self._tables.setdefault(tuple(leaves), _Answers())
        if not answers.makes_room(rows, row_bytes=sum(leaf[:1].nbytes for leaf in leaves.values())):
            return plain()
        keys = keys_of([*leaves.values()], more=1)
        keys[:, -1] = self._generations_of(spans)
        numbers, asked = answers.find(keys)
        after: Leaves = {}
        if asked.size:
            seen, known = _rows(observation, asked), _rows(privileged, asked)
            try:
                heads, after = self.inference.run(seen, privileged=known, state={}, spans=_part(spans, asked))
            except BaseException:
                self._tables.clear()  # one has numbers for answers that nobody gave
                raise
            answers.add(keys.take(asked, axis=0), heads)
        self._count(rows, evaluated=asked.size)
        self._gain += (rows - asked.size) * self.parameters - rows * _COST_OF_ROW - _COST_OF_CALL
        return Outputs(answers.take(numbers), after)

    def _count(self, rows: int, *, evaluated: int) -> None:
        self.evaluations.wanted += rows
        self.evaluations.made += evaluated

    def _rests(self) -> bool:
        """Count a call, and return whether the network is asked about every row now."""
        self._calls += 1
        if self._calls > (_REST_CALLS if self._resting else _TRIAL_CALLS):
            self._resting = not self._resting and self._gain <= 0
            self._calls, self._gain = 1, 0
        return self._resting

    def _renew(self, slot: int) -> int:
        self._generation += 1
        self._generations[slot] = self._generation
        return self._generation

    def _generations_of(self, spans: Sequence[Span]) -> np.ndarray:
        """Return which weights decide about every row, ``[n]``, or about all, ``[1]``."""
        spans = spans or [Span(0, 0, 1)]
        held = [self._generations.get(slot) or self._renew(slot) for slot, _, _ in spans]
        return np.repeat(held, [stop - start for _, start, stop in spans])


@define(eq=False)
class _Answers:
    """What a network answered to which keys: all numbered, until there are too many and all are forgotten."""

    _table: np.ndarray = field(init=False)  # place of a hash → number of an answer
    _keys: np.ndarray = field(init=False)  # [answers, w] uint64; that of number 0 is all 0, as no other
    _heads: dict[str, np.ndarray] = field(init=False, factory=dict)  # [answers, size] float32
    _shift: np.uint64 = field(init=False)
    _size: int = field(init=False, default=0)
    _count: int = field(init=False, default=1)  # of answers, that of number 0 included

    def makes_room(self, rows: int, *, row_bytes: int) -> bool:
        """Return whether the answers to so many keys fit, and forget others for that."""
        if not self._size:
            words = -(-row_bytes // 8) + 1
            self._size = min(_MOST_ANSWERS, _MOST_BYTES // (8 * words))
            bits = (_PLACES * self._size - 1).bit_length()
            self._shift = np.uint64(64 - bits)
            self._table, self._keys = np.zeros(1 << bits, np.int64), np.zeros((self._size, words), np.uint64)
        if not 0 < rows <= self._size // _FEWEST_CALLS:
            return False
        if self._count + rows > self._size:
            self._table.fill(0)
            self._count = 1
        return True

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of all answers, and which keys to ask for: their answers have to be added next."""
        places = (hashes_of(keys) >> self._shift).view(np.int64)
        numbers = self._table.take(places)
        missing = _differ(self._keys.take(numbers, axis=0), keys).nonzero()[0]
        if not missing.size:
            return numbers, missing
        # of those that meet in a place, the last has it, and the others are mostly like it
        places, order, new = places.take(missing), np.arange(missing.size), keys.take(missing, axis=0)
        self._table[places] = order
        last = self._table.take(places)
        own = (last == order) | _differ(new.take(last, axis=0), new)
        given = own.cumsum()
        given += self._count - 1
        given = np.where(own, given, given.take(last))
        self._table[places] = numbers[missing] = given
        return numbers, missing[own]

    def add(self, keys: np.ndarray, heads: Mapping[str, np.ndarray]) -> None:
        """Take the answers to the keys that were asked for."""
        stop = self._count + len(keys)
        self._keys[self._count : stop] = keys
        for name, head in heads.items():
            if name not in self._heads:
                self._heads[name] = np.empty((self._size, head.shape[1]), np.float32)
            self._heads[name][self._count : stop] = head
        self._count = stop

    def take(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Return answers by their numbers, ``[n, size]`` by head."""
        return {name: head.take(numbers, axis=0) for name, head in self._heads.items()}


def _differ(keys: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.asarray((keys != others).any(axis=1))


def _rows(leaves: Leaves, chosen: np.ndarray) -> Leaves:
    return {name: leaf.take(chosen, axis=0) for name, leaf in leaves.items()}


def _part(spans: Sequence[Span], chosen: np.ndarray) -> list[Span]:
    """Return the spans of chosen rows, in ascending order."""
    found = []
    for slot, start, stop in spans:
        first, last = np.searchsorted(chosen, (start, stop)).tolist()
        if last > first:
            found.append(Span(slot, first, last))
    return found
