"""The steps of a lean program: NumPy calls on buffers that are allocated once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import define, field, frozen
from ludus.inference import Span

#: Slot → one weight matrix per dense step, each ``[inputs + 1, outputs] float32``; the last row is the bias.
WeightTable = Mapping[int, Sequence[np.ndarray]]

_LINE = 16  # floats in a cache line


def aligned_zeros(rows: int, columns: int) -> np.ndarray:
    """Return zeros ``[rows, columns] float32`` aligned to a cache line, which NumPy's own arrays mostly are not.

    Vector instructions are slower on numbers that lie in two cache lines.
    """
    memory = np.zeros(rows * columns + _LINE, np.float32)
    start = -memory.ctypes.data // memory.itemsize % _LINE
    return memory[start : start + rows * columns].reshape(rows, columns)


@define(eq=False)
class Buffer:
    """A matrix ``[capacity, width] float32`` with a column of ones on its right, so that products add the bias.

    Args:
        width: Number of columns without the ones.

    Attributes:
        base: ``[capacity, stride]``; columns after the ones are padding.
    """

    width: int
    base: np.ndarray = field(init=False)

    @property
    def stride(self) -> int:
        """Return the number of allocated columns."""
        return -(-(self.width + 1) // _LINE) * _LINE

    def allocate(self, capacity: int) -> None:
        """Allocate memory for this number of rows."""
        self.base = aligned_zeros(capacity, self.stride)
        self.base[:, self.width] = 1.0


@frozen
class RunInputs:
    """The inputs that all steps of a run share.

    Attributes:
        rows: n.
        leaves: ``[n, …]`` by group and name, for example ``"observation/board"``.
        weights: Weight matrices.
        spans: Rows of each slot; empty: all rows belong to slot 0.
    """

    rows: int
    leaves: Mapping[str, np.ndarray]
    weights: WeightTable
    spans: Sequence[Span]


class Step(Protocol):
    """Computes one buffer from leaves or other buffers."""

    @property
    def out(self) -> Buffer:
        """Return the buffer that the step writes."""

    def run(self, inputs: RunInputs) -> None:
        """Compute the first `inputs.rows` rows."""


@frozen
class Cast:
    """Converts a leaf to float32 vectors and multiplies it by a factor."""

    leaf: str
    out: Buffer
    factor: np.float32 | None

    def run(self, inputs: RunInputs) -> None:
        """Write the leaf."""
        leaf = inputs.leaves[self.leaf].reshape(inputs.rows, -1)
        target = self.out.base[: inputs.rows, : self.out.width]
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
    """Copies buffers next to each other."""

    parts: Sequence[Buffer]
    out: Buffer

    def run(self, inputs: RunInputs) -> None:
        """Copy the parts."""
        start = 0
        for part in self.parts:
            self.out.base[: inputs.rows, start : start + part.width] = part.base[: inputs.rows, : part.width]
            start += part.width


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
        for slot, start, stop in inputs.spans or (Span(0, 0, inputs.rows),):
            np.matmul(source[start:stop], weights[slot][position], out=out[start:stop])


@frozen
class Activation:
    """Applies a function to all elements, padding included, and restores the ones."""

    function: Callable[..., Any]  # of an array, with the argument `out`
    source: Buffer
    out: Buffer  # may be the source

    def run(self, inputs: RunInputs) -> None:
        """Apply the function."""
        out = self.out.base[: inputs.rows]
        self.function(self.source.base[: inputs.rows], out=out)
        out[:, self.out.width] = 1.0


def relu(array: np.ndarray, *, zeros: np.ndarray, out: np.ndarray) -> None:
    """Write max(x, 0); NumPy is three times as fast with a row of zeros as with a number."""
    np.maximum(array, zeros, out=out)


def leaky_relu(array: np.ndarray, *, slope: np.float32, scratch: Buffer, out: np.ndarray) -> None:
    """Write max(x, slope · x), for slopes in [0, 1]."""
    np.maximum(array, np.multiply(array, slope, out=scratch.base[: len(array)]), out=out)
