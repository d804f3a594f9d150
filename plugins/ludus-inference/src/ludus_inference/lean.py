"""The runtime ``lean``: small networks as a short list of NumPy calls.

Products run in the BLAS that NumPy is built with, or in torch's MKL where that is faster, straight into buffers that
are allocated once for the largest number of rows seen. Biases ride along as one more input that is always 1.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
from ludus.environment import Leaves
from ludus.inference import Outputs, Span
from ludus.network import NetworkRequest, check_shapes
from threadpoolctl import ThreadpoolController
from torch import nn

from ludus_inference.program import lower
from ludus_inference.steps import CompiledCall, aligned_zeros

__all__ = ["Lean", "make_lean"]


class Lean:
    """Runs a lowered network; see `ludus.inference.Inference`.

    Args:
        module: The network; its weights are copied into slot 0.
        request: What it was made for.

    Raises:
        UnsupportedNetwork: The network does something that no step does.
    """

    def __init__(self, module: nn.Module, request: NetworkRequest) -> None:
        module.eval()
        self._layers: list[tuple[str, ...]] = []
        self._blind = lower(module, request, privileged=False, layers=self._layers)
        self._seeing = self._blind
        if request.privileged:
            self._seeing = lower(module, request, privileged=True, layers=self._layers)
        self._table: dict[int, list[np.ndarray]] = {}
        self._spare: list[np.ndarray] = []  # memory of the model dropped last: new memory takes as long as to fill it
        self._capacity = 0
        state = module.state_dict()
        self._shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
        self.load({name: tensor.numpy() for name, tensor in state.items()})

    def load(self, weights: Mapping[str, np.ndarray], *, slot: int = 0) -> None:
        """Copy the weights of a model into a slot; see `ludus.inference.Inference.load`."""
        check_shapes(weights, self._shapes)
        if slot not in self._table:
            self._table[slot] = self._spare or [_matrix(layer, weights) for layer in self._layers]
            self._spare = []
        for matrix, layer in zip(self._table[slot], self._layers, strict=True):
            _fill(matrix, layer, weights)

    def drop(self, slot: int) -> None:
        """Forget the model in a slot; the next one loaded takes its memory."""
        self._spare = self._table.pop(slot, self._spare)

    def run(self, observation: Leaves, *, privileged: Leaves, state: Leaves, spans: Sequence[Span] = ()) -> Outputs:
        """Evaluate n rows; see `ludus.inference.Inference.run`."""
        leaves = {f"observation/{name}": leaf for name, leaf in observation.items()}
        leaves |= {f"privileged/{name}": leaf for name, leaf in privileged.items()}
        rows = len(next(iter(leaves.values())))
        if rows > self._capacity:
            self._grow(rows)
        program = self._seeing if privileged else self._blind
        call = CompiledCall(rows, leaves, self._table, spans)
        for step in program.steps:
            step.run(call)
        heads = {name: head.buffer.base[:rows, head.start : head.stop] for name, head in program.heads.items()}
        return Outputs(heads, state)

    def _grow(self, rows: int) -> None:
        self._capacity = 1 << (rows - 1).bit_length()
        for program in (self._blind, self._seeing):
            for buffer in program.buffers:
                buffer.allocate(self._capacity)


def _matrix(layer: Sequence[str], weights: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return memory for the weights of linear layers side by side, ``[inputs + 1, outputs]``."""
    inputs = weights[f"{layer[0]}.weight"].shape[1]
    outputs = sum(len(weights[f"{name}.weight"]) for name in layer)
    return aligned_zeros(inputs + 1, outputs)  # not as torch has it: few rows are up to three times as fast so


def _fill(matrix: np.ndarray, layer: Sequence[str], weights: Mapping[str, np.ndarray]) -> None:
    start = 0
    for name in layer:
        weight = weights[f"{name}.weight"]
        stop = start + len(weight)
        matrix[:-1, start:stop] = weight.T
        if f"{name}.bias" in weights:
            matrix[-1, start:stop] = weights[f"{name}.bias"]
        start = stop


def make_lean(config: None, *, module: nn.Module, request: NetworkRequest) -> Lean:  # noqa: ARG001
    """Make the runtime; the factory of the component.

    NumPy's BLAS is held to one thread, unless ``OPENBLAS_NUM_THREADS`` says otherwise: for products this small, threads
    cost more than they bring.

    Raises:
        UnsupportedNetwork: The network does something that no step does.
    """
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        ThreadpoolController().select(internal_api="openblas").limit(limits=1)
    return Lean(module, request)
