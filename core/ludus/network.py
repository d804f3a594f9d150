"""The network contract: from named observation leaves to named heads.

An algorithm says which heads it needs and a network plugin supplies the body, so that any algorithm runs on any
network. The module's forward signature is fixed::

    forward(observation: dict[str, Tensor], privileged: dict[str, Tensor], state: dict[str, Tensor])
        -> tuple[dict[str, Tensor], dict[str, Tensor]]          # heads, new recurrent state

Observations arrive in the environment's dtypes (uint8 images stay uint8) and are widened inside. Head outputs
are ``[n, size] float32``. Where the request names privileged leaves and `privileged` is empty (frozen models play
without them, unless an opponent reads their values), the critic heads are left out of the result.

What a network says of a row depends on that row alone: trainers fill minibatches up with rows that do not count, and
may ask once where several are equal.
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
    "LazyLeaves",
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
    """What an algorithm asks of a network.

    Args:
        observation: Spaces of the observation leaves that every head may read.
        privileged: Spaces of the leaves that only critic heads may read; may be empty.
        heads: Output sizes of the heads that read `observation` alone, by name.
        critic_heads: Output sizes of the heads that also read `privileged`.
        head_gain: Orthogonal initialisation gain of a head's last layer; 1 where not given.
        labels: Sizes of the action labels that lie side by side in a head, for networks that compute labels in
            different ways; a head without an entry is one whole.
    """

    observation: Mapping[str, Space[Any]]
    privileged: Mapping[str, Space[Any]] = field(factory=dict)
    heads: Mapping[str, int]
    critic_heads: Mapping[str, int] = field(factory=dict)
    head_gain: Mapping[str, float] = field(factory=dict)
    labels: Mapping[str, tuple[int, ...]] = field(factory=dict)


@runtime_checkable
class RecurrentNetwork(Protocol):
    """What a module has besides `forward` if it remembers: the optional part of the network contract.

    `forward` is one step then: it takes the state before and returns the state after.
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
        """Return what stepping `forward` through T entries would, for learners.

        Args:
            observation: Leaves ``[T, N, …]``.
            privileged: Leaves ``[T, N, …]``, or empty.
            state: Before entry 0, leaves ``[N, …]``.
            starts: ``[T, N] bool``: a match starts there, so the state is put back to `initial_state` before.

        Returns:
            Heads ``[T, N, size] float32``, and the state after the last entry.
        """


@runtime_checkable
class NormalizingNetwork(Protocol):
    """What a module has besides `forward` if it keeps statistics of observations: an optional part of the contract.

    The statistics are buffers that `forward` and `unroll` read and never change.
    """

    def update_statistics(self, observation: Mapping[str, Tensor], privileged: Mapping[str, Tensor]) -> None:
        """Add rows to the statistics. Learners do so once per update, after it, with the decisions that were fresh.

        So a first pass over these computes what samplers computed, in however many minibatches and threads.

        Args:
            observation: Leaves ``[n, …]``, which may be `LazyLeaves`.
            privileged: Likewise; or empty.

        Raises:
            ContractError: The statistics would not be finite any more.
        """


class LazyLeaves(Mapping[str, "Tensor"]):
    """Leaves that are made when they are asked for.

    Args:
        names: Of the leaves.
        make: Makes one.
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
    """Call the method of that name where the module has one; see `NormalizingNetwork`."""
    if isinstance(module, NormalizingNetwork):
        module.update_statistics(observation, privileged)


def get_weights(module: nn.Module) -> dict[str, np.ndarray]:
    """Return copies of all parameters and buffers of `module` by name."""
    return to_arrays(module.state_dict())


def to_arrays(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Return copies of tensors of any devices, by the same names."""
    found = {}
    for part, flat in _joined(tensors):
        numbers, start = flat.cpu().numpy(), 0
        for name, tensor in part.items():
            found[name] = numbers[start : start + tensor.numel()].reshape(tuple(tensor.shape))
            start += tensor.numel()
    return {name: found[name] for name in tensors}


def _joined(tensors: Mapping[Any, Tensor]) -> Iterator[tuple[dict[Any, Tensor], Tensor]]:
    """Yield all tensors of one device and dtype, and a copy of their numbers one after another.

    It is one for all since a GPU computes a copy faster than it is asked for one, and has to be waited for.
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
        ModelError: Names or shapes do not fit; nothing has been copied then.
    """
    copy_arrays(weights, into=module.state_dict())


def copy_arrays(arrays: Mapping[str, np.ndarray], *, into: Mapping[str, Tensor]) -> None:
    """Copy arrays into the tensors of the same names, in place.

    Raises:
        ModelError: Names or shapes do not fit; nothing has been copied then.
    """
    check_shapes(arrays, {name: tuple(tensor.shape) for name, tensor in into.items()})
    for name, tensor in into.items():
        if tensor.device.type == "cpu":
            tensor.detach().numpy()[...] = arrays[name]  # from any array, read-only ones included, in one copy
        else:
            tensor.copy_(tensor.new_tensor(arrays[name]))


@contextmanager
def restored_on_error(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Give tensors back the values that they had where an exception leaves: changes count as a whole or not at all.

    Args:
        tensors: Of any devices and dtypes; whatever changes them must do so in place.
    """
    import torch  # noqa: PLC0415 - as in `to_tensor`

    before = list(_joined(dict(enumerate(tensors))))
    try:
        yield
    except Exception:  # of any kind: it is raised again
        for part, flat in before:
            values = torch.split(flat, [tensor.numel() for tensor in part.values()])
            for tensor, value in zip(part.values(), values, strict=True):
                tensor.copy_(value.view_as(tensor))
        raise


def check_shapes(arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that arrays have exactly the names and shapes expected.

    Raises:
        ModelError: They do not; the message names the first few.
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
    """Return a tensor that shares memory with `array` where torch allows it."""
    import torch  # noqa: PLC0415 - matchmakers and commands read this module too

    return torch.from_numpy(array if array.flags.writeable and array.flags.c_contiguous else array.copy())
