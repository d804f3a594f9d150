"""How batches get to a device: borrowed where they lie, sent whole, or one selection of rows after another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

__all__ = ["StagingBuffer", "Transfer", "borrow"]

_Layout: TypeAlias = dict[str, tuple[torch.dtype, tuple[int, ...]]]

_MOST_WHOLE = 1 << 28  # bytes of a batch that is sent to a GPU whole; of a larger one, one minibatch after another
_ALIGNED = 64  # bytes: where tensors begin in a landing


@cache
def _transfer_stream(device: torch.device) -> torch.cuda.Stream:
    """Return a GPU's stream for copies to it, the same every time: torch keeps freed memory apart for every stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class StagingBuffer:
    """Memory on a device in which batches land, each in the place of the one before: there recorded work finds it.

    Args:
        device: Where it is.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._layout: _Layout = {}
        self._packed, self._memory = (torch.empty(0, dtype=torch.uint8, device=place) for place in ("cpu", device))
        self._views: tuple[dict[str, Tensor], ...] = ({}, {})  # of tensors in both
        self._sent: torch.cuda.Event | None = None  # when what was packed had been read

    def land(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return copies of tensors there, made by a single copy to the device.

        So that few shapes occur, more segments follow those of the tensors, up to a power of two. What these hold is
        undefined.

        Args:
            tensors: ``[N, …]`` where the name begins with ``state/``, else ``[T, N, …]``.
        """
        layout = {name: (tensor.dtype, _widened(tensor.shape, _segment_axis(name))) for name, tensor in tensors.items()}
        if layout != self._layout:
            self._lay_out(layout)
        if self._sent is not None:
            self._sent.synchronize()
        packed, landed = self._views
        for name, view in packed.items():
            axis, tensor = _segment_axis(name), tensors[name]
            view.narrow(axis, 0, tensor.shape[axis]).copy_(tensor)
        size = len(self._packed)
        self._memory[:size].copy_(self._packed, non_blocking=True)
        if self._device.type == "cuda":
            self._sent = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._sent.record(torch.cuda.current_stream(self._device))
        return dict(landed)

    def _lay_out(self, layout: _Layout) -> None:
        """Divide the memory among tensors."""
        size, places = 0, {}
        for name, (dtype, shape) in layout.items():
            places[name] = slice(size, size + math.prod(shape) * dtype.itemsize)
            size = -(-places[name].stop // _ALIGNED) * _ALIGNED
        self._packed = torch.empty(size, dtype=torch.uint8, pin_memory=self._device.type == "cuda")
        if size > len(self._memory):
            self._memory = torch.empty(size, dtype=torch.uint8, device=self._device)
        self._views = tuple(
            {name: memory[places[name]].view(dtype).view(shape) for name, (dtype, shape) in layout.items()}
            for memory in (self._packed, self._memory)
        )
        self._layout = layout


def _widened(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    """Return a shape with a power of two at one axis, at least what is there."""
    return (*shape[:axis], 1 << (shape[axis] - 1).bit_length(), *shape[axis + 1 :])


def _segment_axis(name: str) -> int:
    return 0 if name.startswith("state/") else 1


class Transfer:
    """How a batch gets to a device, and where rows are selected from it.

    A GPU that gets all of a batch at once selects by itself: with a small network the CPU would take longer to select
    rows and to send them than the GPU to learn from them. Of a batch that might be too large for that, rows are sent
    to a GPU on a stream of its own, while it computes on what was sent before.

    Args:
        device: Where rows are wanted.
        tensors: The batch.
        landing: Where it is sent if it is sent whole; None: to new memory.
    """

    def __init__(self, device: torch.device, tensors: Iterable[Tensor], landing: StagingBuffer | None) -> None:
        on_gpu = device.type == "cuda"
        fits = sum(tensor.nbytes for tensor in tensors) <= _MOST_WHOLE
        self._device = device
        self._landing = (landing or StagingBuffer(device)) if fits and (on_gpu or landing is not None) else None
        self._pinned = on_gpu and not fits

    @property
    def whole(self) -> bool:
        """Return whether rows are selected on the device."""
        return self._landing is not None

    def place(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of the batch where rows are selected."""
        return tensors if self._landing is None else self._landing.land(tensors)

    def index(self, numbers: np.ndarray) -> Tensor:
        """Return numbers to select by, beside the batch."""
        index = torch.from_numpy(numbers)
        if not self.whole or self._device.type != "cuda":
            return index
        return index.pin_memory().to(self._device, non_blocking=True)

    def select(self, tensor: Tensor, dim: int, index: Tensor) -> Tensor:
        """Return `tensor.index_select`, in memory from which can be sent without waiting."""
        if not self._pinned:
            return tensor.index_select(dim, index)
        shape = (*tensor.shape[:dim], len(index), *tensor.shape[dim + 1 :])
        out = torch.empty(shape, dtype=tensor.dtype, pin_memory=True)
        return torch.index_select(tensor, dim, index, out=out)

    def send(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return what was selected on the device, ready for what is queued on its current stream from now on."""
        if not self._pinned:
            return {name: tensor.to(self._device) for name, tensor in tensors.items()}
        stream, current = _transfer_stream(self._device), torch.cuda.current_stream(self._device)
        with torch.cuda.stream(stream):
            sent = {name: tensor.to(self._device, non_blocking=True) for name, tensor in tensors.items()}
        current.wait_stream(stream)
        for tensor in sent.values():
            tensor.record_stream(current)  # or its memory might be given away before it has been read
        return sent

    def weight(self, count: int, size: int) -> Tensor:
        """Return what each of so many rows counts in means where only the first `count` do, on the device."""
        weight = torch.zeros(size, device=self._device)
        weight[:count] = 1 / count
        return weight


def borrow(array: np.ndarray) -> Tensor:
    """Return a tensor in the memory of `array`, also where that is read-only: never write to it."""
    if any(stride < 0 for stride in array.strides):  # torch has no such tensors
        array = array.copy()
    if array.flags.writeable:
        return torch.from_numpy(array)
    return torch.from_numpy(np.asarray(_Writeable(array)))


class _Writeable:
    """Shows a read-only array as one that is not, which is all that torch takes without a warning."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array  # keeps the memory alive

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface = self._array.__array_interface__
        return {**interface, "data": (interface["data"][0], False)}
