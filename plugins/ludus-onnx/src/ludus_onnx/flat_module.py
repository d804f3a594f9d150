"""Modules over groups of named leaves as modules over a flat list of tensors, which exporters can name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from attrs import frozen
from ludus.network import to_tensor
from torch import Tensor, nn

#: Groups of leaves that decision modules and networks are called with, in order.
DECISION_GROUPS = ("observation", "action_mask", "state")
NETWORK_GROUPS = ("observation", "privileged", "state")

Arrays = Mapping[str, np.ndarray]


class FlatModule(nn.Module):
    """A module whose arguments and results are tensors in a fixed order.

    Args:
        module: Module that is called with one argument per group and returns named outputs and the new state.
        groups: Names of the groups, in the order of its arguments.
        inputs: Names of the tensors: ``"GROUP/LEAF"`` for a leaf of a group, ``"GROUP"`` for a group of one tensor.
    """

    def __init__(self, module: nn.Module, groups: Sequence[str], inputs: Sequence[str]) -> None:
        super().__init__()
        self.module = module
        self._groups, self._inputs = tuple(groups), tuple(inputs)

    def call(self, tensors: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the outputs ``[n, …]`` and the new state, with names ``"next_state/LEAF"``, by name."""
        leaves: dict[str, dict[str, Tensor]] = {group: {} for group in self._groups}
        single: dict[str, Tensor | None] = {"action_mask": None}
        for name, tensor in zip(self._inputs, tensors, strict=True):
            group, is_leaf, leaf = name.partition("/")
            if is_leaf:
                leaves[group][leaf] = tensor
            else:
                single[group] = tensor
        outputs, state = self.module(*(single[g] if g in single else leaves[g] for g in self._groups))
        return {**outputs, **{f"next_state/{name}": leaf for name, leaf in state.items()}}

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the values of `call`."""
        return tuple(self.call(tensors).values())


@frozen(kw_only=True)
class Exportable:
    """A module, and rows that it is exported and checked with.

    Attributes:
        module: The module, in evaluation mode.
        inputs: Rows of every input, ``[n, …]``, in the order of the module's arguments; n ≥ 2.
        outputs: What it shall return for them, ``[n, …]``.
    """

    module: FlatModule
    inputs: Arrays
    outputs: Arrays


def make_exportable(module: nn.Module, groups: Sequence[str], inputs: Arrays) -> Exportable:
    """Return a module with its outputs for some rows.

    Args:
        module: Module that is called with one argument per group.
        groups: Names of the groups, in the order of its arguments.
        inputs: Rows of every input ``[n, …]``, by names as those of `FlatModule`.
    """
    flat = FlatModule(module, groups, tuple(inputs)).eval()
    with torch.inference_mode():
        outputs = flat.call(tensors(inputs))
    return Exportable(
        module=flat, inputs=dict(inputs), outputs={name: tensor.numpy().copy() for name, tensor in outputs.items()}
    )


def tensors(arrays: Arrays) -> tuple[Tensor, ...]:
    """Return the arrays as tensors, in order."""
    return tuple(to_tensor(np.ascontiguousarray(array)) for array in arrays.values())
