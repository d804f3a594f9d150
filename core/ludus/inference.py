"""The inference contract: how samplers evaluate networks without gradients.

An inference *runtime* evaluates a module for rows of NumPy arrays. It holds the weights of one or several models of one
architecture in numbered *slots* and evaluates all of them in one call. `Eager` runs any module in torch. Plugins
register faster runtimes for the modules that they support.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ludus.network import NetworkRequest, copy_arrays, set_weights, to_tensor

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ludus.environment import Leaves

__all__ = ["Eager", "Inference", "Outputs", "Span"]


class Span(NamedTuple):
    """Rows ``start`` to ``stop`` (exclusive), which belong to the model in a slot."""

    slot: int
    start: int
    stop: int


class Outputs(NamedTuple):
    """Outputs of a network for n rows.

    Attributes:
        heads: ``[n, size] float32`` by name, without critic heads if they need privileged leaves that are missing.
        state: Recurrent state after the rows, leaves ``[n, …]``; empty if there is none.
    """

    heads: Mapping[str, np.ndarray]
    state: Leaves


class Inference(Protocol):
    """Evaluates one module with the weights of one or several models. Used by one thread; no autograd.

    Outputs of a row depend on weights, the row and its state only.
    """

    def load(self, weights: Mapping[str, np.ndarray], *, slot: int = 0) -> None:
        """Copy the weights of a model into a slot, in place if the slot holds a model.

        Args:
            weights: Arrays by the names of the module's parameters and buffers.
            slot: Integer ≥ 0.

        Raises:
            ModelError: Names or shapes do not fit; the slot is unchanged.
        """

    def drop(self, slot: int) -> None:
        """Drop the model in a slot and free its memory."""

    def run(self, observation: Leaves, *, privileged: Leaves, state: Leaves, spans: Sequence[Span] = ()) -> Outputs:
        """Evaluate n rows.

        Args:
            observation: Leaves ``[n, …]`` in the environment's dtypes.
            privileged: Leaves ``[n, …]`` for critic heads; empty for frozen models, unless opponents record values.
            state: Leaves ``[n, …]`` of the last run; empty for networks without recurrent state.
            spans: Rows of each slot: all rows, in order, without gaps. Empty: all rows belong to slot 0.

        Returns:
            Arrays of the runtime, which its next run overwrites.
        """


class Eager:
    """Runs any module in torch, one slot after the other.

    Args:
        module: Module with the forward signature of `ludus.network`; it holds the weights of slot 0.
        request: Request that the module was made for.
    """

    def __init__(self, module: nn.Module, request: NetworkRequest) -> None:  # noqa: ARG002 - as all runtimes
        self._module = module.eval()
        self._slots: dict[int, dict[str, Tensor]] = {}  # all slots except 0

    def load(self, weights: Mapping[str, np.ndarray], *, slot: int = 0) -> None:
        """Copy the weights of a model into a slot; see `Inference.load`."""
        if slot == 0:
            set_weights(self._module, weights)
            return
        held = self._slots.get(slot)
        if held is None:
            held = {name: tensor.new_empty(tensor.shape) for name, tensor in self._module.state_dict().items()}
        copy_arrays(weights, into=held)
        self._slots[slot] = held

    def drop(self, slot: int) -> None:
        """Drop a model; slot 0 keeps its memory."""
        self._slots.pop(slot, None)

    def run(self, observation: Leaves, *, privileged: Leaves, state: Leaves, spans: Sequence[Span] = ()) -> Outputs:
        """Evaluate n rows; see `Inference.run`."""
        import torch  # noqa: PLC0415 - processes that never run a network import the contract too

        leaves = tuple(_tensors(group) for group in (observation, privileged, state))
        with torch.inference_mode():
            if not spans:
                return Outputs(*map(_arrays, self.forward(leaves, 0)))
            parts = [self.forward(tuple(_rows(group, span) for group in leaves), span.slot) for span in spans]
            return Outputs(*(_joined(groups) for groups in zip(*parts, strict=True)))

    def forward(self, leaves: tuple[dict[str, Tensor], ...], slot: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return heads and state of one slot for the groups of leaves (observation, privileged, state)."""
        from torch.func import functional_call  # noqa: PLC0415 - as above

        heads, state = functional_call(self._module, self._slots[slot], leaves) if slot else self._module(*leaves)
        return heads, state


def _tensors(group: Leaves) -> dict[str, Tensor]:
    return {name: to_tensor(leaf) for name, leaf in group.items()}


def _rows(group: dict[str, Tensor], span: Span) -> dict[str, Tensor]:
    return {name: leaf[span.start : span.stop] for name, leaf in group.items()}


def _joined(groups: Sequence[dict[str, Tensor]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([group[name].numpy() for group in groups]) for name in groups[0]}


def _arrays(group: dict[str, Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in group.items()}
