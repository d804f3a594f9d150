"""Lowering of single operations: functions from symbolic arguments to a symbolic result.

Each function gets the builder and the arguments of the operation; layers get themselves as `module`. It returns
`NotImplemented` for arguments that it does not support.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from attrs import evolve
from gymnasium import Space
from torch import nn
from torch.nn import functional

from ludus_inference.program import NUM_ROWS, Columns, LeafGroup, LeafValue, ProgramBuilder
from ludus_inference.steps import Activation, Buffer, Concatenate, Dense, OneHot, leaky_relu, relu


def leaf_value(group: LeafGroup, name: str, spaces: Mapping[str, Mapping[str, Space[Any]]]) -> LeafValue:
    """Return the value of a leaf of a group."""
    space = spaces[group.name][name]
    integer = np.dtype(space.dtype).kind in "iub"
    return LeafValue(f"{group.name}/{name}", tuple(space.shape or ()), integer=integer)


# -- shapes: no numbers change ---------------------------------------------------------------------------------------


def _getitem(_: ProgramBuilder, value: Any, index: Any) -> Any:
    """Return an entry of a shape or a column of a leaf."""
    if isinstance(value, tuple):
        return value[index]
    rows, column = index
    flat = isinstance(value, LeafValue) and len(value.tail) == 1 and value.column is None
    return evolve(value, tail=(), column=column) if flat and rows == slice(None) else NotImplemented


def _getattr(_: ProgramBuilder, value: Any, name: str) -> Any:
    """Return the shape of a leaf."""
    return (NUM_ROWS, *value.tail) if name == "shape" and isinstance(value, LeafValue) else NotImplemented


def _reshape(builder: ProgramBuilder, value: Any, *shape: Any) -> Any:
    """Flatten each row."""
    rows, *rest = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
    return _flatten(builder, value) if rows is NUM_ROWS and rest == [-1] else NotImplemented


def _flatten(_: ProgramBuilder, value: Any, start_dim: int = 1, *, module: nn.Flatten | None = None) -> Any:
    """Flatten each row."""
    if module is not None and module.end_dim != -1:
        return NotImplemented
    if (start_dim if module is None else module.start_dim) != 1:
        return NotImplemented
    if isinstance(value, LeafValue) and value.column is None:
        return evolve(value, tail=(math.prod(value.tail),))
    return value if isinstance(value, Buffer) else NotImplemented


def _unsqueeze(_: ProgramBuilder, value: Any, axis: int) -> Any:
    """Return scalars as vectors of length 1."""
    scalar = isinstance(value, LeafValue) and value.tail == () and value.column is None
    return evolve(value, tail=(1,)) if scalar and axis in (1, -1) else NotImplemented


def _identity(_: ProgramBuilder, value: Any, *, module: nn.Module | None = None) -> Any:  # noqa: ARG001 - a layer
    """Return the value; dropout does nothing in evaluation mode."""
    return value


# -- conversion of leaves to matrices --------------------------------------------------------------------------------


def _to_float(_: ProgramBuilder, value: Any) -> Any:
    """Convert to float32."""
    if isinstance(value, LeafValue) and value.column is None and value.shift == 0:
        return evolve(value, integer=False)
    return value if isinstance(value, Buffer) else NotImplemented


def _to_integer(_: ProgramBuilder, value: Any) -> Any:
    """Convert to int64."""
    return value if isinstance(value, LeafValue) and value.integer else NotImplemented


def _subtract(_: ProgramBuilder, value: Any, number: Any) -> Any:
    """Subtract an integer from an integer leaf."""
    supported = isinstance(value, LeafValue) and value.integer and isinstance(number, int)
    return evolve(value, shift=value.shift + number) if supported else NotImplemented


def _multiply(_: ProgramBuilder, value: Any, number: Any) -> Any:
    """Multiply a float leaf by a number."""
    if not isinstance(value, LeafValue) or value.integer or not isinstance(number, (int, float)):
        return NotImplemented
    return evolve(value, factor=(1.0 if value.factor is None else value.factor) * number)


def _divide(builder: ProgramBuilder, value: Any, number: Any) -> Any:
    """Divide a float leaf by a number."""
    return _multiply(builder, value, 1.0 / number)


def _one_hot(builder: ProgramBuilder, value: Any, num_classes: int) -> Any:
    """Encode one column of a leaf as one-hot vectors."""
    if not isinstance(value, LeafValue) or value.tail != () or num_classes < 1:
        return NotImplemented
    choices = np.arange(num_classes) + value.shift
    return builder.add(OneHot(value.name, value.column or 0, choices, builder.program.new_buffer(num_classes)))


# -- matrices --------------------------------------------------------------------------------------------------------


def _concatenate(builder: ProgramBuilder, parts: Sequence[Any], dim: int = 0) -> Any:
    """Concatenate vectors."""
    if dim not in (1, -1):
        return NotImplemented
    if len(parts) == 1:
        return parts[0]
    buffers = [builder.as_buffer(part) for part in parts]
    return builder.add(Concatenate(buffers, builder.program.new_buffer(sum(buffer.width for buffer in buffers))))


def _linear(builder: ProgramBuilder, value: Any, *, module: nn.Linear) -> Any:  # noqa: ARG001 - found by its node
    """Apply a linear layer; heads on the same features share one product."""
    node = builder.node
    group = [node]
    if builder.is_head(node):
        group = [user for user in node.all_input_nodes[0].users if builder.is_head(user)]
    names = [str(member.target) for member in group]
    layers: list[Any] = [builder.modules[name] for name in names]
    bounds: list[int] = [0, *accumulate(layer.out_features for layer in layers)]
    position = builder.program.matrix_position(tuple(name.removeprefix("network.") for name in names))
    out = builder.add(Dense(position, builder.as_buffer(value), builder.program.new_buffer(bounds[-1])))
    if len(group) == 1:
        return out
    builder.values |= {member: Columns(out, *ends) for member, ends in zip(group, pairwise(bounds), strict=True)}
    return builder.values[node]


def _tanh(builder: ProgramBuilder, value: Any, *, module: nn.Tanh | None = None) -> Any:  # noqa: ARG001 - no options
    """Apply tanh."""
    return _activate(builder, builder.as_buffer(value), np.tanh)


def _relu(builder: ProgramBuilder, value: Any, *, inplace: bool = False, module: nn.ReLU | None = None) -> Any:
    """Apply max(x, 0)."""
    source = builder.as_buffer(value)
    function = partial(relu, zeros=np.zeros(source.stride, np.float32))
    return _activate(builder, source, function, inplace=inplace if module is None else module.inplace)


def _leaky_relu(
    builder: ProgramBuilder,
    value: Any,
    negative_slope: float = 0.01,
    *,
    inplace: bool = False,
    module: nn.LeakyReLU | None = None,
) -> Any:
    """Apply max(x, slope · x)."""
    if module is not None:
        negative_slope, inplace = module.negative_slope, module.inplace
    if not 0 <= negative_slope <= 1:
        return NotImplemented
    source = builder.as_buffer(value)
    scratch = builder.program.new_buffer(source.width)
    function = partial(leaky_relu, slope=np.float32(negative_slope), scratch=scratch)
    return _activate(builder, source, function, inplace=inplace)


def _activate(builder: ProgramBuilder, source: Buffer, function: Callable[..., Any], *, inplace: bool = False) -> Any:
    """Apply a function to every element, in place if no other node reads the argument."""
    overwritable = builder.is_overwritable(source)
    if inplace and not overwritable:
        return NotImplemented
    out = source if overwritable else builder.program.new_buffer(source.width)
    return builder.add(Activation(function, source, out))


#: Layer class, function or method name → function of this module.
OPERATIONS: Mapping[Any, Callable[..., Any]] = {
    nn.Dropout: _identity,
    nn.Flatten: _flatten,
    nn.Identity: _identity,
    nn.LeakyReLU: _leaky_relu,
    nn.Linear: _linear,
    nn.ReLU: _relu,
    nn.Tanh: _tanh,
    functional.leaky_relu: _leaky_relu,
    functional.one_hot: _one_hot,
    functional.relu: _relu,
    functional.tanh: _tanh,
    getattr: _getattr,
    operator.getitem: _getitem,
    operator.mul: _multiply,
    operator.sub: _subtract,
    operator.truediv: _divide,
    torch.cat: _concatenate,
    torch.concat: _concatenate,
    torch.flatten: _flatten,
    torch.relu: _relu,
    torch.tanh: _tanh,
    "flatten": _flatten,
    "float": _to_float,
    "int": _to_integer,
    "long": _to_integer,
    "relu": _relu,
    "reshape": _reshape,
    "tanh": _tanh,
    "unsqueeze": _unsqueeze,
    "view": _reshape,
}
