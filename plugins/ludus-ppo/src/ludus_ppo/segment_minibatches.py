"""Minibatches of whole segments, for recurrent networks, whose state is carried through a segment."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from ludus.segment import SegmentBatch

from ludus_ppo.minibatches import Minibatch, build_minibatch, has_observation, row_columns
from ludus_ppo.networks import Unrolled

_READ_BY_NETWORK = ("observation/", "privileged/")


class SegmentMinibatches:
    """Selects whole segments; see `ludus_ppo.minibatches.MinibatchSource`.

    Indices are segments ``[n] int64``.

    Args:
        batch: The segments, with their initial recurrent states. Their memory must not change meanwhile.
        trainable: ``[T+1, N] bool``.
        targets: ``"advantage"`` and ``"returns/HEAD"``, ``[T+1, N] float32`` each.
        device: Device of the minibatches.
        burn_in: Number of entries at the start of every segment that only update the state. None of them is trainable.
    """

    def __init__(
        self,
        batch: SegmentBatch,
        *,
        trainable: np.ndarray,
        targets: Mapping[str, np.ndarray],
        device: torch.device,
        burn_in: int = 0,
    ) -> None:
        steps = int(np.flatnonzero(trainable.any(axis=1)).max()) + 1
        self._trainable = trainable[:steps]
        self._decisions = self._trainable.sum(axis=0)
        self._segments = np.flatnonzero(self._decisions)
        self._columns = {name: column[:steps] for name, column in row_columns(batch, targets).items()}
        self._state = batch.initial_state
        self._starts = _match_starts(batch)[:steps]
        self._undefined = ~has_observation(batch)[:steps]
        self._device = device
        self._burn_in = burn_in

    def draw(self, rng: np.random.Generator, *, count: int, share: float = 1.0) -> list[np.ndarray]:
        """Return segments in random order; see `MinibatchSource.draw`."""
        order = self._segments[rng.permutation(self._segments.size)]
        decisions = self._decisions[order].cumsum()
        order = order[: max(1, int(np.searchsorted(decisions, share * decisions[-1])) + 1)]
        return np.array_split(order, min(count, order.size))

    def num_rows_read(self, index: np.ndarray) -> int:
        """Return the number of entries of these segments; see `MinibatchSource.num_rows_read`."""
        return len(index) * len(self._trainable)

    def entries(self, index: np.ndarray) -> np.ndarray:
        """Return the trainable entries of these segments, in the order of `take`; see `MinibatchSource.entries`."""
        step, column = np.nonzero(self._trainable[:, index])
        return np.asarray(step * self._trainable.shape[1] + index[column])

    def take(self, index: np.ndarray) -> Minibatch:
        """Return the trainable rows of these segments and how to unroll the network; see `MinibatchSource.take`."""
        rows = np.divmod(self.entries(index), self._trainable.shape[1])
        taken = {
            name: self._take_unrolled(column, index) if name.startswith(_READ_BY_NETWORK) else column[rows]
            for name, column in self._columns.items()
        }
        unrolled = Unrolled(
            state={name: self._send(leaf[index]) for name, leaf in self._state.items()},
            starts=self._send(self._starts[:, index]),
            burn_in=self._burn_in,
            kept=self._send(np.flatnonzero(self._trainable[:, index])),
        )
        return build_minibatch({name: self._send(array) for name, array in taken.items()}, unrolled)

    def _take_unrolled(self, column: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Return ``[T, N, …]`` of these segments; undefined entries repeat entry 0, which is a valid input."""
        taken = column[:, index]
        step, segment = np.nonzero(self._undefined[:, index])
        taken[step, segment] = taken[0, segment]
        return taken

    def _send(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device)


def _match_starts(batch: SegmentBatch) -> np.ndarray:
    """Return ``[T+1, N] bool``: entries at which a match starts within a segment."""
    starts = np.zeros_like(batch.decided)
    starts[1:] = batch.terminated[:-1] | ~batch.decided[:-1]  # an undecided entry is a final observation
    return np.asarray(starts & has_observation(batch))  # between starts, networks unroll many entries at once
