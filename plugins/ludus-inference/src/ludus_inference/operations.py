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
from ludus.errors import UnsupportedNetwork
from torch import nn
from torch.nn import functional

from ludus_inference.program import NUM_ROWS, LeafGroup, LeafValue, ProgramBuilder
from ludus_inference.recurrent import Cell, GRUCell, LSTMCell
from ludus_inference.steps import (
    Activation,
    Broadcast,
    Choose,
    Columns,
    Concatenate,
    Dense,
    OneHot,
    clamp,
    leaky_relu,
    relu,
)
from ludus_inference.weights import CellWeights, Expression, LinearWeights, Parameter, reciprocal_root

#: Groups of leaves by name: the shape of one row of each leaf, and whether it holds integers.
LeafShapes = Mapping[str, Mapping[str, tuple[tuple[int, ...], bool]]]

_WEIGHTS = (Parameter, Expression)


def leaf_value(group: LeafGroup, name: str, shapes: LeafShapes) -> LeafValue:
    """Return the value of a leaf of a group."""
    tail, integer = shapes[group.name][name]
    return LeafValue(f"{group.name}/{name}", tail, integer=integer)


# -- shapes: no numbers change ---------------------------------------------------------------------------------------


def _getitem(_: ProgramBuilder, value: Any, index: Any) -> Any:
    """Return an entry of a shape or a column of a leaf."""
    if isinstance(value, tuple | list):
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
    if isinstance(value, LeafValue) and value.column is None and value.axes is None:
        return evolve(value, tail=(math.prod(value.tail),))
    return value if _is_matrix(value) else NotImplemented


def _is_matrix(value: Any) -> bool:
    """Return whether a value has one row of features per row of the run."""
    return isinstance(value, Columns) and value.buffer.entities is None


def _split(_: ProgramBuilder, value: Any, sizes: Any, dim: int = 0) -> Any:
    """Split the last axis."""
    if not isinstance(value, Columns) or dim not in (-1, 2 if value.unfolded else 1) or not isinstance(sizes, list):
        return NotImplemented
    bounds = [value.start, *accumulate(sizes, initial=value.start)][1:]
    return tuple(evolve(value, start=start, stop=stop) for start, stop in pairwise(bounds))


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
    return value if isinstance(value, Columns) else NotImplemented


def _to_integer(_: ProgramBuilder, value: Any) -> Any:
    """Convert to int64."""
    return value if isinstance(value, LeafValue) and value.integer else NotImplemented


def _subtract(builder: ProgramBuilder, value: Any, number: Any) -> Any:
    """Subtract an integer from an integer leaf, or weights from features."""
    if not isinstance(number, int):
        return _with_weights(builder, value, number, compute=np.subtract, of_weights=operator.sub)
    supported = isinstance(value, LeafValue) and value.integer
    return evolve(value, shift=value.shift + number) if supported else NotImplemented


def _multiply(builder: ProgramBuilder, value: Any, number: Any) -> Any:
    """Multiply a float leaf by a number, or features by weights."""
    if isinstance(number, _WEIGHTS):
        return _with_weights(builder, value, number, compute=np.multiply, of_weights=operator.mul)
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
    out = builder.program.new_buffer(num_classes)
    return builder.add(OneHot(value.name, value.column or 0, choices, out), out)


# -- matrices --------------------------------------------------------------------------------------------------------


def _concatenate(builder: ProgramBuilder, parts: Sequence[Any], dim: int = 0) -> Any:
    """Concatenate vectors."""
    if dim not in (1, -1):
        return NotImplemented
    if len(parts) == 1:
        return parts[0]
    columns = [builder.as_columns(part) for part in parts]
    if not all(_is_matrix(part) for part in columns):
        return NotImplemented
    out = builder.program.new_buffer(sum(part.width for part in columns))
    return builder.add(Concatenate(columns, out), out)


def _linear(builder: ProgramBuilder, value: Any, *, module: nn.Linear) -> Any:  # noqa: ARG001 - found by its node
    """Apply a linear layer; those on the same features share one product, unless an activation follows."""
    node = builder.node
    group = [node]
    if builder.is_joinable(node):
        group = [user for user in node.all_input_nodes[0].users if builder.is_joinable(user)]
    names = [str(member.target) for member in group]
    layers: list[Any] = [builder.modules[name] for name in names]
    bounds: list[int] = [0, *accumulate(layer.out_features for layer in layers)]
    position = builder.program.position(LinearWeights(tuple(name.removeprefix("network.") for name in names)))
    columns = builder.as_columns(value)
    source = builder.as_buffer(columns)
    out = builder.program.new_buffer(bounds[-1], source.entities)
    joined = builder.add(Dense(position, source, out), out, unfolded=columns.unfolded)
    builder.values |= {
        member: evolve(joined, start=start, stop=stop)
        for member, (start, stop) in zip(group, pairwise(bounds), strict=True)
    }
    return builder.values[node]


def _tanh(builder: ProgramBuilder, value: Any, *, module: nn.Tanh | None = None) -> Any:  # noqa: ARG001 - no options
    """Apply tanh."""
    return _activate(builder, builder.as_columns(value), np.tanh)


def _relu(builder: ProgramBuilder, value: Any, *, inplace: bool = False, module: nn.ReLU | None = None) -> Any:
    """Apply max(x, 0)."""
    source = builder.as_columns(value)
    function = partial(relu, zeros=np.zeros(builder.as_buffer(source).stride, np.float32))
    inplace = inplace if module is None else module.inplace
    activated = _activate(builder, source, function, keeps_ones=True, inplace=inplace)
    return activated if activated is NotImplemented else evolve(activated, nonnegative=True)


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
    source = builder.as_columns(value)
    scratch = builder.program.new_buffer(source.width, source.buffer.entities)
    function = partial(leaky_relu, slope=np.float32(negative_slope), scratch=scratch)
    return _activate(builder, source, function, keeps_ones=True, inplace=inplace)


def _clamp(builder: ProgramBuilder, value: Any, low: Any, high: Any) -> Any:
    """Limit every element."""
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return NotImplemented
    function = partial(clamp, low=np.float32(low), high=np.float32(high))
    return _activate(builder, builder.as_columns(value), function)


def _activate(
    builder: ProgramBuilder,
    value: Columns,
    function: Callable[..., Any],
    *,
    keeps_ones: bool = False,
    inplace: bool = False,
) -> Any:
    """Apply a function to every element, in place if no other node reads the argument."""
    source = builder.as_buffer(value)
    overwritable = builder.is_overwritable(source)
    if inplace and not overwritable:
        return NotImplemented
    out = source if overwritable else builder.program.new_buffer(source.width, source.entities)
    return builder.add(Activation(function, source, out, keeps_ones), out, unfolded=value.unfolded)


# -- weights besides those of layers ---------------------------------------------------------------------------------


def _with_weights(
    builder: ProgramBuilder, value: Any, other: Any, *, compute: Callable[..., Any], of_weights: Callable[..., Any]
) -> Any:
    """Compute a function of features and a vector of weights, or of weights only."""
    if isinstance(value, _WEIGHTS) or not isinstance(other, _WEIGHTS):
        return _of_weights(builder, value, other, function=of_weights)
    columns = builder.as_columns(value)
    source = builder.as_buffer(columns)
    if not _is_vector(builder, other, columns.width):
        return NotImplemented
    out = source if builder.is_overwritable(source) else builder.program.new_buffer(source.width, source.entities)
    step = Broadcast(compute, builder.program.position(other), source, out)
    return builder.add(step, out, unfolded=columns.unfolded)


def _is_vector(builder: ProgramBuilder, weights: Parameter | Expression, width: int) -> bool:
    return weights.evaluate(builder.weights).shape in ((), (width,))


def _of_weights(_: ProgramBuilder, *arguments: Any, function: Callable[..., Any]) -> Any:
    """Compute a function of weights and numbers, once for each model."""
    known = all(isinstance(one, (*_WEIGHTS, int, float)) for one in arguments)
    return Expression(function, arguments) if known else NotImplemented


def _where(builder: ProgramBuilder, chosen: Any, value: Any, other: Any) -> Any:
    """Choose some columns by weights."""
    if not isinstance(chosen, _WEIGHTS):
        return NotImplemented
    columns, rest = builder.as_columns(value), builder.as_columns(other)
    source, (_, argument, _) = columns.buffer, builder.node.all_input_nodes
    if columns.width != source.width or rest.width != source.width or rest.buffer.entities is not source.entities:
        return NotImplemented
    if rest.unfolded != columns.unfolded or not _is_vector(builder, chosen, source.width):
        return NotImplemented
    if not builder.is_overwritable(source, argument):
        return NotImplemented
    return builder.add(Choose(builder.program.position(chosen), rest, source), source, unfolded=columns.unfolded)


# -- recurrent cells -------------------------------------------------------------------------------------------------


def _lstm_cell(builder: ProgramBuilder, value: Any, state: Any, *weights: Any) -> Any:
    """Compute the state of an LSTM after a step."""
    cell = _cell(builder, "lstm", value, state, weights)
    after = builder.program.new_buffer(cell.out.width)
    return builder.add(LSTMCell(cell, after), cell.out), Columns(after, 0, after.width)


def _gru_cell(builder: ProgramBuilder, value: Any, state: Any, *weights: Any) -> Any:
    """Compute the state of a GRU after a step."""
    cell = _cell(builder, "gru", value, [state], weights)
    return builder.add(GRUCell(cell), cell.out)


def _cell(builder: ProgramBuilder, kind: str, value: Any, state: Any, weights: Any) -> Cell:
    if not all(isinstance(one, LeafValue) and one.name.startswith("state/") for one in state):
        raise UnsupportedNetwork("a recurrent cell reads something else than the state of the network")
    position = builder.program.position(CellWeights(kind, tuple(one.name for one in weights)))
    features, (size,) = builder.as_columns(value), state[0].tail
    joined, gates, out = (builder.program.new_buffer(width) for width in (features.width + size, 4 * size, size))
    join, multiply = Concatenate((features,), joined), Dense(position, joined, gates)
    return Cell(join, multiply, tuple(one.name for one in state), out)


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
    operator.add: partial(_of_weights, function=operator.add),
    operator.getitem: _getitem,
    operator.mul: _multiply,
    operator.sub: _subtract,
    operator.truediv: _divide,
    torch.cat: _concatenate,
    torch.concat: _concatenate,
    torch.flatten: _flatten,
    torch.functional.split: _split,
    torch.gru_cell: _gru_cell,
    torch.lstm_cell: _lstm_cell,
    torch.relu: _relu,
    torch.rsqrt: partial(_of_weights, function=reciprocal_root),
    torch.tanh: _tanh,
    torch.where: _where,
    "clamp": _clamp,
    "flatten": _flatten,
    "float": _to_float,
    "int": _to_integer,
    "long": _to_integer,
    "relu": _relu,
    "reshape": _reshape,
    "split": _split,
    "tanh": _tanh,
    "unsqueeze": _unsqueeze,
    "view": _reshape,
}
