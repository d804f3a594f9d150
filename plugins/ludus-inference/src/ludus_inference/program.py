"""Lean programs, and the builder that adds steps to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import numpy as np
from attrs import define, field, frozen
from ludus.errors import UnsupportedNetwork
from torch import nn
from torch.fx import Node

from ludus_inference.entities import KeyLogits, Table
from ludus_inference.images import CopyImage, ImageValue
from ludus_inference.steps import Buffer, Cast, Columns, Concatenate, EntityRows, RunInputs, Step
from ludus_inference.weights import SlotArray, Weights


class Memory(Protocol):
    """Memory for the rows of a run."""

    def allocate(self, capacity: int) -> None:
        """Allocate memory for this number of rows."""


_M = TypeVar("_M", bound=Memory)


@define
class Program:
    """The steps that compute the heads and the state of a module.

    Attributes:
        arrays: Arrays of every slot.
        steps: Steps in order.
        memory: Buffers and tables; not allocated yet.
        heads: Columns of the results.
        state: Columns of the state after the step, or the name of the leaf where it is unchanged.
        capacity: Number of rows for which memory is allocated.
    """

    arrays: list[SlotArray]
    steps: list[Step] = field(factory=list)
    memory: list[Memory] = field(factory=list)
    heads: dict[str, Columns] = field(factory=dict)
    state: dict[str, Columns | str] = field(factory=dict)
    capacity: int = 0

    def reserve(self, rows: int) -> None:
        """Allocate more memory if a run has more rows than all runs before."""
        if rows > self.capacity:
            self.capacity = 1 << (rows - 1).bit_length()
            for memory in self.memory:
                memory.allocate(self.capacity)

    def new_state(self, inputs: RunInputs) -> dict[str, np.ndarray]:
        """Return the state after the steps have run, leaves ``[n, …]``."""
        return {
            name: inputs.leaves[source] if isinstance(source, str) else source.view(inputs)
            for name, source in self.state.items()
        }

    def keep(self, memory: _M) -> _M:
        """Add memory and return it."""
        self.memory.append(memory)
        return memory

    def new_buffer(self, width: int, entities: EntityRows | None = None) -> Buffer:
        """Add a buffer and return it."""
        return self.keep(Buffer(width, entities))

    def position(self, array: SlotArray) -> int:
        """Return the position of an array of every slot; add it if it is new."""
        if array not in self.arrays:
            self.arrays.append(array)
        return self.arrays.index(array)


# Symbolic values of graph nodes, besides columns, images, arrays of slots and plain Python values.

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
        axes: Order of the axes of an image; None: unchanged.
    """

    name: str
    tail: tuple[int, ...]
    integer: bool
    column: int | None = None
    shift: int = 0
    factor: float | None = None
    axes: tuple[int, ...] | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether the value is the whole leaf, as floats and with its axes in order."""
        return not self.integer and self.column is None and self.axes is None

    @property
    def numpy_factor(self) -> np.float32 | None:
        """Return the factor for steps."""
        return None if self.factor is None else np.float32(self.factor)


@frozen
class Presence:
    """Which entities are present, ``[n, E]``.

    Attributes:
        entities: The entities.
        trailing: Whether there is one more axis of length 1.
        inverted: Whether absent entities are true.
    """

    entities: EntityRows
    trailing: bool = False
    inverted: bool = False


@frozen
class KeyProducts:
    """Products of keys and queries, ``[n, E]``; those of absent entities are unknown."""

    keys: Columns
    query: Columns


@define
class ProgramBuilder:
    """Adds steps to a program while the nodes of a graph are lowered.

    Attributes:
        modules: Modules by name.
        weights: Parameters and buffers of the module by name, for their shapes.
        program: The program.
        values: Values of the nodes that are lowered.
        node: The node that is being lowered.
        origins: First node of each buffer or image; other nodes with the same memory are aliases.
        entities: Entities by the leaf that names those present, and by their number.
        casts: Buffers of leaves.
        images: Images of leaves.
    """

    modules: Mapping[str, nn.Module]
    weights: Weights
    program: Program
    values: dict[Node, Any] = field(factory=dict)
    node: Node = field(init=False)
    origins: dict[Buffer | ImageValue, Node] = field(factory=dict)
    entities: dict[tuple[str, int], EntityRows] = field(factory=dict)
    casts: dict[LeafValue, Columns] = field(factory=dict)
    images: dict[LeafValue, ImageValue] = field(factory=dict)

    def add(self, step: Step, out: Buffer, *, unfolded: bool = False) -> Columns:
        """Add a step and return the columns of the buffer that it writes."""
        self.program.steps.append(step)
        return Columns(out, 0, out.width, unfolded=unfolded)

    def new_table(self, source: Columns) -> Table:
        """Add a table for the features of entities and return it."""
        assert source.buffer.entities is not None
        return self.program.keep(Table(source.buffer.entities.per_row, source.width))

    def present_entities(self, leaf: str, per_row: int) -> EntityRows:
        """Return the entities that a leaf names; ``""``: all entities."""
        found = self.entities.get((leaf, per_row))
        if found is None:
            found = self.entities[leaf, per_row] = EntityRows(leaf, per_row)
            self.program.steps.append(found)
        return found

    def cast_entities(self, leaf: LeafValue, entities: EntityRows) -> Columns:
        """Add the conversion of a leaf ``[n, E, f]``, and return its columns."""
        out = self.program.new_buffer(leaf.tail[1], entities)
        return self.add(Cast(leaf.name, out, leaf.numpy_factor), out, unfolded=True)

    def as_columns(self, value: Any) -> Columns:
        """Return a value ``[n, width]`` or ``[n, E, width]`` as columns; add the step that converts it, if need be.

        Raises:
            UnsupportedNetwork: The value is something else.
        """
        if isinstance(value, Columns):
            return value
        if isinstance(value, LeafValue) and value.is_plain and len(value.tail) in (1, 2):
            if value not in self.casts:
                self.casts[value] = self._cast(value)
            return self.casts[value]
        if isinstance(value, ImageValue) and value.example.ndim == 2:
            out = self.program.new_buffer(value.example.shape[1])
            return self.add(CopyImage(value, out), out)
        if isinstance(value, KeyProducts) and not value.keys.buffer.entities.leaf:  # type: ignore[union-attr]
            return self.add_logits(value, absent=0.0)
        raise UnsupportedNetwork(f"{value} is not a float32 matrix")

    def _cast(self, leaf: LeafValue) -> Columns:
        """Add the conversion of a leaf ``[n, width]``, or of one with a row for each of its entities."""
        if len(leaf.tail) == 2:
            return self.cast_entities(leaf, self.present_entities("", leaf.tail[0]))
        out = self.program.new_buffer(leaf.tail[0])
        return self.add(Cast(leaf.name, out, leaf.numpy_factor), out)

    def add_logits(self, products: KeyProducts, *, absent: float) -> Columns:
        """Add the products of keys and queries, with a number for absent entities."""
        assert products.keys.buffer.entities is not None
        out = self.program.new_buffer(products.keys.buffer.entities.per_row)
        return self.add(KeyLogits(products.keys, products.query, absent, out), out)

    def as_buffer(self, value: Any) -> Buffer:
        """Return the buffer that consists of a value only; copy the value, if need be.

        Raises:
            UnsupportedNetwork: The value is not a matrix.
        """
        columns = self.as_columns(value)
        if columns.width == columns.buffer.width:
            return columns.buffer
        out = self.program.new_buffer(columns.width, columns.buffer.entities)
        return self.add(Concatenate((columns,), out), out).buffer

    def is_overwritable(self, source: Buffer | ImageValue, argument: Node | None = None) -> bool:
        """Return whether the present node may overwrite an argument of it: nothing else reads its memory."""
        argument = self.node.all_input_nodes[0] if argument is None else argument
        casts = [columns.buffer for columns in self.casts.values()]
        return len(argument.users) == 1 and self.origins.get(source, argument) is argument and source not in casts

    def is_joinable(self, node: Node) -> bool:
        """Return whether a node is a linear layer that can share a product with others: nothing overwrites it."""
        linear = node.op == "call_module" and type(self.modules[str(node.target)]) is nn.Linear
        return linear and all(user.op == "output" or user.target in ("split", "unsqueeze") for user in node.users)
