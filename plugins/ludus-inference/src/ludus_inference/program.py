"""Lean programs, and the builder that adds steps to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import define, field, frozen
from ludus.errors import UnsupportedNetwork
from torch import nn
from torch.fx import Node

from ludus_inference.steps import Buffer, Cast, Step


@frozen
class Columns:
    """Columns ``start`` to ``stop`` of a buffer."""

    buffer: Buffer
    start: int
    stop: int


@define
class Program:
    """The steps that compute the heads of a module.

    Attributes:
        layers: Names of the linear layers in each weight matrix, side by side.
        steps: Steps in order.
        buffers: All buffers; not allocated yet.
        heads: Columns of the results.
    """

    layers: list[tuple[str, ...]]
    steps: list[Step] = field(factory=list)
    buffers: list[Buffer] = field(factory=list)
    heads: dict[str, Columns] = field(factory=dict)

    def new_buffer(self, width: int) -> Buffer:
        """Add a buffer and return it."""
        self.buffers.append(Buffer(width))
        return self.buffers[-1]

    def matrix_position(self, layer: tuple[str, ...]) -> int:
        """Return the position of the weight matrix of these layers; add it if it is new."""
        if layer not in self.layers:
            self.layers.append(layer)
        return self.layers.index(layer)


# Symbolic values of graph nodes, besides buffers, columns and plain Python values.

#: The number of rows, which a module may read from a shape.
NUM_ROWS = object()


@frozen
class LeafGroup:
    """A group of leaves, an argument of the module."""

    name: str


@frozen
class LeafValue:
    """A leaf before its conversion to float32 vectors.

    Attributes:
        name: Group and name, for example ``"observation/board"``.
        tail: Shape of one row.
        integer: Whether the values are integers.
        column: Column of the flattened leaf; None: all columns.
        shift: Integer subtracted from the leaf.
        factor: Factor of the values.
    """

    name: str
    tail: tuple[int, ...]
    integer: bool
    column: int | None = None
    shift: int = 0
    factor: float | None = None


@define
class ProgramBuilder:
    """Adds steps to a program while the nodes of a graph are lowered.

    Attributes:
        modules: Modules by name.
        program: The program.
        values: Values of the nodes that are lowered.
        node: The node that is being lowered.
        origins: First node of each buffer; other nodes with the same buffer are aliases.
    """

    modules: Mapping[str, nn.Module]
    program: Program
    values: dict[Node, Any] = field(factory=dict)
    node: Node = field(init=False)
    origins: dict[Buffer, Node] = field(factory=dict)

    def add(self, step: Step) -> Buffer:
        """Add a step and return its buffer."""
        self.program.steps.append(step)
        return step.out

    def as_buffer(self, value: Any) -> Buffer:
        """Return the buffer of a value ``[n, width] float32``; add a `Cast` if the value is a leaf.

        Raises:
            UnsupportedNetwork: The value is not a float32 matrix.
        """
        if isinstance(value, Buffer):
            return value
        if not isinstance(value, LeafValue) or value.integer or len(value.tail) != 1 or value.column is not None:
            raise UnsupportedNetwork(f"{value} is not a float32 matrix")
        factor = None if value.factor is None else np.float32(value.factor)
        return self.add(Cast(value.name, self.program.new_buffer(value.tail[0]), factor))

    def is_overwritable(self, source: Buffer) -> bool:
        """Return whether the present node may write its result to the buffer of its argument."""
        argument = self.node.all_input_nodes[0]
        return len(argument.users) == 1 and self.origins.get(source, argument) is argument

    def is_head(self, node: Node) -> bool:
        """Return whether a node is a linear layer whose result is an output of the module."""
        linear = node.op == "call_module" and type(self.modules[str(node.target)]) is nn.Linear
        return linear and all(user.op == "output" for user in node.users)
