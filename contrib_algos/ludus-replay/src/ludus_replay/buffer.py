"""The replay memory: a ring of rows, drawn from uniformly or by priority."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np
from attrs import define
from ludus.errors import ConfigError, ContractError, ModelError

from ludus_replay.layout import ReplayLayout
from ludus_replay.rows import Rows
from ludus_replay.sum_tree import SumTree

__all__ = ["ReplayBuffer", "Transitions"]

_log = logging.getLogger(__name__)
_INDEX_BYTES, _PRIORITY_BYTES = 8, 32  # of a row besides its data; the tree has up to four numbers for each


_Array = TypeVar("_Array")
_Other = TypeVar("_Other")


@define(kw_only=True)
class Transitions(Generic[_Array]):
    """Transitions drawn from a replay memory, as NumPy arrays that are copies, or as tensors.

    Attributes:
        observation: Leaves ``[n, …]`` in the environment's dtypes.
        privileged: Leaves ``[n, …]``; empty unless the layout has them.
        action: ``[n, L] int64`` or ``[n, D] float32``.
        action_mask: ``[n, A] bool``; None for continuous actions.
        reward: ``[n] float32``: discounted sum over the decisions of the transition.
        discount: ``[n] float32``: what the value of the next observation counts; 0 where the match terminated.
        next_observation: Leaves ``[n, …]``; anything where the discount is 0.
        next_privileged: Leaves ``[n, …]``, as above.
        next_action_mask: ``[n, A] bool``, as above, but never without a legal choice.
        sums: ``[n] float32`` each: what else was summed over the decisions of the transition.
        index: ``[n] int64``: where it lies, for `ReplayBuffer.set_priorities`.
        weight: ``[n] float32``: importance weights, the largest of the draw is 1; all 1 in uniform draws.
    """

    observation: dict[str, _Array]
    privileged: dict[str, _Array]
    action: _Array
    action_mask: _Array | None
    reward: _Array
    discount: _Array
    next_observation: dict[str, _Array]
    next_privileged: dict[str, _Array]
    next_action_mask: _Array | None
    sums: dict[str, _Array]
    index: np.ndarray
    weight: _Array

    def mapped(self, function: Callable[[_Array], _Other]) -> Transitions[_Other]:
        """Return the same with a function of every array but `index`, which is for the memory, on the CPU."""

        def of_group(leaves: Mapping[str, _Array]) -> dict[str, _Other]:
            return {name: function(leaf) for name, leaf in leaves.items()}

        return Transitions(
            observation=of_group(self.observation),
            privileged=of_group(self.privileged),
            action=function(self.action),
            action_mask=None if self.action_mask is None else function(self.action_mask),
            reward=function(self.reward),
            discount=function(self.discount),
            next_observation=of_group(self.next_observation),
            next_privileged=of_group(self.next_privileged),
            next_action_mask=None if self.next_action_mask is None else function(self.next_action_mask),
            sums=of_group(self.sums),
            index=self.index,
            weight=function(self.weight),
        )


class ReplayBuffer:
    """Remembers the last transitions.

    Args:
        layout: What a row holds.
        capacity: Rows at most; about one per decision, and one more per segment.
        memory_mb: Memory at most, in MiB; where `capacity` needs more, fewer rows are held and one line is logged.
        fewest: Rows below which the memory is of no use.
        priority_exponent: Draws are in proportion to priorities to this power (alpha); None: uniform.

    Raises:
        ConfigError: Fewer than `fewest` rows fit into the memory.
    """

    def __init__(
        self,
        layout: ReplayLayout,
        *,
        capacity: int,
        memory_mb: float,
        fewest: int = 1,
        priority_exponent: float | None = None,
    ) -> None:
        row_bytes = layout.row_bytes + _INDEX_BYTES + (0 if priority_exponent is None else _PRIORITY_BYTES)
        self.capacity = _rows_that_fit(capacity, memory_mb, row_bytes, fewest)
        self._layout = layout
        # zeros: pages that are never written cost nothing
        self._arrays = {
            name: np.zeros((self.capacity, *shape), dtype) for name, (shape, dtype) in layout.arrays.items()
        }
        self._starts = np.zeros(self.capacity, np.int64)  # a ring too: rows where transitions start, oldest first
        self._first = 0  # of that ring
        self._transitions = 0
        self._next = 0  # row to write
        self._filled = 0
        self._exponent = priority_exponent
        self._tree = None if priority_exponent is None else SumTree(self.capacity)
        self._max_priority = 1.0
        self._journal: list[tuple[str, np.ndarray, np.ndarray]] | None = None

    def __len__(self) -> int:
        """Return how many transitions can be drawn."""
        return self._transitions

    @property
    def full(self) -> bool:
        """Return whether more rows would take the place of others."""
        return self._filled == self.capacity

    @property
    def max_priority(self) -> float:
        """Return the largest priority so far, which new transitions get."""
        return self._max_priority

    # -- writing -----------------------------------------------------------------------------------------------

    def add(self, rows: Rows) -> None:
        """Remember rows in place of the oldest ones."""
        arrays = {name: array[-self.capacity :] for name, array in rows.arrays.items()}
        offset = arrays["offset"]
        at = (self._next + np.arange(offset.size)) % self.capacity
        lost = int(np.count_nonzero(self._arrays["offset"][at]))
        self._first = (self._first + lost) % self.capacity
        self._transitions -= lost
        for name, array in arrays.items():
            self._write(name, at, array)
        starts = at[offset > 0]
        self._starts[(self._first + self._transitions + np.arange(starts.size)) % self.capacity] = starts
        self._transitions += starts.size
        self._next = (self._next + offset.size) % self.capacity
        self._filled = min(self._filled + offset.size, self.capacity)
        if self._exponent is not None:
            self._set_weights(at, np.where(offset > 0, self._max_priority**self._exponent, 0.0))

    def set_priorities(self, index: np.ndarray, priority: np.ndarray) -> None:
        """Change priorities of transitions; without effect on uniform draws.

        Args:
            index: ``[n] int64``, as drawn.
            priority: ``[n]``, > 0: by habit |TD error| plus a little.

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

    def _write(self, name: str, at: np.ndarray, values: np.ndarray) -> None:
        array = self._arrays[name]
        if self._journal is not None:
            self._journal.append((name, at, array[at]))
        array[at] = values

    def _set_weights(self, at: np.ndarray, weight: np.ndarray) -> None:
        assert self._tree is not None
        if self._journal is not None:
            self._journal.append((_TREE, at, self._tree.get(at)))
        self._tree.set(at, weight)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Undo everything that happened to the memory within, if an exception leaves it."""
        numbers = self._numbers()
        self._journal = []
        try:
            yield
        except BaseException:
            for name, at, values in reversed(self._journal):
                if self._tree is not None and name == _TREE:
                    self._tree.set(at, values)
                else:
                    self._arrays[name][at] = values
            self._restore(numbers)
            raise
        finally:
            self._journal = None

    # -- drawing -----------------------------------------------------------------------------------------------

    def sample(self, count: int, rng: np.random.Generator, *, beta: float = 1.0) -> Transitions[np.ndarray]:
        """Draw transitions, each as often as chance has it.

        Args:
            count: n ≥ 1.
            rng: The only source of randomness.
            beta: Exponent of the importance weights (N P(i))^-beta; 1 makes up for all of their bias.

        Raises:
            ContractError: There is none to draw.
        """
        if not self._transitions:
            raise ContractError("replay: no transition to draw")
        if self._tree is None:
            nth = (self._first + rng.integers(self._transitions, size=count)) % self.capacity
            return self._take(self._starts[nth], np.ones(count, np.float32))
        # one from each of n equal parts of the total
        index = self._tree.find((np.arange(count) + rng.random(count)) * (self._tree.total / count))
        weight = self._tree.get(index) ** -beta  # N and the total cancel out
        return self._take(index, (weight / weight.max()).astype(np.float32))

    def _take(self, index: np.ndarray, weight: np.ndarray) -> Transitions[np.ndarray]:
        discount = self._arrays["discount"].take(index)
        ahead = self._arrays["offset"].take(index) * (discount != 0)
        after = (index + ahead) % self.capacity
        masks = self._arrays.get("action_mask")
        return Transitions(
            observation=self._group("observation/", index),
            privileged=self._group("privileged/", index),
            action=self._arrays["action"].take(index, axis=0),
            action_mask=None if masks is None else masks.take(index, axis=0),
            reward=self._arrays["reward"].take(index),
            discount=discount,
            next_observation=self._group("observation/", after),
            next_privileged=self._group("privileged/", after),
            next_action_mask=None if masks is None else masks.take(after, axis=0),
            sums=self._group("sums/", index),
            index=index,
            weight=weight,
        )

    def _group(self, prefix: str, index: np.ndarray) -> dict[str, np.ndarray]:
        names = [name for name in self._arrays if name.startswith(prefix)]
        return {name[len(prefix) :]: self._arrays[name].take(index, axis=0) for name in names}

    # -- checkpoints -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Return copies of all rows in use and their priorities; no more than is remembered."""
        state = {f"rows/{name}": array[: self._filled].copy() for name, array in self._arrays.items()}
        if self._tree is not None:
            state[_TREE] = self._tree.get(np.arange(self._filled))
        return state | self._numbers()

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from `state()`: equal draws follow.

        Raises:
            ModelError: The state is of another layout or capacity; nothing has changed then.
        """
        self._check_state(state)
        filled = int(state["filled"])
        for name, array in self._arrays.items():
            array[:filled] = state[f"rows/{name}"]
        self._arrays["offset"][filled:] = 0
        self._restore({name: state[name] for name in _NUMBERS})
        if self._tree is not None:
            self._tree = SumTree(self.capacity)
            self._tree.set(np.arange(self._filled), state[_TREE])

    def _check_state(self, state: Mapping[str, np.ndarray]) -> None:
        expected = {f"rows/{name}" for name in self._arrays} | set(_NUMBERS)
        expected |= set() if self._tree is None else {_TREE}
        if state.keys() != expected:
            others = ", ".join(sorted(state.keys() ^ expected))
            raise ModelError(f"the saved replay holds other arrays: {others}; {_CURE}")
        filled = int(state["filled"])
        if filled > self.capacity or int(state["capacity"]) != self.capacity:
            found = f"the saved replay has a capacity of {int(state['capacity'])} rows"
            raise ModelError(f"{found}, this one of {self.capacity}; {_CURE}")
        for name, array in self._arrays.items():
            saved, shape = state[f"rows/{name}"], (filled, *array.shape[1:])
            if saved.shape != shape or saved.dtype != array.dtype:
                found = f"the saved replay has {name} {saved.shape} {saved.dtype}"
                raise ModelError(f"{found}, expected {shape} {array.dtype}; {_CURE}")

    def _numbers(self) -> dict[str, np.ndarray]:
        return {
            "capacity": np.array(self.capacity),
            "next": np.array(self._next),
            "filled": np.array(self._filled),
            "max_priority": np.array(self._max_priority),
        }

    def _restore(self, numbers: Mapping[str, Any]) -> None:
        """Set the counters, and find anew where transitions start: the oldest row is the next to be written."""
        self._next, self._filled = int(numbers["next"]), int(numbers["filled"])
        self._max_priority = float(numbers["max_priority"])
        oldest = self._next if self.full else 0
        rows = (oldest + np.arange(self._filled)) % self.capacity
        starts = rows[self._arrays["offset"][rows] != 0]
        self._starts[: starts.size] = starts
        self._first, self._transitions = 0, starts.size


_CURE = "resume with the same replay options"
_TREE = "priorities"
_NUMBERS = ("capacity", "next", "filled", "max_priority")


def _rows_that_fit(capacity: int, memory_mb: float, row_bytes: int, fewest: int) -> int:
    fit = math.floor(memory_mb * 2**20 / row_bytes)
    if min(fit, capacity) < fewest:
        raise ConfigError(
            f"replay: {memory_mb:g} MB and a capacity of {capacity} hold {min(fit, capacity)} rows of {row_bytes} "
            f"bytes; at least {fewest} are needed — raise the memory or the capacity"
        )
    if fit < capacity:
        _log.warning(
            "replay: %d rows of %d bytes would take %.0f MB; holding %d in %g MB",
            capacity,
            row_bytes,
            capacity * row_bytes / 2**20,
            fit,
            memory_mb,
        )
    return min(fit, capacity)
