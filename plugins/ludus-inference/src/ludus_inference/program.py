"""From a torch module to a lean program: the module is traced once, and every operation becomes a step or a refusal."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from attrs import define, evolve, field, frozen
from gymnasium import Space
from ludus.errors import UnsupportedNetwork
from ludus.network import NetworkRequest
from torch import nn
from torch.fx import Graph, Node, Tracer
from torch.nn import functional

from ludus_inference.steps import (
    Activation,
    Buffer,
    Cast,
    Dense,
    Join,
    OneHot,
    Step,
    fastest_tanh,
    leaky_relu,
    relu,
)

__all__ = ["Columns", "Program", "lower"]


@frozen
class Columns:
    """Columns ``start`` to ``stop`` of a buffer."""

    buffer: Buffer
    start: int
    stop: int


@define
class Program:
    """What a module computes, step by step.

    Attributes:
        steps: In order.
        buffers: All of them, not yet allocated.
        layers: For every matrix of weights the names of the linear layers in it, side by side.
        heads: Where the results are.
    """

    layers: list[tuple[str, ...]]
    steps: list[Step] = field(factory=list)
    buffers: list[Buffer] = field(factory=list)
    heads: dict[str, Columns] = field(factory=dict)

    def buffer(self, width: int) -> Buffer:
        """Return a new buffer."""
        self.buffers.append(Buffer(width))
        return self.buffers[-1]

    def matrix(self, layer: tuple[str, ...]) -> int:
        """Return the position of a matrix of weights."""
        if layer not in self.layers:
            self.layers.append(layer)
        return self.layers.index(layer)


def lower(module: nn.Module, request: NetworkRequest, *, privileged: bool, layers: list[tuple[str, ...]]) -> Program:
    """Return the program of a module with the forward signature of `ludus.network`.

    Args:
        module: In evaluation mode.
        request: What it was made for.
        privileged: Whether the privileged leaves are there.
        layers: Matrices of weights that other programs of the module use; those of this one are added.

    Raises:
        UnsupportedNetwork: It does something that no step does.
    """
    groups = {"observation": request.observation, "privileged": request.privileged if privileged else {}}
    wrapped = _Heads(module, groups)
    try:
        graph = Tracer().trace(wrapped)
    except UnsupportedNetwork:
        raise
    except Exception as error:  # the module's own code runs on stand-ins for tensors
        raise UnsupportedNetwork(f"it cannot be traced: {type(error).__name__}: {error}") from error
    return _Lowering(wrapped, groups, layers).run(graph)


class _Heads(nn.Module):
    """A network as a function of two tables of leaves, without state."""

    def __init__(self, network: nn.Module, groups: Mapping[str, Mapping[str, Space[Any]]]) -> None:
        super().__init__()
        self.network = network
        self._names = {group: tuple(spaces) for group, spaces in groups.items()}

    def forward(self, observation: Any, privileged: Any) -> Any:
        """Return the heads."""
        heads, state = self.network(
            {name: observation[name] for name in self._names["observation"]},
            {name: privileged[name] for name in self._names["privileged"]},
            {},
        )
        if state:
            raise UnsupportedNetwork("it is recurrent")
        return dict(heads)


# What the nodes of a graph stand for, besides plain Python values.


@frozen
class _Group:
    name: str


@frozen
class _Leaf:
    """A leaf on its way to becoming float32.

    Attributes:
        name: ``"observation/board"``.
        tail: Shape without the rows.
        integer: Its numbers still are integers.
        column: Of which column of the flattened leaf; None: all.
        shift: Was subtracted from integers.
        factor: Multiplies numbers.
    """

    name: str
    tail: tuple[int, ...]
    integer: bool
    column: int | None = None
    shift: int = 0
    factor: float | None = None


_ROWS = object()  # the number of rows, wherever a module asks for it


class _Lowering:
    """Turns the nodes of one graph into steps."""

    def __init__(
        self, root: nn.Module, groups: Mapping[str, Mapping[str, Space[Any]]], layers: list[tuple[str, ...]]
    ) -> None:
        self._modules = dict(root.named_modules())
        self._groups = groups
        self._program = Program(layers)
        self._values: dict[Node, Any] = {}
        self._node: Node  # being lowered
        self._origin: dict[Buffer, Node] = {}  # whose value a buffer is; others are the same value by another name

    def run(self, graph: Graph) -> Program:
        """Return the program."""
        for node in graph.nodes:
            if node.op == "placeholder":
                self._values[node] = _Group(node.name)
            elif node.op == "output":
                self._program.heads = {name: self._head(name, value) for name, value in node.args[0].items()}
            elif node not in self._values:
                value = self._values[node] = self._value(node)
                if isinstance(value, Buffer):
                    self._origin.setdefault(value, node)
        return self._program

    def _value(self, node: Node) -> Any:
        """Return what a node computes; steps that compute it are added to the program."""
        self._node = node
        arguments = [self._resolve(argument) for argument in node.args]
        options = {name: self._resolve(option) for name, option in node.kwargs.items()}
        what: Any = node.target
        if node.op == "call_module":
            module = self._modules[str(node.target)]
            what, options = type(module), {"module": module}
        handler = _HANDLERS.get(what)
        try:
            value = NotImplemented if handler is None else handler(self, *arguments, **options)
        except (TypeError, ValueError):  # arguments that the handler does not know
            value = NotImplemented
        if value is NotImplemented:
            raise UnsupportedNetwork(f"there is no step for {what} in {node.format_node()}")
        return value

    def _resolve(self, argument: Any) -> Any:
        if isinstance(argument, Node):
            return self._values[argument]
        if isinstance(argument, (list, tuple)):
            return type(argument)(map(self._resolve, argument))
        return argument

    def _head(self, name: str, node: Any) -> Columns:
        value = self._values.get(node)
        if isinstance(value, Columns):
            return value
        if isinstance(value, Buffer):
            return Columns(value, 0, value.width)
        raise UnsupportedNetwork(f"head {name!r} is not computed from its inputs")

    def _matrix(self, value: Any) -> Buffer:
        """Return the buffer of a value ``[n, width] float32``, computed now if need be."""
        if isinstance(value, Buffer):
            return value
        if not isinstance(value, _Leaf) or value.integer or len(value.tail) != 1 or value.column is not None:
            raise UnsupportedNetwork(f"{value} is no matrix of float32")
        factor = None if value.factor is None else np.float32(value.factor)
        return self._add(Cast(value.name, self._program.buffer(value.tail[0]), factor))

    def _add(self, step: Step) -> Buffer:
        self._program.steps.append(step)
        return step.out

    # -- what changes no number; a handler returns a value, or NotImplemented where it is used in another way -------

    def getitem(self, value: Any, index: Any) -> Any:
        """A leaf of a group, an entry of a shape, or a column of a leaf."""
        if isinstance(value, _Group):
            space = self._groups[value.name][index]
            integer = np.dtype(space.dtype).kind in "iub"
            return _Leaf(f"{value.name}/{index}", tuple(space.shape or ()), integer=integer)
        if isinstance(value, tuple):
            return value[index]
        everything, column = index
        flat = isinstance(value, _Leaf) and len(value.tail) == 1 and value.column is None
        return evolve(value, tail=(), column=column) if flat and everything == slice(None) else NotImplemented

    def getattr(self, value: Any, name: str) -> Any:
        """A shape."""
        return (_ROWS, *value.tail) if name == "shape" and isinstance(value, _Leaf) else NotImplemented

    def reshape(self, value: Any, *shape: Any) -> Any:
        """One vector per row."""
        rows, *rest = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        return self.flatten(value) if rows is _ROWS and rest == [-1] else NotImplemented

    def flatten(self, value: Any, start_dim: int = 1, *, module: nn.Flatten | None = None) -> Any:
        """One vector per row."""
        if module is not None and module.end_dim != -1:
            return NotImplemented
        if (start_dim if module is None else module.start_dim) != 1:
            return NotImplemented
        if isinstance(value, _Leaf) and value.column is None:
            return evolve(value, tail=(math.prod(value.tail),))
        return value if isinstance(value, Buffer) else NotImplemented

    def unsqueeze(self, value: Any, axis: int) -> Any:
        """A number per row as a vector of one."""
        scalar = isinstance(value, _Leaf) and value.tail == () and value.column is None
        return evolve(value, tail=(1,)) if scalar and axis in (1, -1) else NotImplemented

    def same(self, value: Any, *, module: nn.Module | None = None) -> Any:  # noqa: ARG002 - nothing is dropped here
        """The value itself."""
        return value

    # -- on the way from leaves to matrices ------------------------------------------------------------------------

    def real(self, value: Any) -> Any:
        """Become float32."""
        if isinstance(value, _Leaf) and value.column is None and value.shift == 0:
            return evolve(value, integer=False)
        return value if isinstance(value, Buffer) else NotImplemented

    def integer(self, value: Any) -> Any:
        """Become int64."""
        return value if isinstance(value, _Leaf) and value.integer else NotImplemented

    def subtract(self, value: Any, number: Any) -> Any:
        """Shift integers."""
        shifts = isinstance(value, _Leaf) and value.integer and isinstance(number, int)
        return evolve(value, shift=value.shift + number) if shifts else NotImplemented

    def multiply(self, value: Any, number: Any) -> Any:
        """Scale a leaf."""
        scales = isinstance(value, _Leaf) and not value.integer and isinstance(number, (int, float))
        return (
            evolve(value, factor=(1.0 if value.factor is None else value.factor) * number) if scales else NotImplemented
        )

    def divide(self, value: Any, number: Any) -> Any:
        """Scale a leaf."""
        return self.multiply(value, 1.0 / number)

    def one_hot(self, value: Any, num_classes: int) -> Any:
        """Turn one column of a leaf into a one-hot vector."""
        if not isinstance(value, _Leaf) or value.tail != () or num_classes < 1:
            return NotImplemented
        choices = np.arange(num_classes) + value.shift
        return self._add(OneHot(value.name, value.column or 0, choices, self._program.buffer(num_classes)))

    def join(self, parts: Sequence[Any], dim: int = 0) -> Any:
        """Put vectors side by side."""
        if dim not in (1, -1):
            return NotImplemented
        if len(parts) == 1:
            return parts[0]
        buffers = tuple(self._matrix(part) for part in parts)
        return self._add(Join(buffers, self._program.buffer(sum(buffer.width for buffer in buffers))))

    # -- layers --------------------------------------------------------------------------------------------------------

    def linear(self, value: Any, *, module: nn.Linear) -> Any:  # noqa: ARG002 - its sizes come with its siblings'
        """Multiply; heads on the same features become one product."""
        group = [self._node]
        if self._is_head(self._node):
            group = [user for user in self._node.all_input_nodes[0].users if self._is_head(user)]
        names = [str(node.target) for node in group]
        ends = [0, *accumulate(self._modules[name].out_features for name in names)]
        position = self._program.matrix(tuple(name.removeprefix("network.") for name in names))
        out = self._add(Dense(position, self._matrix(value), self._program.buffer(ends[-1])))
        if len(group) == 1:
            return out
        self._values |= {node: Columns(out, *bounds) for node, bounds in zip(group, pairwise(ends), strict=True)}
        return self._values[self._node]

    def _is_head(self, node: Node) -> bool:
        linear = node.op == "call_module" and type(self._modules[str(node.target)]) is nn.Linear
        return linear and all(user.op == "output" for user in node.users)

    def tanh(self, value: Any, *, module: nn.Tanh | None = None) -> Any:  # noqa: ARG002 - it has no options
        """Apply the hyperbolic tangent."""
        return self._activation(self._matrix(value), fastest_tanh())

    def relu(self, value: Any, *, inplace: bool = False, module: nn.ReLU | None = None) -> Any:
        """Apply max(x, 0)."""
        source = self._matrix(value)
        function = partial(relu, zeros=np.zeros(source.stride, np.float32))
        return self._activation(source, function, inplace=inplace if module is None else module.inplace)

    def leaky_relu(
        self, value: Any, negative_slope: float = 0.01, *, inplace: bool = False, module: nn.LeakyReLU | None = None
    ) -> Any:
        """Apply max(x, slope · x)."""
        if module is not None:
            negative_slope, inplace = module.negative_slope, module.inplace
        if not 0 <= negative_slope <= 1:
            return NotImplemented
        source = self._matrix(value)
        scratch = self._program.buffer(source.width)
        function = partial(leaky_relu, slope=np.float32(negative_slope), scratch=scratch)
        return self._activation(source, function, inplace=inplace)

    def _activation(self, source: Buffer, function: Callable[..., Any], *, inplace: bool = False) -> Any:
        """Apply a function to every element, in place where nobody else reads the value."""
        argument = self._node.all_input_nodes[0]
        own = len(argument.users) == 1 and self._origin.get(source, argument) is argument
        if inplace and not own:
            return NotImplemented
        return self._add(Activation(function, source, source if own else self._program.buffer(source.width)))


_HANDLERS: dict[Any, Callable[..., Any]] = {
    nn.Dropout: _Lowering.same,
    nn.Flatten: _Lowering.flatten,
    nn.Identity: _Lowering.same,
    nn.LeakyReLU: _Lowering.leaky_relu,
    nn.Linear: _Lowering.linear,
    nn.ReLU: _Lowering.relu,
    nn.Tanh: _Lowering.tanh,
    functional.leaky_relu: _Lowering.leaky_relu,
    functional.one_hot: _Lowering.one_hot,
    functional.relu: _Lowering.relu,
    functional.tanh: _Lowering.tanh,
    getattr: _Lowering.getattr,
    operator.getitem: _Lowering.getitem,
    operator.mul: _Lowering.multiply,
    operator.sub: _Lowering.subtract,
    operator.truediv: _Lowering.divide,
    torch.cat: _Lowering.join,
    torch.concat: _Lowering.join,
    torch.flatten: _Lowering.flatten,
    torch.relu: _Lowering.relu,
    torch.tanh: _Lowering.tanh,
    "flatten": _Lowering.flatten,
    "float": _Lowering.real,
    "int": _Lowering.integer,
    "long": _Lowering.integer,
    "relu": _Lowering.relu,
    "reshape": _Lowering.reshape,
    "tanh": _Lowering.tanh,
    "unsqueeze": _Lowering.unsqueeze,
    "view": _Lowering.reshape,
}
