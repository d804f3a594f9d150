"""Lowering of operations on images; see `ludus_inference.operations`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from attrs import evolve
from torch import Tensor, nn
from torch.nn import functional

from ludus_inference.images import EXAMPLE_ROWS, ImageOperation, ImageValue, LoadImage, SlotTensor
from ludus_inference.program import LeafValue, ProgramBuilder
from ludus_inference.weights import Parameter


def _permute(_: ProgramBuilder, value: Any, *axes: int) -> Any:
    """Change the order of the axes of a leaf."""
    image = isinstance(value, LeafValue) and value.axes is None and value.column is None
    fits = image and axes[0] == 0 and sorted(axes) == list(range(len(value.tail) + 1))
    return evolve(value, axes=axes) if fits else NotImplemented


def _call(
    builder: ProgramBuilder, *arguments: Any, function: Callable[..., Tensor], owned: bool = False, **options: Any
) -> Any:
    """Call a function of torch that does not mix rows."""
    values = [_as_image(builder, argument) for argument in arguments]
    if not any(isinstance(value, ImageValue) for value in values):
        return NotImplemented
    example = function(*(_example(builder, value) for value in values), **options)
    if example.shape[0] != EXAMPLE_ROWS:
        return NotImplemented
    resolved = tuple(
        SlotTensor(builder.program.position(value)) if isinstance(value, Parameter) else value for value in values
    )
    out = ImageValue(example, owned)
    builder.program.steps.append(ImageOperation(function, resolved, options, out))
    return out


def _convolution(builder: ProgramBuilder, value: Any, *, module: nn.Conv2d) -> Any:
    """Apply a convolution."""
    if module.padding_mode != "zeros":
        return NotImplemented
    name = str(builder.node.target).removeprefix("network.")
    bias = None if module.bias is None else Parameter(f"{name}.bias")
    sizes = module.stride, module.padding, module.dilation, module.groups
    return _call(builder, value, Parameter(f"{name}.weight"), bias, *sizes, function=torch.conv2d, owned=True)


def _as_image(builder: ProgramBuilder, value: Any) -> Any:
    """Return a leaf with axes of its own as image; add the step that loads it."""
    if not isinstance(value, LeafValue) or value.axes is None or value.integer:
        return value
    if value not in builder.images:
        example = torch.empty((EXAMPLE_ROWS, *value.tail), device="meta").permute(value.axes)
        out = builder.images[value] = ImageValue(example)
        load = LoadImage(value.name, value.tail, value.axes, value.numpy_factor, out)
        builder.program.steps.append(builder.program.keep(load))
    return builder.images[value]


def _example(builder: ProgramBuilder, value: Any) -> Any:
    if isinstance(value, ImageValue):
        return value.example
    return torch.empty(builder.weights[value.name].shape, device="meta") if isinstance(value, Parameter) else value


def _add(builder: ProgramBuilder, value: Any, other: Any) -> Any:
    """Add two images."""
    if not isinstance(value, ImageValue) or not isinstance(other, ImageValue):
        return NotImplemented
    in_place = value is not other and _is_overwritable(builder, value)
    return _call(builder, value, other, function=Tensor.add_ if in_place else torch.add, owned=True)


def _is_overwritable(builder: ProgramBuilder, value: Any) -> bool:
    return isinstance(value, ImageValue) and value.owned and builder.is_overwritable(value)


def _activation(
    builder: ProgramBuilder,
    value: Any,
    *options: Any,
    functions: tuple[Callable[..., Tensor], Callable[..., Tensor]],
    module: nn.Module | None = None,
) -> Any:
    """Apply a function to every element, in place if no other node reads the argument."""
    if isinstance(module, nn.LeakyReLU):
        options = (module.negative_slope,)
    function = functions[_is_overwritable(builder, value)]
    return _call(builder, value, *options, function=function, owned=True)


def _getitem(builder: ProgramBuilder, value: Any, index: Any) -> Any:
    """Return some cells of every row."""
    rows = isinstance(index, tuple) and index[0] == slice(None)
    return _call(builder, value, index, function=operator.getitem) if rows else NotImplemented


def _reduce(builder: ProgramBuilder, value: Any, axis: int, *, function: Callable[..., Tensor]) -> Any:
    """Reduce one axis of every row."""
    return _call(builder, value, axis, function=function, owned=True) if axis > 0 else NotImplemented


def _flatten(builder: ProgramBuilder, value: Any, start_dim: int = 0, *, module: nn.Flatten | None = None) -> Any:
    """Join the last axes of every row."""
    if module is not None:
        start_dim = module.start_dim if module.end_dim == -1 else 0
    return _call(builder, value, start_dim, function=torch.flatten) if start_dim > 0 else NotImplemented


def _float(_: ProgramBuilder, value: Any) -> Any:
    """Return the image, which is float32."""
    return value if isinstance(value, ImageValue) else NotImplemented


_RELU = partial(_activation, functions=(torch.relu, torch.relu_))
_TANH = partial(_activation, functions=(torch.tanh, torch.tanh_))
_LEAKY_RELU = partial(_activation, functions=(functional.leaky_relu, functional.leaky_relu_))

#: Layer class, function or method name → function of this module.
OPERATIONS: Mapping[Any, Callable[..., Any]] = {
    nn.Conv2d: _convolution,
    nn.Flatten: _flatten,
    nn.LeakyReLU: _LEAKY_RELU,
    nn.ReLU: _RELU,
    nn.Tanh: _TANH,
    functional.avg_pool2d: partial(_call, function=functional.avg_pool2d, owned=True),
    functional.max_pool2d: partial(_call, function=functional.max_pool2d, owned=True),
    functional.relu: _RELU,
    operator.add: _add,
    operator.getitem: _getitem,
    torch.conv2d: partial(_call, function=torch.conv2d, owned=True),
    torch.flatten: _flatten,
    torch.relu: _RELU,
    torch.tanh: _TANH,
    "amax": partial(_reduce, function=torch.amax),
    "flatten": _flatten,
    "float": _float,
    "mean": partial(_reduce, function=torch.mean),
    "permute": _permute,
    "relu": _RELU,
    "tanh": _TANH,
}
