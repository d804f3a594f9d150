"""Micro-batches: the parts of a minibatch whose activations fit the memory budget, computed one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from attrs import frozen
from ludus.activity import UPDATING, track
from ludus_torch.activation_memory import saved_bytes
from torch import Tensor

from ludus_ppo.minibatches import Minibatch, MinibatchSource

_SAMPLE_ROWS = 8  # whose activations are measured
_COPIES = 2.0  # activations and their gradients, which do not all live at once, and what the layer in work needs


@frozen(eq=False)
class Parts:
    """The parts of a minibatch, each of which is taken when it is needed.

    Args:
        source: The batch.
        indices: Indices of the parts.
    """

    source: MinibatchSource
    indices: Sequence[np.ndarray]

    @property
    def num_rows(self) -> int:
        """Return n, the rows of all parts."""
        return sum(self.source.entries(index).size for index in self.indices)

    def take(self) -> Iterator[Minibatch]:
        """Yield the parts, one after another."""
        return map(self.source.take, track(UPDATING, self.indices))


class MicroBatches:
    """Divides the minibatches of a trainer.

    Args:
        budget: Bytes that the activations of a gradient step may take.
        evaluate: Computes what the loss of a minibatch depends on, with its graph.
    """

    def __init__(self, budget: int, evaluate: Callable[[Minibatch], Sequence[Tensor]]) -> None:
        self._budget = budget
        self._evaluate = evaluate
        self._row_bytes: float | None = None  # None: not measured yet

    def divide(self, source: MinibatchSource, index: np.ndarray) -> list[np.ndarray]:
        """Return the indices of the parts of a minibatch, in its order; mostly a single one.

        Args:
            source: The batch.
            index: Index of the minibatch.
        """
        if len(index) < 2:
            return [index]
        if self._row_bytes is None:
            self._row_bytes = self._measure(source, index)
        needed = source.num_rows_read(index) * self._row_bytes * _COPIES
        parts = min(len(index), max(1, round(np.ceil(needed / self._budget))))
        return [index] if parts == 1 else np.array_split(index, parts)

    def _measure(self, source: MinibatchSource, index: np.ndarray) -> float:
        """Return the bytes of activations per row that the network reads, from two samples of different sizes."""
        rows_per_index = source.num_rows_read(index) // len(index)
        more = min(len(index), max(2, 2 * _SAMPLE_ROWS // rows_per_index))
        samples = [index[: more // 2], index[:more]]
        few, many = (self._count_bytes(source.take(sample)) for sample in samples)
        return (many - few) / (source.num_rows_read(samples[1]) - source.num_rows_read(samples[0]))

    def _count_bytes(self, minibatch: Minibatch) -> int:
        with torch.random.fork_rng(devices=[]):
            return saved_bytes(lambda: self._evaluate(minibatch))
