"""The runtime ``lean``: networks as a short list of NumPy calls.

Results are written to buffers that are allocated once for the largest number of rows so far. Biases are weights of an
additional input that is always 1.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
from ludus.environment import Leaves
from ludus.errors import ContractError
from ludus.inference import Outputs, Span
from ludus.network import NetworkRequest, check_shapes
from threadpoolctl import ThreadpoolController
from torch import nn

from ludus_inference.lowering import lower
from ludus_inference.steps import RunInputs
from ludus_inference.weights import SlotArray


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
        self._arrays: list[SlotArray] = []
        self._program = lower(module, request, privileged=False, arrays=self._arrays)
        self._privileged_program = self._program
        if request.privileged:
            self._privileged_program = lower(module, request, privileged=True, arrays=self._arrays)
        self._weights: dict[int, list[np.ndarray]] = {}  # by slot, in the order of the arrays
        self._spare: list[np.ndarray] = []  # memory of the last dropped model: new memory is as slow as filling it
        state = module.state_dict()
        self._shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
        buffers = module.named_buffers(remove_duplicate=False)
        self._constants = {name: buffer.numpy() for name, buffer in buffers if name not in state}
        self.load({name: tensor.numpy() for name, tensor in state.items()})

    def load(self, weights: Mapping[str, np.ndarray], *, slot: int = 0) -> None:
        """Copy the weights of a model into a slot; see `ludus.inference.Inference.load`."""
        check_shapes(weights, self._shapes)
        weights = {**self._constants, **weights}
        if slot not in self._weights:
            self._weights[slot] = self._spare or [array.allocate(weights) for array in self._arrays]
            self._spare = []
        for memory, array in zip(self._weights[slot], self._arrays, strict=True):
            array.fill(memory, weights)

    def drop(self, slot: int) -> None:
        """Drop the model in a slot; the next new slot reuses its memory."""
        self._spare = self._weights.pop(slot, self._spare)

    def run(self, observation: Leaves, *, privileged: Leaves, state: Leaves, spans: Sequence[Span] = ()) -> Outputs:
        """Evaluate n rows; see `ludus.inference.Inference.run`."""
        leaves = {f"observation/{name}": leaf for name, leaf in observation.items()}
        leaves |= {f"privileged/{name}": leaf for name, leaf in privileged.items()}
        leaves |= {f"state/{name}": leaf for name, leaf in state.items()}
        rows = len(next(iter(leaves.values())))
        program = self._privileged_program if privileged else self._program
        if program.state and not state:
            raise ContractError("the network is recurrent: callers must pass its state")
        program.reserve(rows)
        inputs = RunInputs(rows, leaves, self._weights, spans or (Span(0, 0, rows),))
        for step in program.steps:
            step.run(inputs)
        heads = {name: head.view(inputs) for name, head in program.heads.items()}
        return Outputs(heads, program.new_state(inputs))


def make_lean(config: None, *, module: nn.Module, request: NetworkRequest) -> Lean:  # noqa: ARG001
    """Make the runtime; the factory of the component.

    Limits OpenBLAS to one thread unless ``OPENBLAS_NUM_THREADS`` is set: threads do not pay for products this small.

    Raises:
        UnsupportedNetwork: The network uses an operation without a step.
    """
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        ThreadpoolController().select(internal_api="openblas").limit(limits=1)
    return Lean(module, request)
