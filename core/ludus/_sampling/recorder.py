"""Recording of decisions into segments, in place, while matches are played.

A `Recorder` serves one player in one sampler. Each running match of a seat has a *trajectory*, a column of the arrays;
later matches reuse the columns of matches that ended. `ludus.segment.SegmentBatch` describes the layout.

A decision is *pending* until its seat decides again or ends: rewards in between belong to the decision. On a
flush, a pending decision becomes the bootstrap entry of its segment and entry 0 of the next segment, so no decision is
lost and no value is estimated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from attrs import define, field

from ludus._sampling.seats import SeatRewards
from ludus._sampling.segment_layout import STATE_PREFIX, SegmentLayout
from ludus.environment import Leaves
from ludus.errors import ConfigError
from ludus.launcher import Shapes
from ludus.segment import SegmentBatch

#: Shapes → arrays for a block, with the entries of an earlier block; None if no buffer is free.
BlockAllocator: TypeAlias = Callable[[Shapes], "Mapping[str, np.ndarray] | None"]

# Arrays that must be zero in a new block. Entries of other arrays are undefined where no decision was made.
_ZEROED = ("terminated", "truncated", "decided", "reward", "elapsed_ticks", "length", "version")


@define
class Recorder:
    """The decisions of one player.

    Args:
        layout: Layout of segments.
        num_trajectories: N, the number of trajectories that can be open at the same time.
        allocate: Allocates the arrays of a block. Without it, and if it returns None, the heap is used.
    """

    layout: SegmentLayout
    num_trajectories: int
    allocate: BlockAllocator | None = None
    _arrays: dict[str, np.ndarray] = field(init=False)  # [T+1, N, …], and [N, …] for arrays with one entry per segment
    _entries: dict[str, np.ndarray] = field(init=False)  # [(T+1) N] views on the former; an element is a whole entry
    _last_state: Leaves = field(init=False)  # before the last decision
    _position: np.ndarray = field(init=False)  # [N] number of entries
    _pending: np.ndarray = field(init=False)  # [N] whether the last entry is pending
    _num_valued: np.ndarray = field(init=False)  # [N] number of entries that wait for no value of opponents
    _last_version: np.ndarray = field(init=False)  # [N] version that made the last decision
    _open: np.ndarray = field(init=False)  # [N] whether a running match uses the trajectory

    def __attrs_post_init__(self) -> None:
        self._position = np.zeros(self.num_trajectories, np.int64)
        self._pending = np.zeros(self.num_trajectories, bool)
        self._num_valued = np.zeros(self.num_trajectories, np.int64)
        self._last_version = np.zeros(self.num_trajectories, np.int64)
        self._open = np.zeros(self.num_trajectories, bool)
        self._last_state = {
            name: np.zeros((self.num_trajectories, *shape), dtype) for name, (shape, dtype) in self.layout.state.items()
        }
        self._allocate()

    def _allocate(self) -> None:
        """Allocate the arrays of the next block.

        Raises:
            ConfigError: There is not enough memory.
        """
        shapes = self.layout.block_shapes(self.num_trajectories)
        allocated = None if self.allocate is None else self.allocate(shapes)
        if allocated is None:
            self._arrays = _zeros(shapes)
        else:
            self._arrays = dict(allocated)
            for name in _ZEROED:
                self._arrays[name][:] = 0
        self._entries = {name: _flat_entries(self._arrays[name]) for name in self.layout.arrays}

    @property
    def full(self) -> bool:
        """Return whether a trajectory has no room for another decision, so that `flush` must be called."""
        return bool(self._position.max(initial=0) > self.layout.decisions)

    def open_trajectories(self, count: int) -> np.ndarray:
        """Return ``[count]`` trajectories for seats whose matches start: the lowest that are not open."""
        trajectories = np.flatnonzero(~self._open)[:count]
        self._open[trajectories] = True
        self._num_valued[trajectories] = self._position[trajectories]
        return trajectories

    def close_trajectories(self, trajectories: np.ndarray) -> None:
        """Release trajectories of seats that ended; later matches append to them."""
        self._open[trajectories] = False

    def add_decisions(
        self, trajectories: np.ndarray, entry: dict[str, np.ndarray], *, version: int, state: Leaves | None = None
    ) -> None:
        """Append one decision to each of n trajectories.

        Args:
            trajectories: ``[n]`` without duplicates. None may be pending: call `assign_rewards` first.
            entry: Observation, action, mask, extras and privileged leaves, ``[n, …]`` by flat name.
            version: Version of the weights that decided.
            state: Recurrent state before the decision, leaves ``[n, …]``.
        """
        position = self._position[trajectories]
        rows = position * self.num_trajectories + trajectories
        self._write(rows, entry)
        for name in self.layout.opponent_fields:
            self._entries[name][rows] = np.nan
        self._entries["decided"][rows] = True
        first = position == 0
        if first.any():
            self._arrays["version"][trajectories[first]] = version
            for name, leaf in (state or {}).items():
                self._arrays[STATE_PREFIX + name][trajectories[first]] = leaf[first]
        self._last_version[trajectories] = version
        for name, leaf in (state or {}).items():
            self._last_state[name][trajectories] = leaf
        self._position[trajectories] = position + 1
        self._pending[trajectories] = True

    def _write(self, rows: np.ndarray, entry: dict[str, np.ndarray]) -> None:
        if "action_mask" in self._arrays and "action_mask" not in entry:
            # an environment without masks: all actions are legal
            entry = entry | {"action_mask": np.ones((rows.size, *self._arrays["action_mask"].shape[2:]), bool)}
        for name, values in entry.items():
            target = self._entries[name]
            if target.dtype.kind != "V":
                target[rows] = values
                continue
            whole = np.ascontiguousarray(values, self._arrays[name].dtype)
            if whole.nbytes != rows.size * target.itemsize:
                raise ValueError(
                    f"{name} has shape {whole.shape}, expected {rows.size} of {self.layout.arrays[name][0]}"
                )
            target[rows] = np.ndarray(rows.size, target.dtype, whole.data)

    def record_opponent_values(self, trajectories: np.ndarray, values: np.ndarray, lowest: np.ndarray) -> None:
        """Write the opponents' values ``[n] float32`` to all decisions of n trajectories that wait for one.

        After the call none of them waits, even if its value is NaN. Decisions of earlier blocks are not changed.

        Args:
            trajectories: ``[n]``.
            values: For fields of source ``"opponents"``.
            lowest: ``[n] float32``, for fields of source ``"opponent-minima"``.
        """
        sources = {"opponents": values, "opponent-minima": lowest}
        end = self._position[trajectories]
        waiting = end - self._num_valued[trajectories]
        for back in range(1, int(waiting.max(initial=0)) + 1):
            chosen = waiting >= back
            rows = (end[chosen] - back) * self.num_trajectories + trajectories[chosen]
            for name, source in self.layout.opponent_fields.items():
                self._entries[name][rows] = sources[source][chosen]
        self._num_valued[trajectories] = end

    def assign_rewards(self, trajectories: np.ndarray, *, reward: np.ndarray, elapsed_ticks: np.ndarray) -> np.ndarray:
        """Write the rewards since the pending decisions of n trajectories; skip trajectories without one.

        Args:
            trajectories: ``[n]``.
            reward: ``[n] float32``.
            elapsed_ticks: ``[n]``.

        Returns:
            ``[n] bool``: trajectories that had a pending decision.
        """
        pending = self._pending[trajectories]
        if not pending.all():
            trajectories, reward, elapsed_ticks = trajectories[pending], reward[pending], elapsed_ticks[pending]
        rows = self._last_rows(trajectories)
        self._entries["reward"][rows] = reward
        self._entries["elapsed_ticks"][rows] = elapsed_ticks
        self._pending[trajectories] = False
        return np.asarray(pending)

    def _last_rows(self, trajectories: np.ndarray) -> np.ndarray:
        return np.asarray((self._position[trajectories] - 1) * self.num_trajectories + trajectories)

    def end_trajectories(
        self,
        trajectories: np.ndarray,
        *,
        reward: np.ndarray,
        elapsed_ticks: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
    ) -> np.ndarray:
        """Write the rewards since the last decisions of n trajectories, and how their seats ended.

        A seat that neither terminated nor was truncated belongs to a void match: its last decision is dropped, and the
        decision before it bootstraps from the observation of the dropped one.

        Args:
            trajectories: ``[n]``.
            reward: ``[n] float32``.
            elapsed_ticks: ``[n]``.
            terminated: ``[n] bool``.
            truncated: ``[n] bool``.

        Returns:
            ``[n] bool``: truncated trajectories, which need `add_final_observations`.
        """
        void = ~(terminated | truncated)
        if void.any():
            self._drop_pending(trajectories[void])
        pending = self.assign_rewards(trajectories, reward=reward, elapsed_ticks=elapsed_ticks)
        rows = self._last_rows(trajectories[pending])
        self._entries["terminated"][rows] = terminated[pending]
        self._entries["truncated"][rows] = truncated[pending] & ~terminated[pending]
        return np.asarray(pending & truncated & ~terminated)

    def withdraw_decisions(self, trajectories: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Remove the pending decisions of n trajectories, which were not executed; the ones before are pending again.

        Returns:
            Rewards ``[n] float32`` and ticks ``[n] int32`` that the latter had already; 0 without one in this block.
        """
        reward, elapsed_ticks = np.zeros(trajectories.size, np.float32), np.zeros(trajectories.size, np.int32)
        chosen = self._pending[trajectories].nonzero()[0]
        before, continues = self._remove_pending(trajectories[chosen])
        self._pending[trajectories[chosen]] = continues
        reward[chosen[continues]] = self._entries["reward"][before]
        elapsed_ticks[chosen[continues]] = self._entries["elapsed_ticks"][before]
        return reward, elapsed_ticks

    def _remove_pending(self, trajectories: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Remove pending decisions; return the rows of those before in the same matches, and where there is one."""
        rows = self._last_rows(trajectories)
        before = rows - self.num_trajectories
        has_ended = self._entries["terminated"][before] | self._entries["truncated"][before]
        continues = (self._position[trajectories] > 1) & self._entries["decided"][before] & ~has_ended
        self._entries["decided"][rows] = False
        self._position[trajectories] -= 1
        self._num_valued[trajectories] = np.minimum(self._num_valued[trajectories], self._position[trajectories])
        self._pending[trajectories] = False
        return before[continues], continues

    def _drop_pending(self, trajectories: np.ndarray) -> None:
        """Drop the pending decisions of n trajectories; the observation of one may stay as a bootstrap entry."""
        trajectories = trajectories[self._pending[trajectories]]
        before, continues = self._remove_pending(trajectories)
        self._entries["truncated"][before] = True
        self._position[trajectories[continues]] += 1

    def add_final_observations(self, trajectories: np.ndarray, entry: dict[str, np.ndarray]) -> None:
        """Append the final observations of truncated seats as undecided entries.

        Args:
            trajectories: ``[n]``, those for which `end_trajectories` returned True.
            entry: Arrays ``[n, …]`` by flat name, as for `add_decisions`.
        """
        position = self._position[trajectories]
        self._write(position * self.num_trajectories + trajectories, entry)
        self._position[trajectories] = position + 1

    def flush(self) -> SegmentBatch:
        """Return all recorded segments and start a new block with the pending decisions.

        Trajectories after the last one with a decision are left out; other empty ones have length 0.
        """
        last = np.maximum(self._position - 1, 0)
        columns = np.arange(self.num_trajectories)
        bootstraps = (self._position > 0) & (self._pending | ~self._arrays["decided"][last, columns])
        arrays, entries, carried = self._arrays, self._entries, np.flatnonzero(self._pending)
        arrays["length"][:] = np.where(bootstraps, last, self._position)
        self._allocate()
        source = last[carried] * self.num_trajectories + carried
        for name, target in self._entries.items():
            target[carried] = entries[name][source]
        self._arrays["version"][carried] = self._last_version[carried]
        for name, leaf in self._last_state.items():
            self._arrays[STATE_PREFIX + name][carried] = leaf[carried]
        self._position = np.zeros_like(self._position)
        self._position[carried] = 1
        self._num_valued = np.clip(self._num_valued - last, 0, self._position)
        used = int(np.flatnonzero(arrays["length"]).max(initial=-1)) + 1
        return SegmentBatch.from_arrays(arrays).part(0, used)


def withdraw_dropped(recorder: Recorder, trajectories: np.ndarray, reward: np.ndarray, rewards: SeatRewards) -> None:
    """Withdraw the decisions that the game has not executed; the ones before get the rewards.

    Args:
        recorder: Recorder of the decisions.
        trajectories: ``[n]``.
        reward: ``[n] float32``, rewards behind the interface; changed in place.
        rewards: Rewards of the seats; `elapsed_ticks` is changed in place.
    """
    if rewards.dropped is not None and (dropped := rewards.dropped).any():
        before, elapsed_ticks = recorder.withdraw_decisions(trajectories[dropped])
        reward[dropped] += before
        rewards.elapsed_ticks[dropped] += elapsed_ticks


def _zeros(shapes: Shapes) -> dict[str, np.ndarray]:
    """Return arrays of zeros. The operating system allocates their pages on the first write.

    Raises:
        ConfigError: There is not enough memory.
    """
    try:
        return {name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}
    except (MemoryError, ValueError, OverflowError):  # NumPy raises the latter two if the size overflows
        needed = sum(math.prod(shape) * dtype.itemsize for shape, dtype in shapes.values())
        raise ConfigError(
            f"a block of segments needs {needed / 2**30:,.0f} GiB: lower segment_decisions of the algorithm or "
            f"sampling.matches"
        ) from None


def _flat_entries(array: np.ndarray) -> np.ndarray:
    """Return a view ``[(T+1) N]`` on ``[T+1, N, …]`` whose elements are whole entries, the fastest way to copy them."""
    count, shape = array.shape[0] * array.shape[1], array.shape[2:]
    if not math.prod(shape) or not shape:
        return array.reshape(count, *shape)
    return array.reshape(count, -1).view(np.dtype((np.void, array.itemsize * math.prod(shape)))).reshape(count)
