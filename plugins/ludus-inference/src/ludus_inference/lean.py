"""The runtime ``lean``: small networks as a short list of NumPy calls.

Results are written to buffers that are allocated once for the largest number of rows so far. Biases are weights of an
additional input that is always 1.
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

from ludus_inference.lowering import lower
from ludus_inference.steps import RunInputs, aligned_zeros


class Lean:
    """Runs a lowered network; see `ludus.inference.Inference`.

    Args:
        module: Network; its weights are copied into slot 0.
        request: Request that the network was made for.

    Raises:
        UnsupportedNetwork: The network uses an operation without a step.
    """

    def __init__(self, module: nn.Module, request: NetworkRequest) -> None:
        module.eval()
        self._layers: list[tuple[str, ...]] = []
        self._program = lower(module, request, privileged=False, layers=self._layers)
        self._privileged_program = self._program
        if request.privileged:
            self._privileged_program = lower(module, request, privileged=True, layers=self._layers)
        self._weights: dict[int, list[np.ndarray]] = {}  # by slot
        self._spare: list[np.ndarray] = []  # memory of the last dropped model: new memory is as slow as filling it
        self._capacity = 0
        state = module.state_dict()
        self._shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
        self.load({name: tensor.numpy() for name, tensor in state.items()})

    def load(self, weights: Mapping[str, np.ndarray], *, slot: int = 0) -> None:
        """Copy the weights of a model into a slot; see `ludus.inference.Inference.load`."""
        check_shapes(weights, self._shapes)
        if slot not in self._weights:
            self._weights[slot] = self._spare or [_new_matrix(layer, weights) for layer in self._layers]
            self._spare = []
        for matrix, layer in zip(self._weights[slot], self._layers, strict=True):
            _fill(matrix, layer, weights)

    def drop(self, slot: int) -> None:
        """Drop the model in a slot; the next new slot reuses its memory."""
        self._spare = self._weights.pop(slot, self._spare)

    def run(self, observation: Leaves, *, privileged: Leaves, state: Leaves, spans: Sequence[Span] = ()) -> Outputs:
        """Evaluate n rows; see `ludus.inference.Inference.run`."""
        leaves = {f"observation/{name}": leaf for name, leaf in observation.items()}
        leaves |= {f"privileged/{name}": leaf for name, leaf in privileged.items()}
        rows = len(next(iter(leaves.values())))
        if rows > self._capacity:
            self._grow(rows)
        program = self._privileged_program if privileged else self._program
        inputs = RunInputs(rows, leaves, self._weights, spans)
        for step in program.steps:
            step.run(inputs)
        heads = {name: head.buffer.base[:rows, head.start : head.stop] for name, head in program.heads.items()}
        return Outputs(heads, state)

    def _grow(self, rows: int) -> None:
        self._capacity = 1 << (rows - 1).bit_length()
        for program in (self._program, self._privileged_program):
            for buffer in program.buffers:
                buffer.allocate(self._capacity)


def _new_matrix(layer: Sequence[str], weights: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return a matrix ``[inputs + 1, outputs]`` for the weights of linear layers, side by side."""
    inputs = weights[f"{layer[0]}.weight"].shape[1]
    outputs = sum(len(weights[f"{name}.weight"]) for name in layer)
    return aligned_zeros(inputs + 1, outputs)  # the transpose of torch's: up to three times as fast for few rows


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

    Limits OpenBLAS to one thread unless ``OPENBLAS_NUM_THREADS`` is set: threads do not pay for products this small.

    Raises:
        UnsupportedNetwork: The network uses an operation without a step.
    """
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        ThreadpoolController().select(internal_api="openblas").limit(limits=1)
    return Lean(module, request)
