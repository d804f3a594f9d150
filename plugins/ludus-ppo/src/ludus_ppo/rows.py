"""Decisions as rows, picked out of segments where these lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from attrs import frozen
from ludus.segment import SegmentBatch
from torch import Tensor

__all__ = ["RowSource", "Rows", "borrow"]

_READ = ("observation/", "privileged/")  # by the network


@frozen(kw_only=True)
class Rows:
    """Decisions to train on, one per row of every tensor; shapes as in `SegmentBatch` less the leading two axes."""

    observation: dict[str, Tensor]  # [≥ n, …]: what follows the n rows only fills up
    privileged: dict[str, Tensor]  # [≥ n, …]
    action: Tensor  # [n, L] int64 or [n, D] float32
    action_mask: Tensor | None  # [n, A] bool
    extras: dict[str, Tensor]
    advantage: Tensor  # [n]
    returns: Tensor  # [n]


class RowSource:
    """Picks rows out of segments: one copy of what is asked for, none of the rest.

    Args:
        batch: The segments; they may be views, of read-only memory too, and must not change meanwhile.
        advantage: ``[T+1, N] float32``.
        returns: ``[T+1, N] float32``.
        device: Where rows are wanted.
        multiple: What the network reads is filled up to a multiple of so many rows, so that few shapes occur:
            oneDNN compiles and keeps a kernel for every shape it meets.
    """

    def __init__(
        self,
        batch: SegmentBatch,
        *,
        advantage: Tensor,
        returns: Tensor,
        device: torch.device,
        multiple: int = 1,
    ) -> None:
        tensors = {name: borrow(array) for name, array in batch.arrays().items() if _is_column(name)}
        self._columns = {name: _Column(tensor) for name, tensor in tensors.items()}
        self._columns |= {"advantage": _Column(advantage), "returns": _Column(returns)}
        self._segments = batch.num_segments
        self._transfer = _GPUTransfer(device) if device.type == "cuda" else None
        self._device = device
        self._multiple = multiple

    def take(self, entries: np.ndarray) -> Rows:
        """Return copies of the rows `entries` on the device.

        Args:
            entries: ``[n] int64``: t · N + segment each.
        """
        index = torch.from_numpy(entries)
        filled = torch.from_numpy(np.pad(entries, (0, -entries.size % self._multiple), mode="edge"))
        indices = {name: filled if name.startswith(_READ) else index for name in self._columns}
        if self._transfer is None:
            taken = {name: self._pick(name, chosen).to(self._device) for name, chosen in indices.items()}
        else:
            taken = self._transfer.send(
                {name: self._pick(name, chosen, pinned=True) for name, chosen in indices.items()}
            )

        def group(prefix: str) -> dict[str, Tensor]:
            return {name[len(prefix) :]: tensor for name, tensor in taken.items() if name.startswith(prefix)}

        return Rows(
            observation=group("observation/"),
            privileged=group("privileged/"),
            action=taken["action"],
            action_mask=taken.get("action_mask"),
            extras=group("extras/"),
            advantage=taken["advantage"],
            returns=taken["returns"],
        )

    def pick(self, name: str, entries: np.ndarray) -> Tensor:
        """Return copies of the rows `entries` of one array, on the CPU.

        Args:
            name: As in `SegmentBatch.arrays`, or ``"advantage"`` or ``"returns"``.
            entries: ``[n] int64``: t · N + segment each.
        """
        return self._pick(name, torch.from_numpy(entries))

    def _pick(self, name: str, index: Tensor, *, pinned: bool = False) -> Tensor:
        column = self._columns[name]
        if column.pitch != self._segments:
            index = index.div(self._segments, rounding_mode="floor") * column.pitch + index % self._segments
        if not pinned:
            return column.rows.index_select(0, index)
        out = torch.empty((len(index), *column.rows.shape[1:]), dtype=column.rows.dtype, pin_memory=True)
        return torch.index_select(column.rows, 0, index, out=out)


class _Column:
    """An array ``[T+1, N, …]`` as rows ``[m, …]`` in the same memory: row t · pitch + segment."""

    def __init__(self, tensor: Tensor) -> None:
        inner = tensor[0, 0]
        step, row = tensor.stride(0), tensor.stride(1)
        if not (inner.is_contiguous() and row >= max(1, inner.numel()) and step % row == 0 and step >= row):
            tensor = tensor.contiguous()
            step, row = tensor.stride(0), tensor.stride(1)
        self.pitch = step // row
        count = (tensor.shape[0] - 1) * self.pitch + tensor.shape[1]
        self.rows = tensor.as_strided((count, *inner.shape), (row, *tensor.stride()[2:]))


class _GPUTransfer:
    """Copies from pinned memory on a stream of its own, while the GPU computes on what was sent before."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def send(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors on the device, ready for what is queued on its current stream from now on."""
        current = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            sent = {name: tensor.to(self._device, non_blocking=True) for name, tensor in tensors.items()}
        current.wait_stream(self._stream)
        for tensor in sent.values():
            tensor.record_stream(current)  # or its memory might be given away before it has been read
        return sent


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


def _is_column(name: str) -> bool:
    return name in ("action", "action_mask") or name.startswith(("observation/", "privileged/", "extras/"))
