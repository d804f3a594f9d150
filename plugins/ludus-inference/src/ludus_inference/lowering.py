"""Lowering of a torch module to a lean program: the module is traced once, and each operation becomes a step."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space
from ludus.errors import UnsupportedNetwork
from ludus.network import NetworkRequest, RecurrentNetwork
from torch import nn
from torch.fx import Graph, Node, Tracer

from ludus_inference import entity_operations, image_operations, operations
from ludus_inference.images import ImageValue
from ludus_inference.operations import LeafShapes, leaf_value
from ludus_inference.program import KeyProducts, LeafGroup, LeafValue, Program, ProgramBuilder
from ludus_inference.steps import Columns
from ludus_inference.weights import Parameter, SlotArray

#: Tables of functions by operation; the first one that supports the arguments lowers a node.
_TABLES = (image_operations.OPERATIONS, entity_operations.OPERATIONS, operations.OPERATIONS)

_NETWORK = "network."


def lower(module: nn.Module, request: NetworkRequest, *, privileged: bool, arrays: list[SlotArray]) -> Program:
    """Return the program of a module with the forward signature of `ludus.network`.

    Args:
        module: Module in evaluation mode.
        request: Request that the module was made for.
        privileged: Whether privileged leaves are inputs.
        arrays: Arrays of every slot in other programs of the module; those of this program are appended.

    Raises:
        UnsupportedNetwork: The module uses an operation without a step.
    """
    shapes = {
        "observation": {name: _leaf_shape(space) for name, space in request.observation.items()},
        "privileged": {name: _leaf_shape(space) for name, space in request.privileged.items()} if privileged else {},
        "state": _state_shapes(module),
    }
    wrapped = _ByNames(module, {group: tuple(leaves) for group, leaves in shapes.items()})
    try:
        graph = _Tracer().trace(wrapped)
    except UnsupportedNetwork:
        raise
    except Exception as error:  # the module's code runs with proxies instead of tensors
        raise UnsupportedNetwork(f"it cannot be traced: {type(error).__name__}: {error}") from error
    weights = {name: parameter.detach().numpy() for name, parameter in module.named_parameters(remove_duplicate=False)}
    weights |= {name: buffer.numpy() for name, buffer in module.named_buffers(remove_duplicate=False)}
    return _lower_graph(graph, ProgramBuilder(dict(wrapped.named_modules()), weights, Program(arrays)), shapes)


class _Tracer(Tracer):
    proxy_buffer_attributes = True  # buffers are weights, not constants


class _ByNames(nn.Module):
    """A network as a function whose groups of leaves are read by name."""

    def __init__(self, network: nn.Module, names: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__()
        self.network = network
        self._names = names

    def forward(self, observation: Any, privileged: Any, state: Any) -> Any:
        """Return heads and state."""
        groups = {"observation": observation, "privileged": privileged, "state": state}
        read = ({name: groups[group][name] for name in names} for group, names in self._names.items())
        heads, after = self.network(*read)
        if set(after) != set(self._names["state"]):
            raise UnsupportedNetwork("it returns a state, but has no initial state")
        return dict(heads), dict(after)


def _leaf_shape(space: Space[Any]) -> tuple[tuple[int, ...], bool]:
    """Return the shape of one row of a leaf, and whether it holds integers."""
    return tuple(space.shape or ()), np.dtype(space.dtype).kind in "iub"


def _state_shapes(module: nn.Module) -> dict[str, tuple[tuple[int, ...], bool]]:
    """Return the shapes of one row of the state."""
    state = module.initial_state(1) if isinstance(module, RecurrentNetwork) else {}
    return {name: (tuple(leaf.shape[1:]), not leaf.is_floating_point()) for name, leaf in state.items()}


def _lower_graph(graph: Graph, builder: ProgramBuilder, shapes: LeafShapes) -> Program:
    for node in graph.nodes:
        if node.op == "placeholder":
            builder.values[node] = LeafGroup(node.name)
        elif node.op == "output":
            _lower_output(node, builder)
        elif node not in builder.values:  # layers that share a product are lowered together
            value = builder.values[node] = _lower_node(node, builder, shapes)
            if isinstance(value, Columns):
                builder.origins.setdefault(value.buffer, node)
            elif isinstance(value, ImageValue):
                builder.origins.setdefault(value, node)
    return builder.program


def _lower_output(node: Node, builder: ProgramBuilder) -> None:
    """Set heads and state of the program."""
    heads, state = ({name: _argument_value(one, builder) for name, one in group.items()} for group in node.args[0])  # type: ignore[union-attr]
    builder.program.heads = {name: _head_columns(name, value, builder) for name, value in heads.items()}
    builder.program.state = {name: _state_source(name, value, builder) for name, value in state.items()}


def _lower_node(node: Node, builder: ProgramBuilder, shapes: LeafShapes) -> Any:
    """Return the value of a node; add the steps that compute it."""
    builder.node = node
    if node.op == "get_attr":
        return _parameter(str(node.target).removeprefix(_NETWORK), builder)
    arguments = [_argument_value(argument, builder) for argument in node.args]
    options = {name: _argument_value(option, builder) for name, option in node.kwargs.items()}
    operation: Any = node.target
    if operation is operator.getitem and isinstance(arguments[0], LeafGroup):
        return leaf_value(arguments[0], arguments[1], shapes)
    if node.op == "call_module":
        module = builder.modules[str(node.target)]
        operation, options = type(module), {"module": module}
    value = _lower_operation(operation, builder, arguments, options)
    if value is NotImplemented:
        raise UnsupportedNetwork(f"there is no step for {operation} in {node.format_node()}")
    return value


def _lower_operation(operation: Any, builder: ProgramBuilder, arguments: list[Any], options: dict[str, Any]) -> Any:
    """Return the value by the first table that supports the operation; NotImplemented: there is none."""
    for table in _TABLES:
        lower_operation = table.get(operation)
        try:
            value = NotImplemented if lower_operation is None else lower_operation(builder, *arguments, **options)
        except UnsupportedNetwork:
            raise
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):  # unknown arguments
            value = NotImplemented
        if value is not NotImplemented:
            return value
    return NotImplemented


def _parameter(name: str, builder: ProgramBuilder) -> Parameter:
    if name not in builder.weights:
        raise UnsupportedNetwork(f"{name} is neither a parameter nor a buffer")
    return Parameter(name)


def _argument_value(argument: Any, builder: ProgramBuilder) -> Any:
    if isinstance(argument, Node):
        return builder.values[argument]
    if isinstance(argument, (list, tuple)):
        return type(argument)(_argument_value(part, builder) for part in argument)
    return argument


def _head_columns(name: str, value: Any, builder: ProgramBuilder) -> Columns:
    if isinstance(value, (Columns, ImageValue, KeyProducts)):
        columns = builder.as_columns(value)
        if columns.buffer.entities is None:
            return columns
    raise UnsupportedNetwork(f"head {name!r} is not computed from the inputs")


def _state_source(name: str, value: Any, builder: ProgramBuilder) -> Columns | str:
    """Return the columns of a leaf of the state, or its name if the network returns it unchanged."""
    if isinstance(value, LeafValue) and value == LeafValue(f"state/{name}", value.tail, integer=value.integer):
        return value.name
    return _head_columns(name, value, builder)
