"""Lowering of a torch module to a lean program: the module is traced once, and each operation becomes a step."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from gymnasium import Space
from ludus.errors import UnsupportedNetwork
from ludus.network import NetworkRequest
from torch import nn
from torch.fx import Graph, Node, Tracer

from ludus_inference.operations import OPERATIONS, leaf_value
from ludus_inference.program import Columns, LeafGroup, Program, ProgramBuilder
from ludus_inference.steps import Buffer


def lower(module: nn.Module, request: NetworkRequest, *, privileged: bool, layers: list[tuple[str, ...]]) -> Program:
    """Return the program of a module with the forward signature of `ludus.network`.

    Args:
        module: Module in evaluation mode.
        request: Request that the module was made for.
        privileged: Whether privileged leaves are inputs.
        layers: Weight matrices of other programs of the module; those of this program are appended.

    Raises:
        UnsupportedNetwork: The module uses an operation without a step.
    """
    spaces = {"observation": request.observation, "privileged": request.privileged if privileged else {}}
    wrapped = _HeadsOnly(module, spaces)
    try:
        graph = Tracer().trace(wrapped)
    except UnsupportedNetwork:
        raise
    except Exception as error:  # the module's code runs with proxies instead of tensors
        raise UnsupportedNetwork(f"it cannot be traced: {type(error).__name__}: {error}") from error
    return _lower_graph(graph, ProgramBuilder(dict(wrapped.named_modules()), Program(layers)), spaces)


class _HeadsOnly(nn.Module):
    """A stateless network as a function from two groups of leaves to heads."""

    def __init__(self, network: nn.Module, spaces: Mapping[str, Mapping[str, Space[Any]]]) -> None:
        super().__init__()
        self.network = network
        self._names = {group: tuple(leaves) for group, leaves in spaces.items()}

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


def _lower_graph(graph: Graph, builder: ProgramBuilder, spaces: Mapping[str, Mapping[str, Space[Any]]]) -> Program:
    for node in graph.nodes:
        if node.op == "placeholder":
            builder.values[node] = LeafGroup(node.name)
        elif node.op == "output":
            values = {name: builder.values.get(head) for name, head in node.args[0].items()}
            builder.program.heads = {name: _head_columns(name, value) for name, value in values.items()}
        elif node not in builder.values:  # heads that share a product are lowered together
            value = builder.values[node] = _lower_node(node, builder, spaces)
            if isinstance(value, Buffer):
                builder.origins.setdefault(value, node)
    return builder.program


def _lower_node(node: Node, builder: ProgramBuilder, spaces: Mapping[str, Mapping[str, Space[Any]]]) -> Any:
    """Return the value of a node; add the steps that compute it."""
    builder.node = node
    arguments = [_argument_value(argument, builder) for argument in node.args]
    options = {name: _argument_value(option, builder) for name, option in node.kwargs.items()}
    operation: Any = node.target
    if operation is operator.getitem and isinstance(arguments[0], LeafGroup):
        return leaf_value(arguments[0], arguments[1], spaces)
    if node.op == "call_module":
        module = builder.modules[str(node.target)]
        operation, options = type(module), {"module": module}
    lower_operation = OPERATIONS.get(operation)
    try:
        value = NotImplemented if lower_operation is None else lower_operation(builder, *arguments, **options)
    except (TypeError, ValueError):  # unknown arguments
        value = NotImplemented
    if value is NotImplemented:
        raise UnsupportedNetwork(f"there is no step for {operation} in {node.format_node()}")
    return value


def _argument_value(argument: Any, builder: ProgramBuilder) -> Any:
    if isinstance(argument, Node):
        return builder.values[argument]
    if isinstance(argument, (list, tuple)):
        return type(argument)(_argument_value(part, builder) for part in argument)
    return argument


def _head_columns(name: str, value: Any) -> Columns:
    if isinstance(value, Columns):
        return value
    if isinstance(value, Buffer):
        return Columns(value, 0, value.width)
    raise UnsupportedNetwork(f"head {name!r} is not computed from the inputs")
