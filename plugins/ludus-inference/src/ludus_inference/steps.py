"""The steps of a lean program on matrices: NumPy calls on buffers that are allocated once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import define, field, frozen
from ludus.inference import Span

from ludus_inference.weights import LINE, aligned_zeros

#: Slot → one array per `ludus_inference.weights.SlotArray` of the programs.
WeightTable = Mapping[int, Sequence[np.ndarray]]


@frozen
class RunInputs:
    """The inputs that all steps of a run share.

    Attributes:
        rows: n.
        leaves: ``[n, …]`` by group and name, for example ``"observation/board"``.
        weights: Weight matrices.
        spans: Rows of each slot; at least one span.
    """

    rows: int
    leaves: Mapping[str, np.ndarray]
    weights: WeightTable
    spans: Sequence[Span]


class Step(Protocol):
    """Computes buffers from leaves or other buffers."""

    def run(self, inputs: RunInputs) -> None:
        """Compute the first `inputs.rows` rows."""


@define(eq=False)
class EntityRows:
    """The entities present in a run. Buffers of entities have a row for each of them, in the order of the rows.

    Args:
        leaf: Leaf ``[n, E]`` that is 0 for absent entities; ``""``: all entities are present.
        per_row: E.

    Attributes:
        count: Number of entities present in all rows together, m.
        indices: Row · E + entity of each, ``[m]``, ascending.
        spans: Entities of each slot.
    """

    leaf: str
    per_row: int
    count: int = field(init=False, default=0)
    indices: np.ndarray = field(init=False, factory=lambda: np.zeros(0, np.int64))
    spans: Sequence[Span] = field(init=False, default=())
    _located: tuple[np.ndarray, np.ndarray] | None = field(init=False, default=None)
    _rows: int = field(init=False, default=0)

    def run(self, inputs: RunInputs) -> None:
        """Find the entities."""
        if self.leaf:
            self.indices = np.flatnonzero(inputs.leaves[self.leaf])
            self._located = None
        elif inputs.rows != self._rows:
            self.indices = np.arange(inputs.rows * self.per_row)
            self._located = None
        self._rows, self.count = inputs.rows, len(self.indices)
        if len(inputs.spans) == 1:
            self.spans = (Span(inputs.spans[0].slot, 0, self.count),)
            return
        stops = np.searchsorted(self.indices, [span.stop * self.per_row for span in inputs.spans]).tolist()
        slots = [span.slot for span in inputs.spans]
        self.spans = [Span(*one) for one in zip(slots, [0, *stops], stops, strict=False)]

    @property
    def is_full(self) -> bool:
        """Return whether all entities of all rows are present."""
        return self.count == self._rows * self.per_row

    @property
    def rows(self) -> np.ndarray:
        """Return the row of each entity, ``[m]``."""
        return self._locate()[0]

    @property
    def places(self) -> np.ndarray:
        """Return entity · n + row of each entity, ``[m]``: its place in a table ``[E, n, …]``."""
        return self._locate()[1]

    def _locate(self) -> tuple[np.ndarray, np.ndarray]:
        if self._located is None:
            if self._rows == 1:
                self._located = np.zeros(self.count, np.int64), self.indices
            else:
                rows = self.indices // self.per_row
                self._located = rows, (self.indices - rows * self.per_row) * self._rows + rows
        return self._located


@define(eq=False)
class Buffer:
    """A matrix ``[capacity, width] float32`` with a column of ones on its right, so that products add the bias.

    Args:
        width: Number of columns without the ones.
        entities: Entities that have a row each; None: each row of the run has one.

    Attributes:
        base: ``[capacity, stride]``; columns after the ones are padding.
    """

    width: int
    entities: EntityRows | None = None
    base: np.ndarray = field(init=False)

    @property
    def stride(self) -> int:
        """Return the number of allocated columns."""
        return -(-(self.width + 1) // LINE) * LINE

    def allocate(self, capacity: int) -> None:
        """Allocate memory for this number of rows of a run."""
        self.base = aligned_zeros(capacity * (1 if self.entities is None else self.entities.per_row), self.stride)
        self.base[:, self.width] = 1.0

    def rows(self, inputs: RunInputs) -> int:
        """Return the number of rows in use."""
        return inputs.rows if self.entities is None else self.entities.count

    def spans(self, inputs: RunInputs) -> Sequence[Span]:
        """Return the rows of each slot."""
        return inputs.spans if self.entities is None else self.entities.spans


@frozen
class Columns:
    """Columns ``start`` to ``stop`` of a buffer: a value of a graph's node.

    Attributes:
        unfolded: Whether a buffer of entities stands for an array ``[n, E, width]``, not for ``[n · E, width]``.
        absent: Number that stands for each feature of absent entities, which have no rows; None: any number, so that
            no operation may read them.
        nonnegative: Whether no element is negative.
    """

    buffer: Buffer
    start: int
    stop: int
    unfolded: bool = False
    absent: float | None = None
    nonnegative: bool = False

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.stop - self.start

    def view(self, inputs: RunInputs) -> np.ndarray:
        """Return the rows in use."""
        return self.buffer.base[: self.buffer.rows(inputs), self.start : self.stop]


@frozen
class Cast:
    """Converts a leaf to float32 vectors, those of entities present only, and multiplies it by a factor."""

    leaf: str
    out: Buffer
    factor: np.float32 | None

    def run(self, inputs: RunInputs) -> None:
        """Write the leaf."""
        leaf, entities = inputs.leaves[self.leaf], self.out.entities
        if entities is None:
            leaf = leaf.reshape(inputs.rows, -1)
        else:
            leaf = leaf.reshape(-1, self.out.width)
            if not entities.is_full:
                leaf = leaf[entities.indices]
        target = self.out.base[: len(leaf), : self.out.width]
        if self.factor is None:
            target[...] = leaf
        else:
            np.multiply(leaf, self.factor, out=target, casting="unsafe")


@frozen
class OneHot:
    """Encodes one column of an integer leaf as one-hot vectors."""

    leaf: str
    column: int
    choices: np.ndarray  # [width]: value of the leaf for each output column
    out: Buffer

    def run(self, inputs: RunInputs) -> None:
        """Compare the column with the choices."""
        column = inputs.leaves[self.leaf].reshape(inputs.rows, -1)[:, self.column, None]
        np.equal(column, self.choices, out=self.out.base[: inputs.rows, : self.out.width])


@frozen
class Concatenate:
    """Copies columns next to each other."""

    parts: Sequence[Columns]
    out: Buffer

    def run(self, inputs: RunInputs) -> None:
        """Copy the parts."""
        rows, start = self.out.rows(inputs), 0
        for part in self.parts:
            stop = start + part.stop - part.start
            self.out.base[:rows, start:stop] = part.buffer.base[:rows, part.start : part.stop]
            start = stop


@frozen
class Dense:
    """Evaluates linear layers of the same input: one matrix product per span, with the weights of its slot."""

    position: int  # of the matrix in the lists of the weight table
    source: Buffer
    out: Buffer

    def run(self, inputs: RunInputs) -> None:
        """Multiply."""
        source, out = self.source.base[:, : self.source.width + 1], self.out.base[:, : self.out.width]
        weights, position = inputs.weights, self.position
        for slot, start, stop in self.source.spans(inputs):
            if start < stop:
                np.matmul(source[start:stop], weights[slot][position], out=out[start:stop])


@frozen
class Activation:
    """Applies a function to all elements, padding included."""

    function: Callable[..., Any]  # of an array, with the argument `out`
    source: Buffer
    out: Buffer  # may be the source
    keeps_ones: bool  # whether the function of 1 is 1

    def run(self, inputs: RunInputs) -> None:
        """Apply the function, and restore the ones."""
        rows = self.source.rows(inputs)
        if rows:
            out = self.out.base[:rows]
            self.function(self.source.base[:rows], out=out)
            if not self.keeps_ones:
                out[:, self.out.width] = 1.0


@frozen
class Broadcast:
    """Applies a function of two arguments to every row and a vector of weights."""

    function: Callable[..., Any]  # with the argument `out`
    position: int
    source: Buffer
    out: Buffer  # may be the source

    def run(self, inputs: RunInputs) -> None:
        """Apply the function."""
        source, out = self.source.base[:, : self.source.width], self.out.base[:, : self.out.width]
        for slot, start, stop in self.source.spans(inputs):
            self.function(source[start:stop], inputs.weights[slot][self.position], out=out[start:stop])


@frozen
class Choose:
    """Replaces the columns for which a vector of weights is false."""

    position: int
    other: Columns
    out: Buffer

    def run(self, inputs: RunInputs) -> None:
        """Copy the other columns."""
        other, out = self.other.view(inputs), self.out.base[:, : self.out.width]
        for slot, start, stop in self.out.spans(inputs):
            chosen = inputs.weights[slot][self.position]
            if not chosen.all():
                np.copyto(out[start:stop], other[start:stop], where=~chosen)


def relu(array: np.ndarray, *, zeros: np.ndarray, out: np.ndarray) -> None:
    """Write max(x, 0); NumPy is three times as fast with a row of zeros as with a number."""
    np.maximum(array, zeros, out=out)


def leaky_relu(array: np.ndarray, *, slope: np.float32, scratch: Buffer, out: np.ndarray) -> None:
    """Write max(x, slope · x), for slopes in [0, 1]."""
    np.maximum(array, np.multiply(array, slope, out=scratch.base[: len(array)]), out=out)


def clamp(array: np.ndarray, *, low: np.float32, high: np.float32, out: np.ndarray) -> None:
    """Write min(max(x, low), high)."""
    np.minimum(np.maximum(array, low, out=out), high, out=out)
