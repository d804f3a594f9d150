"""The network contract: from named observation leaves to named heads.

An algorithm requests heads and a network plugin makes the module, so that any algorithm can use any network. The
module's forward signature is fixed::

    forward(observation: dict[str, Tensor], privileged: dict[str, Tensor], state: dict[str, Tensor])
        -> tuple[dict[str, Tensor], dict[str, Tensor]]          # heads, new recurrent state

Observations have the dtypes of the environment (images stay uint8); the network converts them. Head outputs are
``[n, size] float32``. If the request names privileged leaves and `privileged` is empty, the result has no critic heads:
frozen models play without privileged leaves unless an opponent records their values.

The outputs of a row must depend on that row only: trainers pad minibatches with rows that do not count, and may
evaluate equal rows once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from attrs import field, frozen

from ludus.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import Space
    from torch import Tensor, nn

__all__ = [
    "AdvisedNetwork",
    "InputColumns",
    "LazyLeaves",
    "NamedInputs",
    "NetworkRequest",
    "NormalizingNetwork",
    "RecurrentNetwork",
    "check_shapes",
    "copy_arrays",
    "get_weights",
    "restored_on_error",
    "set_weights",
    "to_arrays",
    "to_tensor",
    "update_statistics",
]


@frozen(kw_only=True)
class NetworkRequest:
    """Inputs and outputs of the network that an algorithm needs.

    Args:
        observation: Spaces of the observation leaves, inputs of all heads.
        privileged: Spaces of the leaves that are inputs of critic heads only; may be empty.
        heads: Output sizes of the heads that read `observation` only, by name.
        critic_heads: Output sizes of the heads that also read `privileged`, by name.
        head_gain: Gain of the orthogonal initialization of a head's last layer; 1 for heads without an entry.
        labels: Sizes of the action labels that a head concatenates, for networks that compute labels in different
            ways. A head without an entry is not divided.
    """

    observation: Mapping[str, Space[Any]]
    privileged: Mapping[str, Space[Any]] = field(factory=dict)
    heads: Mapping[str, int]
    critic_heads: Mapping[str, int] = field(factory=dict)
    head_gain: Mapping[str, float] = field(factory=dict)
    labels: Mapping[str, tuple[int, ...]] = field(factory=dict)


@runtime_checkable
class RecurrentNetwork(Protocol):
    """Additional methods of a recurrent module; an optional part of the network contract.

    `forward` computes one step: it takes the state before the step and returns the state after it.
    """

    def initial_state(self, rows: int) -> dict[str, Tensor]:
        """Return the state at the start of a match, leaves ``[rows, …]``."""

    def unroll(
        self,
        observation: dict[str, Tensor],
        privileged: dict[str, Tensor],
        state: dict[str, Tensor],
        *,
        starts: Tensor,
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the outputs of `forward` for T successive entries, for learners.

        Args:
            observation: Leaves ``[T, N, …]``.
            privileged: Leaves ``[T, N, …]``, or empty.
            state: State before entry 0, leaves ``[N, …]``.
            starts: ``[T, N] bool``, entries at which a match starts, so that the state is reset to `initial_state`.

        Returns:
            Heads ``[T, N, size] float32`` and the state after the last entry.
        """


@frozen
class InputColumns:
    """Columns of a layer that read one observation leaf, or the features of another part of the network.

    Args:
        source: Name of the leaf or of the part.
        width: Number of columns.
        shape: Shape of the leaf; None for features, whose columns have no meaning of their own.
    """

    source: str
    width: int
    shape: tuple[int, ...] | None = None


@runtime_checkable
class NamedInputs(Protocol):
    """Additional method of parts of a module that read observation leaves; an optional part of the network contract.

    A player that starts from the weights of another one with fewer inputs then keeps what these have learned.
    """

    def input_columns(self) -> Mapping[str, Sequence[InputColumns]]:
        """Return the columns, in order, of each parameter or buffer of the part that has a column per input.

        Columns are axis 1, or axis 0 of arrays with one axis.
        """


@runtime_checkable
class AdvisedNetwork(Protocol):
    """Additional method of a module that does not suit its inputs; an optional part of the network contract."""

    def advice(self) -> str:
        """Return one line about what to choose instead, which ``ludus check`` prints as a warning; empty: nothing."""


@runtime_checkable
class NormalizingNetwork(Protocol):
    """Additional method of a module with statistics of observations; an optional part of the network contract.

    The statistics are buffers that `forward` and `unroll` read but do not change.
    """

    def update_statistics(self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor]) -> None:
        """Add rows to the statistics.

        Learners call it once after each update with the new decisions of the update, so that the first pass over them
        computes what samplers computed.

        Args:
            observation: Leaves ``[n, …]``, possibly `LazyLeaves`.
            privileged: Leaves ``[n, …]``, possibly `LazyLeaves`; may be empty.

        Raises:
            ContractError: The statistics would not be finite.
        """


class LazyLeaves(Mapping[str, "Tensor"]):
    """Leaves that are computed on access.

    Args:
        names: Names of the leaves.
        make: Computes a leaf.
    """

    def __init__(self, names: Iterable[str], make: Callable[[str], Tensor]) -> None:
        self._names = tuple(names)
        self._make = make

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        return self._make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def update_statistics(module: nn.Module, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor]) -> None:
    """Call `NormalizingNetwork.update_statistics` if the module has it."""
    if isinstance(module, NormalizingNetwork):
        module.update_statistics(observation, privileged)


def get_weights(module: nn.Module) -> dict[str, np.ndarray]:
    """Return copies of all parameters and buffers of `module` by name."""
    return to_arrays(module.state_dict())


def to_arrays(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Return copies of tensors on any devices, by the same names."""
    found = {}
    for part, flat in _joined(tensors):
        numbers, start = flat.cpu().numpy(), 0
        for name, tensor in part.items():
            found[name] = numbers[start : start + tensor.numel()].reshape(tuple(tensor.shape))
            start += tensor.numel()
    return {name: found[name] for name in tensors}


def _joined(tensors: Mapping[Any, Tensor]) -> Iterator[tuple[dict[Any, Tensor], Tensor]]:
    """Yield the tensors of each device and dtype, with one flat copy of their values.

    One copy needs fewer launches and waits of a GPU than a copy per tensor.
    """
    import torch  # noqa: PLC0415 - as in `to_tensor`

    parts: dict[tuple[torch.device, torch.dtype], dict[Any, Tensor]] = {}
    for name, tensor in tensors.items():
        parts.setdefault((tensor.device, tensor.dtype), {})[name] = tensor.detach()
    for part in parts.values():
        yield part, torch.cat([tensor.reshape(-1) for tensor in part.values()])


def set_weights(module: nn.Module, weights: Mapping[str, np.ndarray]) -> None:
    """Copy `weights` into the parameters and buffers of `module`, in place.

    Raises:
        ModelError: Names or shapes do not fit; nothing is copied.
    """
    copy_arrays(weights, into=module.state_dict())


def copy_arrays(arrays: Mapping[str, np.ndarray], *, into: Mapping[str, Tensor]) -> None:
    """Copy arrays into the tensors of the same names, in place.

    Raises:
        ModelError: Names or shapes do not fit; nothing is copied.
    """
    check_shapes(arrays, {name: tuple(tensor.shape) for name, tensor in into.items()})
    for name, tensor in into.items():
        if tensor.device.type == "cpu":
            tensor.detach().numpy()[...] = arrays[name]  # one copy, also from read-only arrays
        else:
            tensor.copy_(tensor.new_tensor(arrays[name]))


@contextmanager
def restored_on_error(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Restore the values of tensors if the block raises.

    Args:
        tensors: Tensors of any devices and dtypes. The block must change them in place.
    """
    import torch  # noqa: PLC0415 - as in `to_tensor`

    before = list(_joined(dict(enumerate(tensors))))
    try:
        yield
    except Exception:  # of any kind; it is raised again below
        for part, flat in before:
            values = torch.split(flat, [tensor.numel() for tensor in part.values()])
            for tensor, value in zip(part.values(), values, strict=True):
                tensor.copy_(value.view_as(tensor))
        raise


def check_shapes(arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that arrays have exactly the names and shapes expected.

    Raises:
        ModelError: A name or shape is wrong; the message names the first four.
    """
    problems = [f"{name} is missing" for name in shapes.keys() - arrays.keys()]
    problems += [f"{name} is unknown" for name in arrays.keys() - shapes.keys()]
    problems += [
        f"{name} has shape {arrays[name].shape}, expected {shapes[name]}"
        for name in shapes.keys() & arrays.keys()
        if arrays[name].shape != shapes[name]
    ]
    if problems:
        raise ModelError(f"the saved arrays do not fit the network: {'; '.join(sorted(problems)[:4])}")


def to_tensor(array: np.ndarray) -> Tensor:
    """Return a tensor that shares memory with `array` if torch supports it."""
    import torch  # noqa: PLC0415 - matchmakers and commands import this module too

    return torch.from_numpy(array if array.flags.writeable and array.flags.c_contiguous else array.copy())
