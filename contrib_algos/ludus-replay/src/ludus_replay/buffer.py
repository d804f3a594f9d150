"""Replay buffer: a ring of rows, sampled uniformly or by priority."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from ludus.errors import ConfigError, ContractError, ModelError

from ludus_replay.layout import ReplayLayout
from ludus_replay.rows import Rows
from ludus_replay.sum_tree import SumTree
from ludus_replay.transitions import Transitions

_log = logging.getLogger(__name__)

# bytes of a row besides its arrays; the sum tree has up to four float64 nodes for each row
_INDEX_BYTES, _PRIORITY_BYTES = 8, 32
_PRIORITIES = "priorities"
_COUNTERS = ("capacity", "next", "filled", "max_priority")
_ADVICE = "resume with the same replay options"


class ReplayBuffer:
    """Stores the newest transitions.

    Args:
        layout: Arrays of a row.
        capacity: Largest number of rows; about one per decision, and one more per segment.
        memory_mb: Largest size in MiB. If `capacity` needs more, the buffer stores fewer rows and logs a warning.
        min_rows: Number of rows below which the buffer is useless.
        priority_exponent: Sampling probabilities are proportional to priorities to this power (alpha); None: uniform.

    Raises:
        ConfigError: Fewer than `min_rows` rows fit.
    """

    def __init__(
        self,
        layout: ReplayLayout,
        *,
        capacity: int,
        memory_mb: float,
        min_rows: int = 1,
        priority_exponent: float | None = None,
    ) -> None:
        row_bytes = layout.row_bytes + _INDEX_BYTES + (0 if priority_exponent is None else _PRIORITY_BYTES)
        self.capacity = _limit_rows(capacity, memory_mb, row_bytes, min_rows)
        self._layout = layout
        # zeros: pages that are never written take no memory
        self._arrays = {
            name: np.zeros((self.capacity, *shape), dtype) for name, (shape, dtype) in layout.arrays.items()
        }
        self._starts = np.zeros(self.capacity, np.int64)  # ring of the rows where transitions start, oldest first
        self._first_start = 0
        self._num_transitions = 0
        self._next_row = 0
        self._filled = 0
        self._exponent = priority_exponent
        self._tree = None if priority_exponent is None else SumTree(self.capacity)
        self._max_priority = 1.0
        self._undo_log: list[tuple[str, np.ndarray, np.ndarray]] | None = None

    def __len__(self) -> int:
        """Return the number of transitions."""
        return self._num_transitions

    @property
    def full(self) -> bool:
        """Return whether new rows replace old ones."""
        return self._filled == self.capacity

    @property
    def max_priority(self) -> float:
        """Return the largest priority so far, which new transitions get."""
        return self._max_priority

    # -- writing -----------------------------------------------------------------------------------------------

    def add(self, rows: Rows) -> None:
        """Store rows; they replace the oldest ones if the buffer is full."""
        arrays = {name: array[-self.capacity :] for name, array in rows.arrays.items()}
        offset = arrays["offset"]
        target_rows = (self._next_row + np.arange(offset.size)) % self.capacity
        num_replaced = int(np.count_nonzero(self._arrays["offset"][target_rows]))
        self._first_start = (self._first_start + num_replaced) % self.capacity
        self._num_transitions -= num_replaced
        for name, array in arrays.items():
            self._write(name, target_rows, array)
        starts = target_rows[offset > 0]
        end = self._first_start + self._num_transitions
        self._starts[(end + np.arange(starts.size)) % self.capacity] = starts
        self._num_transitions += starts.size
        self._next_row = (self._next_row + offset.size) % self.capacity
        self._filled = min(self._filled + offset.size, self.capacity)
        if self._exponent is not None:
            self._set_weights(target_rows, np.where(offset > 0, self._max_priority**self._exponent, 0.0))

    def set_priorities(self, index: np.ndarray, priority: np.ndarray) -> None:
        """Set the priorities of sampled transitions; without effect on a buffer that samples uniformly.

        Args:
            index: ``[n] int64``, `Transitions.index`.
            priority: ``[n]``, > 0; usually |TD error| plus a small constant.

        Raises:
            ContractError: A priority is not positive and finite.
        """
        if self._exponent is None or not index.size:
            return
        priority = priority.astype(np.float64)
        if not (priority.min() > 0 and np.isfinite(priority).all()):
            raise ContractError("replay: priorities must be positive and finite")
        self._max_priority = max(self._max_priority, float(priority.max()))
        self._set_weights(index, priority**self._exponent)

    def _write(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        array = self._arrays[name]
        if self._undo_log is not None:
            self._undo_log.append((name, rows, array[rows]))
        array[rows] = values

    def _set_weights(self, rows: np.ndarray, weight: np.ndarray) -> None:
        assert self._tree is not None
        if self._undo_log is not None:
            self._undo_log.append((_PRIORITIES, rows, self._tree.get(rows)))
        self._tree.set(rows, weight)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Undo all changes to the buffer if the block raises an exception."""
        counters = self._counters()
        self._undo_log = []
        try:
            yield
        except BaseException:
            for name, rows, values in reversed(self._undo_log):
                if self._tree is not None and name == _PRIORITIES:
                    self._tree.set(rows, values)
                else:
                    self._arrays[name][rows] = values
            self._restore_counters(counters)
            raise
        finally:
            self._undo_log = None

    # -- sampling ----------------------------------------------------------------------------------------------

    def sample(self, count: int, rng: np.random.Generator, *, beta: float = 1.0) -> Transitions[np.ndarray]:
        """Return copies of n transitions, sampled with replacement.

        Args:
            count: n ≥ 1.
            rng: The only source of randomness.
            beta: Exponent of the importance weights (N P(i))^-beta; 1 corrects all of the bias.

        Raises:
            ContractError: The buffer is empty.
        """
        if not self._num_transitions:
            raise ContractError("replay: the buffer is empty; add rows before sampling")
        if self._tree is None:
            nth = (self._first_start + rng.integers(self._num_transitions, size=count)) % self.capacity
            return self._gather(self._starts[nth], np.ones(count, np.float32))
        # one from each of n equal parts of the total
        index = self._tree.find((np.arange(count) + rng.random(count)) * (self._tree.total / count))
        weight = self._tree.get(index) ** -beta  # N and the total cancel out
        return self._gather(index, (weight / weight.max()).astype(np.float32))

    def _gather(self, index: np.ndarray, weight: np.ndarray) -> Transitions[np.ndarray]:
        discount = self._arrays["discount"].take(index)
        offset = self._arrays["offset"].take(index) * (discount != 0)
        next_index = (index + offset) % self.capacity
        masks = self._arrays.get("action_mask")
        return Transitions(
            observation=self._gather_group("observation/", index),
            privileged=self._gather_group("privileged/", index),
            action=self._arrays["action"].take(index, axis=0),
            action_mask=None if masks is None else masks.take(index, axis=0),
            reward=self._arrays["reward"].take(index),
            discount=discount,
            next_observation=self._gather_group("observation/", next_index),
            next_privileged=self._gather_group("privileged/", next_index),
            next_action_mask=None if masks is None else masks.take(next_index, axis=0),
            sums=self._gather_group("sums/", index),
            index=index,
            weight=weight,
        )

    def _gather_group(self, prefix: str, index: np.ndarray) -> dict[str, np.ndarray]:
        names = [name for name in self._arrays if name.startswith(prefix)]
        return {name[len(prefix) :]: self._arrays[name].take(index, axis=0) for name in names}

    # -- checkpoints -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Return copies of all rows in use and of their priorities."""
        state = {f"rows/{name}": array[: self._filled].copy() for name, array in self._arrays.items()}
        if self._tree is not None:
            state[_PRIORITIES] = self._tree.get(np.arange(self._filled))
        return state | self._counters()

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore `state()`; the same samples follow.

        Raises:
            ModelError: The state has another layout or capacity; the buffer is unchanged.
        """
        self._check_state(state)
        filled = int(state["filled"])
        for name, array in self._arrays.items():
            array[:filled] = state[f"rows/{name}"]
        self._arrays["offset"][filled:] = 0
        self._restore_counters({name: state[name] for name in _COUNTERS})
        if self._tree is not None:
            self._tree = SumTree(self.capacity)
            self._tree.set(np.arange(self._filled), state[_PRIORITIES])

    def _check_state(self, state: Mapping[str, np.ndarray]) -> None:
        expected = {f"rows/{name}" for name in self._arrays} | set(_COUNTERS)
        expected |= set() if self._tree is None else {_PRIORITIES}
        if state.keys() != expected:
            difference = ", ".join(sorted(state.keys() ^ expected))
            raise ModelError(f"the saved replay buffer has other arrays: {difference}; {_ADVICE}")
        filled, capacity = int(state["filled"]), int(state["capacity"])
        if filled > self.capacity or capacity != self.capacity:
            raise ModelError(
                f"the saved replay buffer has a capacity of {capacity} rows, expected {self.capacity}; {_ADVICE}"
            )
        for name, array in self._arrays.items():
            saved, shape = state[f"rows/{name}"], (filled, *array.shape[1:])
            if saved.shape != shape or saved.dtype != array.dtype:
                raise ModelError(
                    f"array {name} of the saved replay buffer is {saved.shape} {saved.dtype}, "
                    f"expected {shape} {array.dtype}; {_ADVICE}"
                )

    def _counters(self) -> dict[str, np.ndarray]:
        return {
            "capacity": np.array(self.capacity),
            "next": np.array(self._next_row),
            "filled": np.array(self._filled),
            "max_priority": np.array(self._max_priority),
        }

    def _restore_counters(self, counters: Mapping[str, Any]) -> None:
        """Set the counters and recompute where transitions start; the oldest row is the next one to overwrite."""
        self._next_row, self._filled = int(counters["next"]), int(counters["filled"])
        self._max_priority = float(counters["max_priority"])
        oldest = self._next_row if self.full else 0
        rows = (oldest + np.arange(self._filled)) % self.capacity
        starts = rows[self._arrays["offset"][rows] != 0]
        self._starts[: starts.size] = starts
        self._first_start, self._num_transitions = 0, starts.size


def _limit_rows(capacity: int, memory_mb: float, row_bytes: int, min_rows: int) -> int:
    """Return how many rows fit into the capacity and the memory."""
    fit = math.floor(memory_mb * 2**20 / row_bytes)
    if min(fit, capacity) < min_rows:
        raise ConfigError(
            f"replay: {memory_mb:g} MB and a capacity of {capacity} fit {min(fit, capacity)} rows of {row_bytes} "
            f"bytes; expected at least {min_rows} — raise replay_memory_mb or replay_capacity"
        )
    if fit < capacity:
        _log.warning(
            "replay: %d rows of %d bytes would take %.0f MB; storing %d rows in %g MB",
            capacity,
            row_bytes,
            capacity * row_bytes / 2**20,
            fit,
            memory_mb,
        )
    return min(fit, capacity)
