"""Arrays that a lean program keeps for every slot, and how they follow from the weights of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from attrs import frozen

#: Number of floats in a cache line.
LINE = 16

#: Parameters and buffers of a module by name.
Weights = Mapping[str, np.ndarray]


def aligned_zeros(rows: int, columns: int) -> np.ndarray:
    """Return zeros ``[rows, columns] float32`` aligned to a cache line, which NumPy's own arrays mostly are not.

    Vector instructions are slower on numbers that lie in two cache lines.
    """
    memory = np.zeros(rows * columns + LINE, np.float32)
    start = -memory.ctypes.data // memory.itemsize % LINE
    return memory[start : start + rows * columns].reshape(rows, columns)


class SlotArray(Protocol):
    """An array of every slot. Equal ones are kept once."""

    def allocate(self, weights: Weights) -> np.ndarray:
        """Return new memory for the array."""

    def fill(self, array: np.ndarray, weights: Weights) -> None:
        """Compute the array, in place."""


@frozen
class LinearWeights:
    """A matrix ``[inputs + 1, outputs]`` with the weights of linear layers, side by side; the last row is the bias.

    It is the transpose of torch's matrix: products are up to three times as fast for few rows.
    """

    layers: tuple[str, ...]

    def allocate(self, weights: Weights) -> np.ndarray:
        """Return new memory for the array."""
        inputs = weights[f"{self.layers[0]}.weight"].shape[1]
        return aligned_zeros(inputs + 1, sum(len(weights[f"{name}.weight"]) for name in self.layers))

    def fill(self, array: np.ndarray, weights: Weights) -> None:
        """Compute the array, in place."""
        start = 0
        for name in self.layers:
            weight = weights[f"{name}.weight"]
            stop = start + len(weight)
            array[:-1, start:stop] = weight.T
            if f"{name}.bias" in weights:
                array[-1, start:stop] = weights[f"{name}.bias"]
            start = stop


@frozen
class CellWeights:
    """A matrix ``[inputs + size + 1, 4 · size]`` with the weights of an LSTM or GRU; the last row is the bias.

    The columns are those of the gates: input, forget, output and cell of an LSTM; reset, update, and the new state's
    terms of input and state of a GRU. Gates with a sigmoid are halved, because ``sigmoid(x) = tanh(x / 2) / 2 + 1/2``.

    Args:
        kind: ``"lstm"`` or ``"gru"``.
        names: Weights of the input and of the state, biases of the input and of the state.
    """

    kind: str
    names: tuple[str, ...]

    def allocate(self, weights: Weights) -> np.ndarray:
        """Return new memory for the array."""
        (_, inputs), (_, size) = (weights[name].shape for name in self.names[:2])
        return aligned_zeros(inputs + size + 1, 4 * size)

    def fill(self, array: np.ndarray, weights: Weights) -> None:
        """Compute the array, in place."""
        of_input, of_state, input_bias, state_bias = (weights[name] for name in self.names)
        inputs, size = of_input.shape[1], of_state.shape[1]
        lstm = self.kind == "lstm"
        # for each quarter of the columns: the gate in torch's order, and whether it reads inputs and state
        reads_both = ((0, True, True), (1, True, True))
        rest = ((3, True, True), (2, True, True)) if lstm else ((2, True, False), (2, False, True))
        for number, (gate, reads_input, reads_state) in enumerate((*reads_both, *rest)):
            source, out = slice(gate * size, (gate + 1) * size), slice(number * size, (number + 1) * size)
            factor = 0.5 if number < (3 if lstm else 2) else 1.0
            array[:inputs, out] = of_input[source].T * factor if reads_input else 0.0
            array[inputs:-1, out] = of_state[source].T * factor if reads_state else 0.0
            array[-1, out] = (reads_input * input_bias[source] + reads_state * state_bias[source]) * factor


@frozen
class Parameter:
    """A parameter or buffer itself."""

    name: str

    def evaluate(self, weights: Weights) -> np.ndarray:
        """Return the array."""
        return weights[self.name]

    def allocate(self, weights: Weights) -> np.ndarray:
        """Return new memory for the array."""
        return np.empty_like(self.evaluate(weights))

    def fill(self, array: np.ndarray, weights: Weights) -> None:
        """Compute the array, in place."""
        array[...] = self.evaluate(weights)


@frozen
class Expression:
    """A function of parameters and numbers, such as ``1 / sqrt(variance + 1e-8)``."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def evaluate(self, weights: Weights) -> np.ndarray:
        """Return the array."""
        arguments = (
            one.evaluate(weights) if isinstance(one, Parameter | Expression) else one for one in self.arguments
        )
        return np.asarray(self.function(*arguments))

    def allocate(self, weights: Weights) -> np.ndarray:
        """Return new memory for the array."""
        return np.empty_like(self.evaluate(weights))

    def fill(self, array: np.ndarray, weights: Weights) -> None:
        """Compute the array, in place."""
        array[...] = self.evaluate(weights)


def reciprocal_root(array: np.ndarray) -> np.ndarray:
    """Return 1 / sqrt(x)."""
    root: np.ndarray = np.sqrt(array)
    return 1.0 / root
