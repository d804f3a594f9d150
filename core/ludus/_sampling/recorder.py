"""Recording decisions into segments, in place, while matches are played.

One `Recorder` serves one player in one sampler. A *stream* is one column of its arrays: the decisions of one seat of
one match row, match after match. The layout is the one of `ludus.segment.SegmentBatch`.

A decision stays *pending* until its seat decides again or its match ends; what the seat receives in between belongs
to it. When the arrays are flushed, a pending decision is the bootstrap entry of the segment that leaves and is
carried over as entry 0 of the next one, so nothing is lost and no value is guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from attrs import define, field, frozen

from ludus.environment import Leaves, Role
from ludus.errors import ConfigError, ContractError
from ludus.launcher import Shapes
from ludus.segment import Field, SegmentBatch
from ludus.spaces import action_dtype, action_width, is_continuous, label_sizes, leaf_spaces


@frozen(kw_only=True)
class SegmentLayout:
    """Names, shapes and dtypes of everything recorded per decision.

    Args:
        decisions: T.
        arrays: Flat name (as in `SegmentBatch.arrays`) to shape and dtype of one entry.
        state: Recurrent state leaves of one stream: shape and dtype.
        noted: Which of the arrays hold the opponents' evaluations.
        labels: The number of choices of every action label; empty for real-valued actions.
    """

    decisions: int
    arrays: Shapes
    state: Shapes = field(factory=dict)
    noted: tuple[str, ...] = ()
    labels: tuple[int, ...] = ()

    @classmethod
    def of(cls, role: Role, *, fields: tuple[Field, ...], decisions: int, state: Leaves | None = None) -> SegmentLayout:
        """Return the layout of a role's decisions with the fields an algorithm declares.

        Args:
            role: As the player sees it.
            fields: What the policy adds.
            decisions: T.
            state: An example of the recurrent state, leaves ``[1, …]``.
        """
        arrays: dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]] = {}
        for group, space in (("observation", role.observation_space), ("privileged", role.privileged_space)):
            for name, leaf in leaf_spaces(space).items():
                arrays[f"{group}/{name}"] = (tuple(leaf.shape or ()), np.dtype(leaf.dtype))
        arrays["action"] = ((action_width(role.action_space),), action_dtype(role.action_space))
        if not is_continuous(role.action_space):
            arrays["action_mask"] = ((sum(label_sizes(role.action_space)),), np.dtype(bool))
        for extra in fields:
            arrays[f"extras/{extra.name}"] = (extra.shape, np.dtype(extra.dtype))
        for name in ("terminated", "truncated", "decided"):
            arrays[name] = ((), np.dtype(bool))
        arrays["reward"] = ((), np.dtype(np.float32))
        arrays["elapsed_ticks"] = ((), np.dtype(np.int32))
        shapes = {name: (leaf.shape[1:], leaf.dtype) for name, leaf in (state or {}).items()}
        noted = tuple(f"extras/{extra.name}" for extra in fields if extra.source == "opponents")
        labels = label_sizes(role.action_space)
        return cls(decisions=decisions, arrays=arrays, state=shapes, noted=noted, labels=labels)

    def block(self, segments: int) -> Shapes:
        """Return the shapes and dtypes of all arrays of so many segments, by flat name."""
        head = (self.decisions + 1, segments)
        shapes = {name: ((*head, *shape), dtype) for name, (shape, dtype) in self.arrays.items()}
        shapes |= {_STATE + name: ((segments, *shape), dtype) for name, (shape, dtype) in self.state.items()}
        return shapes | {"length": ((segments,), np.dtype(np.int32)), "version": ((segments,), np.dtype(np.int64))}

    def check(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Check that arrays are those of some segments, and that all choices in them exist.

        That is so in unused entries, too: they hold zeros, or what an earlier block of the same player has left.

        Raises:
            ContractError: One is missing, unknown, or of another shape or dtype; or an action has a choice
                that there is not, or a real number that is not finite.
        """
        expected = self.block(arrays["length"].size if "length" in arrays else 0)
        found = {name: (array.shape, array.dtype) for name, array in arrays.items()}
        if found != expected:
            name = next(name for name in (*expected, *found) if found.get(name) != expected.get(name))
            what, wanted = (_described(shapes.get(name)) for shapes in (found, expected))
            raise ContractError(f"segments: expected {wanted} as {name[:64]!r}, got {what}")
        if arrays["action"].size:
            self._check_actions(arrays["action"])

    def _check_actions(self, action: np.ndarray) -> None:
        if not self.labels and not np.isfinite(action).all():
            raise ContractError("segments: an action is not finite")
        # label by label, as NumPy is slow at reducing all but a short last axis
        for label, size in enumerate(self.labels):
            low, high = action[..., label].min(), action[..., label].max()
            if low < 0 or high >= size:
                raise ContractError(f"segments: expected label {label} of actions in [0, {size - 1}], got {low}…{high}")


#: Names, shapes and dtypes → memory for them, with whatever an earlier block left in it; None where there is no room.
Lender = Callable[[Shapes], "Mapping[str, np.ndarray] | None"]


@define
class Recorder:
    """The decisions of one player, as they happen.

    Args:
        layout: What is recorded.
        seat_ids: N, the most streams that can be open at once.
        allocate: Where the memory of blocks comes from; without, and whenever it has none, from the heap.
    """

    layout: SegmentLayout
    seat_ids: int
    allocate: Lender | None = None
    _arrays: dict[str, np.ndarray] = field(init=False)  # [T+1, N, …], and [N, …] for what segments have once
    _rows: dict[str, np.ndarray] = field(init=False)  # [(T+1) N] views on the former: an element is a whole entry
    _last_state: Leaves = field(init=False)  # before the last decision
    _position: np.ndarray = field(init=False)  # [N] entries written
    _pending: np.ndarray = field(init=False)  # [N] the last entry awaits its outcome
    _noted: np.ndarray = field(init=False)  # [N] entries before this one await no note
    _last_version: np.ndarray = field(init=False)  # [N] that made the last decision
    _taken: np.ndarray = field(init=False)  # [N] by a running match

    def __attrs_post_init__(self) -> None:
        self._position = np.zeros(self.seat_ids, np.int64)
        self._pending = np.zeros(self.seat_ids, bool)
        self._noted = np.zeros(self.seat_ids, np.int64)
        self._last_version = np.zeros(self.seat_ids, np.int64)
        self._taken = np.zeros(self.seat_ids, bool)
        self._last_state = {
            name: np.zeros((self.seat_ids, *shape), dtype) for name, (shape, dtype) in self.layout.state.items()
        }
        self._allocate()

    def _allocate(self) -> None:
        """Make room for the next block.

        Raises:
            ConfigError: There is not so much memory.
        """
        shapes = self.layout.block(self.seat_ids)
        lent = None if self.allocate is None else self.allocate(shapes)
        if lent is None:
            self._arrays = _zeros(shapes)
        else:
            self._arrays = dict(lent)
            for name in _MARKS:
                self._arrays[name][:] = 0
        self._rows = {name: _rows(self._arrays[name]) for name in self.layout.arrays}

    @property
    def full(self) -> bool:
        """Return whether some stream can take no further decision, so that `flush` must come first."""
        return bool(self._position.max(initial=0) > self.layout.decisions)

    def open(self, count: int) -> np.ndarray:
        """Return ``[count]`` streams for seats that start a match, the lowest; give them back by `close`."""
        seat_ids = np.flatnonzero(~self._taken)[:count]
        self._taken[seat_ids] = True
        self._noted[seat_ids] = self._position[seat_ids]
        return seat_ids

    def close(self, seat_ids: np.ndarray) -> None:
        """Take back streams whose match has ended; a later match goes on in them."""
        self._taken[seat_ids] = False

    def decide(
        self, seat_ids: np.ndarray, entry: dict[str, np.ndarray], *, version: int, state: Leaves | None = None
    ) -> None:
        """Append one decision to each of the n streams.

        Args:
            seat_ids: ``[n]``, no duplicates, none of them pending (`settle` comes first).
            entry: Flat name to ``[n, …]``: observation, action, mask, extras, privileged.
            version: The weights version that decided.
            state: Recurrent state before the decision, leaves ``[n, …]``.
        """
        at = self._position[seat_ids]
        rows = at * self.seat_ids + seat_ids
        self._write(rows, entry)
        for name in self.layout.noted:
            self._rows[name][rows] = np.nan
        self._rows["decided"][rows] = True
        first = at == 0
        if first.any():
            self._arrays["version"][seat_ids[first]] = version
            for name, leaf in (state or {}).items():
                self._arrays[_STATE + name][seat_ids[first]] = leaf[first]
        self._last_version[seat_ids] = version
        for name, leaf in (state or {}).items():
            self._last_state[name][seat_ids] = leaf
        self._position[seat_ids] = at + 1
        self._pending[seat_ids] = True

    def _write(self, rows: np.ndarray, entry: dict[str, np.ndarray]) -> None:
        if "action_mask" in self._arrays and "action_mask" not in entry:
            # a game without masks: everything is legal
            entry = entry | {"action_mask": np.ones((rows.size, *self._arrays["action_mask"].shape[2:]), bool)}
        for name, values in entry.items():
            target = self._rows[name]
            if target.dtype.kind != "V":
                target[rows] = values
                continue
            whole = np.ascontiguousarray(values, self._arrays[name].dtype)
            if whole.nbytes != rows.size * target.itemsize:
                raise ValueError(
                    f"{name} has shape {whole.shape}, expected {rows.size} of {self.layout.arrays[name][0]}"
                )
            target[rows] = np.ndarray(rows.size, target.dtype, whole.data)

    def note(self, seat_ids: np.ndarray, values: np.ndarray) -> None:
        """Note the opponents' evaluations ``[n] float32`` in all decisions of n running matches that await one.

        They await none any more, also where it is NaN. Decisions that have left with their block are not reached.
        """
        end = self._position[seat_ids]
        awaiting = end - self._noted[seat_ids]
        for back in range(1, int(awaiting.max(initial=0)) + 1):
            held = awaiting >= back
            rows = (end[held] - back) * self.seat_ids + seat_ids[held]
            for name in self.layout.noted:
                self._rows[name][rows] = values[held]
        self._noted[seat_ids] = end

    def settle(self, seat_ids: np.ndarray, *, reward: np.ndarray, elapsed_ticks: np.ndarray) -> np.ndarray:
        """Give the pending decisions of these streams what their seats received since; others are skipped.

        Args:
            seat_ids: ``[n]``.
            reward: ``[n] float32``.
            elapsed_ticks: ``[n]``.

        Returns:
            ``[n] bool``: which of them had a pending decision.
        """
        pending = self._pending[seat_ids]
        if not pending.all():
            seat_ids, reward, elapsed_ticks = seat_ids[pending], reward[pending], elapsed_ticks[pending]
        rows = self._last_rows(seat_ids)
        self._rows["reward"][rows] = reward
        self._rows["elapsed_ticks"][rows] = elapsed_ticks
        self._pending[seat_ids] = False
        return np.asarray(pending)

    def _last_rows(self, seat_ids: np.ndarray) -> np.ndarray:
        return np.asarray((self._position[seat_ids] - 1) * self.seat_ids + seat_ids)

    def end(
        self,
        seat_ids: np.ndarray,
        *,
        reward: np.ndarray,
        elapsed_ticks: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
    ) -> np.ndarray:
        """End the matches of these streams; their last decisions get what came since.

        Args:
            seat_ids: ``[n]``.
            reward: ``[n] float32``.
            elapsed_ticks: ``[n]``.
            terminated: ``[n] bool``.
            truncated: ``[n] bool``.

        Returns:
            ``[n] bool``: streams that need their final observation (`final`) because they were cut off.
        """
        pending = self.settle(seat_ids, reward=reward, elapsed_ticks=elapsed_ticks)
        rows = self._last_rows(seat_ids[pending])
        self._rows["terminated"][rows] = terminated[pending]
        self._rows["truncated"][rows] = truncated[pending] & ~terminated[pending]
        return np.asarray(pending & truncated & ~terminated)

    def final(self, seat_ids: np.ndarray, entry: dict[str, np.ndarray]) -> None:
        """Append the final observations of truncated matches as undecided entries.

        Args:
            seat_ids: ``[n]``, those that `end` returned True for.
            entry: Flat name to ``[n, …]``, as for `decide`.
        """
        at = self._position[seat_ids]
        self._write(at * self.seat_ids + seat_ids, entry)
        self._position[seat_ids] = at + 1

    def flush(self) -> SegmentBatch:
        """Return everything recorded so far as segments and start anew, carrying pending decisions over.

        Streams beyond the last one with a decision are left out; others without any have length 0.
        """
        last = np.maximum(self._position - 1, 0)
        columns = np.arange(self.seat_ids)
        bootstraps = (self._position > 0) & (self._pending | ~self._arrays["decided"][last, columns])
        leaving, rows, carried = self._arrays, self._rows, np.flatnonzero(self._pending)
        leaving["length"][:] = np.where(bootstraps, last, self._position)
        self._allocate()
        source = last[carried] * self.seat_ids + carried
        for name, target in self._rows.items():
            target[carried] = rows[name][source]
        self._arrays["version"][carried] = self._last_version[carried]
        for name, leaf in self._last_state.items():
            self._arrays[_STATE + name][carried] = leaf[carried]
        self._position = np.zeros_like(self._position)
        self._position[carried] = 1
        self._noted = np.clip(self._noted - last, 0, self._position)
        used = int(np.flatnonzero(leaving["length"]).max(initial=-1)) + 1
        return SegmentBatch.from_arrays(leaving).part(0, used)


_STATE = "initial_state/"
# What must not be left from an earlier block; where nothing was decided, the rest is undefined.
_MARKS = ("terminated", "truncated", "decided", "reward", "elapsed_ticks", "length", "version")


def _described(shape: tuple[tuple[int, ...], np.dtype[np.generic]] | None) -> str:
    return "nothing" if shape is None else f"{shape[1]}{[*shape[0]]}"


def _zeros(shapes: Shapes) -> dict[str, np.ndarray]:
    """Return arrays of zeros, whose pages cost nothing before they are written.

    Raises:
        ConfigError: There is not so much memory.
    """
    try:
        return {name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}
    except (MemoryError, ValueError, OverflowError):  # the latter two for more bytes than can be counted
        needed = sum(math.prod(shape) * dtype.itemsize for shape, dtype in shapes.values())
        raise ConfigError(
            f"a block of segments would take {needed / 2**30:,.0f} GiB: lower segment_decisions of the algorithm or "
            f"sampling.matches"
        ) from None


def _rows(array: np.ndarray) -> np.ndarray:
    """Return a view on ``[T+1, N, …]`` with one axis, whose elements are whole entries: copying those is fastest."""
    count, shape = array.shape[0] * array.shape[1], array.shape[2:]
    if not math.prod(shape) or not shape:
        return array.reshape(count, *shape)
    return array.reshape(count, -1).view(np.dtype((np.void, array.itemsize * math.prod(shape)))).reshape(count)
