"""The inference contract: how samplers run a network to decide, as opposed to how learners differentiate it.

An inference *runtime* takes the module that a network plugin made and evaluates it for rows of NumPy arrays. It holds
the weights of one or several models of one architecture in numbered *slots* and evaluates all of them in one call.
`Eager` runs any module by torch; plugins offer faster runtimes for the modules that they understand.
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
    """Rows ``start`` to ``stop`` (exclusive) belong to the model in a slot."""

    slot: int
    start: int
    stop: int


class Outputs(NamedTuple):
    """What a network answers for n rows.

    Attributes:
        heads: ``[n, size] float32`` by name; critic heads are left out where privileged leaves were needed and missing.
        state: Recurrent state after the rows, leaves ``[n, …]``; empty for networks without.
    """

    heads: Mapping[str, np.ndarray]
    state: Leaves


class Inference(Protocol):
    """Evaluates one module with the weights of one or several models. Used by one thread; no autograd.

    Outputs depend on weights, rows and state alone.
    """

    def load(self, weights: Mapping[str, np.ndarray], *, slot: int = 0) -> None:
        """Copy the weights of a model into a slot, in place where the slot holds a model already.

        Args:
            weights: By the names of the module's parameters and buffers.
            slot: Any number ≥ 0.

        Raises:
            ModelError: Names or shapes do not fit; the slot is left as it was.
        """

    def drop(self, slot: int) -> None:
        """Forget the model in a slot and free its memory."""

    def run(self, observation: Leaves, *, privileged: Leaves, state: Leaves, spans: Sequence[Span] = ()) -> Outputs:
        """Evaluate n rows.

        Args:
            observation: Leaves ``[n, …]`` in the environment's dtypes.
            privileged: Leaves ``[n, …]`` for critic heads; empty for frozen models, unless opponents read values.
            state: Leaves ``[n, …]`` as returned by the last run; empty for networks without.
            spans: Which rows belong to which slot: all rows, in order, without gaps. Empty: all to slot 0.

        Returns:
            Arrays that belong to the runtime and are overwritten by its next run.
        """


class Eager:
    """Runs any module by torch, slot by slot: the runtime where no plugin offers a faster one.

    Args:
        module: With the forward signature of `ludus.network`; slot 0 lives in it.
        request: What it was made for.
    """

    def __init__(self, module: nn.Module, request: NetworkRequest) -> None:  # noqa: ARG002 - as all runtimes
        self._module = module.eval()
        self._slots: dict[int, dict[str, Tensor]] = {}  # all but 0

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
        """Forget a model; slot 0 keeps its memory."""
        self._slots.pop(slot, None)

    def run(self, observation: Leaves, *, privileged: Leaves, state: Leaves, spans: Sequence[Span] = ()) -> Outputs:
        """Evaluate n rows; see `Inference.run`."""
        import torch  # noqa: PLC0415 - the contract above is read by processes that never run a network

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
