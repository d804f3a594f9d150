"""Minibatches of single decisions, for networks without memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import torch
from ludus.network import to_tensor
from ludus.segment import SegmentBatch
from torch import Tensor

from ludus_ppo.minibatches import Minibatch, build_minibatch, row_columns

_MAX_RESIDENT_BYTES = 1 << 28  # of a batch that a GPU gets as a whole

_READ_BY_NETWORK = ("observation/", "privileged/")

_Rows = TypeVar("_Rows", np.ndarray, Tensor)


class RowMinibatches:
    """Selects rows from segments; see `ludus_ppo.minibatches.MinibatchSource`.

    Indices are entries ``[n] int64``: t · N + segment each. A GPU gets a batch of at most 256 MiB as a whole and
    selects rows itself, as the CPU would take longer to select them than a GPU to learn from them.

    Args:
        batch: The segments. Their memory may be read-only and must not change meanwhile.
        trainable: ``[T+1, N] bool``.
        targets: ``"advantage"`` and ``"returns/HEAD"``, ``[T+1, N] float32`` each.
        device: Device of the minibatches.
        few_sizes: Whether to make minibatches of few different sizes and to pad what the network reads to one of them:
            oneDNN compiles kernels for every shape and keeps them, and CUDA graphs are recorded for every shape.
    """

    def __init__(
        self,
        batch: SegmentBatch,
        *,
        trainable: np.ndarray,
        targets: Mapping[str, np.ndarray],
        device: torch.device,
        few_sizes: bool = False,
    ) -> None:
        columns = row_columns(batch, targets)
        self._columns = {name: column.reshape(-1, *column.shape[2:]) for name, column in columns.items()}
        self._entries = np.flatnonzero(trainable)
        self._device = device
        self._few_sizes = few_sizes
        self._resident: dict[str, Tensor] = {}
        if _is_resident(device, sum(column.nbytes for column in self._columns.values())):
            self._resident = {name: to_tensor(column).to(device) for name, column in self._columns.items()}

    def draw(self, rng: np.random.Generator, *, count: int, share: float = 1.0) -> list[np.ndarray]:
        """Return entries in random order; see `MinibatchSource.draw`."""
        order = self._entries[rng.permutation(self._entries.size)]
        order = order[: max(1, round(share * order.size))]
        count = min(count, order.size)
        unit = size_unit(order.size // count) if self._few_sizes else 1
        bounds = np.arange(1, count) * (order.size // unit) // count * unit
        return np.split(order, bounds)

    def num_rows_read(self, index: np.ndarray) -> int:
        """Return the number of rows; see `MinibatchSource.num_rows_read`."""
        return len(index)

    def entries(self, index: np.ndarray) -> np.ndarray:
        """Return the index itself; see `MinibatchSource.entries`."""
        return index

    def take(self, index: np.ndarray) -> Minibatch:
        """Return these rows; see `MinibatchSource.take`."""
        padded = index
        if self._few_sizes:
            padded = np.pad(index, (0, -index.size % size_unit(index.size)), mode="edge")
        if self._resident:
            return build_minibatch(self._take_resident(index, padded))
        return build_minibatch(
            {
                name: torch.from_numpy(column.take(_rows_read(name, index, padded), axis=0)).to(self._device)
                for name, column in self._columns.items()
            }
        )

    def _take_resident(self, index: np.ndarray, padded: np.ndarray) -> dict[str, Tensor]:
        rows, read = (torch.from_numpy(entries).to(self._device) for entries in (index, padded))
        return {name: column.index_select(0, _rows_read(name, rows, read)) for name, column in self._resident.items()}


def _rows_read(name: str, rows: _Rows, padded: _Rows) -> _Rows:
    """Return the rows to take of a column: the padded ones of what the network reads."""
    return padded if name.startswith(_READ_BY_NETWORK) else rows


def size_unit(rows: int) -> int:
    """Return a power of two of which the sizes of minibatches of about `rows` rows are multiples."""
    return 1 << max(0, (rows // 16).bit_length() - 1)


def _is_resident(device: torch.device, num_bytes: int) -> bool:
    return device.type != "cpu" and num_bytes <= _MAX_RESIDENT_BYTES
