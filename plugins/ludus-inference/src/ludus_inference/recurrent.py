"""Steps of recurrent cells: one product for all gates, then the new state."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from ludus_inference.steps import Buffer, Concatenate, Dense, RunInputs

_HALF = np.float32(0.5)


@frozen
class Cell:
    """The product of a cell.

    Args:
        join: Copies the input to the buffer that holds input and state ``h``, side by side.
        multiply: Multiplies them with `ludus_inference.weights.CellWeights`.
        state: Leaves of the state.
        out: New state ``h``.
    """

    join: Concatenate
    multiply: Dense
    state: tuple[str, ...]
    out: Buffer

    def compute_gates(self, inputs: RunInputs) -> np.ndarray:
        """Return the gates ``[n, 4 · size]`` before their sigmoid and tanh."""
        self.join.run(inputs)
        self.before(inputs)[...] = inputs.leaves[self.state[0]]
        self.multiply.run(inputs)
        return self.multiply.out.base[: inputs.rows, : self.multiply.out.width]

    def before(self, inputs: RunInputs) -> np.ndarray:
        """Return the copy of the state ``h`` before the step."""
        joined = self.join.out
        return joined.base[: inputs.rows, joined.width - self.out.width : joined.width]


@frozen
class LSTMCell:
    """Computes the state of an LSTM after a step."""

    cell: Cell
    after: Buffer  # new state c

    def run(self, inputs: RunInputs) -> None:
        """Compute the state; it may be in the memory of the state before."""
        rows, size = inputs.rows, self.after.width
        gates = self.cell.compute_gates(inputs)
        np.tanh(gates, out=gates)
        _finish_sigmoids(gates[:, : 3 * size])
        opened, forget, shown, new = (gates[:, i * size : (i + 1) * size] for i in range(4))
        after, out = self.after.base[:rows, :size], self.cell.out.base[:rows, :size]
        new *= opened
        np.multiply(forget, inputs.leaves[self.cell.state[1]], out=after)
        after += new
        np.tanh(after, out=out)
        out *= shown


@frozen
class GRUCell:
    """Computes the state of a GRU after a step."""

    cell: Cell

    def run(self, inputs: RunInputs) -> None:
        """Compute the state; it may be in the memory of the state before."""
        size = self.cell.out.width
        gates = self.cell.compute_gates(inputs)
        sigmoids = gates[:, : 2 * size]
        np.tanh(sigmoids, out=sigmoids)
        _finish_sigmoids(sigmoids)
        reset, update, new, of_state = (gates[:, i * size : (i + 1) * size] for i in range(4))
        out = self.cell.out.base[: inputs.rows, :size]
        of_state *= reset
        new += of_state
        np.tanh(new, out=new)
        np.subtract(self.cell.before(inputs), new, out=out)
        out *= update
        out += new


def _finish_sigmoids(halves: np.ndarray) -> None:
    """Compute sigmoid(x) from tanh(x / 2), in place."""
    halves *= _HALF
    halves += _HALF
