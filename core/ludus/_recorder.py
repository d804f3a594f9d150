"""Recording decisions into segments, in place, while matches are played.

One `Recorder` serves one player in one sampler. A *stream* is one column of its arrays: the decisions of one seat of
one match row, match after match. The layout is the one of `ludus.segment.SegmentBatch`.

A decision stays *pending* until its seat decides again or its match ends; what the seat receives in between belongs
to it. When the arrays are flushed, a pending decision is the bootstrap entry of the segment that leaves and is
carried over as entry 0 of the next one, so nothing is lost and no value is guessed.
"""

from __future__ import annotations

import numpy as np
from attrs import define, field, frozen

from ludus.environment import Leaves, Role
from ludus.segment import Field, SegmentBatch
from ludus.spaces import action_width, is_continuous, label_sizes, leaf_spaces

__all__ = ["Recorder", "SegmentLayout"]


@frozen(kw_only=True)
class SegmentLayout:
    """Names, shapes and dtypes of everything recorded per decision.

    Args:
        decisions: T.
        arrays: Flat name (as in `SegmentBatch.arrays`) to shape and dtype of one entry.
        state: Recurrent state leaves of one stream: shape and dtype.
    """

    decisions: int
    arrays: dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]]
    state: dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]] = field(factory=dict)

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
        action = np.dtype(np.float32 if is_continuous(role.action_space) else np.int64)
        arrays["action"] = ((action_width(role.action_space),), action)
        if not is_continuous(role.action_space):
            arrays["action_mask"] = ((sum(label_sizes(role.action_space)),), np.dtype(bool))
        for extra in fields:
            arrays[f"extras/{extra.name}"] = (extra.shape, np.dtype(extra.dtype))
        for name in ("terminated", "truncated", "decided"):
            arrays[name] = ((), np.dtype(bool))
        arrays["reward"] = ((), np.dtype(np.float32))
        arrays["elapsed_ticks"] = ((), np.dtype(np.int32))
        shapes = {name: (leaf.shape[1:], leaf.dtype) for name, leaf in (state or {}).items()}
        return cls(decisions=decisions, arrays=arrays, state=shapes)


@define
class Recorder:
    """The decisions of one player, as they happen.

    Args:
        layout: What is recorded.
        streams: N, the most streams that can be open at once.
    """

    layout: SegmentLayout
    streams: int
    _arrays: dict[str, np.ndarray] = field(init=False)
    _state: Leaves = field(init=False)  # before entry 0
    _last_state: Leaves = field(init=False, factory=dict)  # before the last decision
    _position: np.ndarray = field(init=False)  # [N] entries written
    _pending: np.ndarray = field(init=False)  # [N] the last entry awaits its outcome
    _version: np.ndarray = field(init=False)  # [N] that made the first entry
    _last_version: np.ndarray = field(init=False)  # [N] that made the last decision
    _free: list[int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._position = np.zeros(self.streams, np.int64)
        self._pending = np.zeros(self.streams, bool)
        self._version = np.zeros(self.streams, np.int64)
        self._last_version = np.zeros(self.streams, np.int64)
        self._free = list(range(self.streams))[::-1]
        self._allocate()

    def _allocate(self) -> None:
        entries = self.layout.decisions + 1
        # zeros: pages that are never written cost nothing, and what leaves holds no stale memory
        self._arrays = {
            name: np.zeros((entries, self.streams, *shape), dtype)
            for name, (shape, dtype) in self.layout.arrays.items()
        }
        self._state = self._zero_state()
        if not self._last_state:
            self._last_state = self._zero_state()

    def _zero_state(self) -> Leaves:
        return {n: np.zeros((self.streams, *shape), dtype) for n, (shape, dtype) in self.layout.state.items()}

    @property
    def full(self) -> bool:
        """Return whether some stream can take no further decision, so that `flush` must come first."""
        return bool(self._position.max(initial=0) > self.layout.decisions)

    def open(self, count: int) -> np.ndarray:
        """Return ``[count]`` streams for seats that start a match; give them back by `close`."""
        return np.array([self._free.pop() for _ in range(count)], np.int64)

    def decide(
        self, streams: np.ndarray, entry: dict[str, np.ndarray], *, version: int, state: Leaves | None = None
    ) -> None:
        """Append one decision to each of the n streams.

        Args:
            streams: ``[n]``, no duplicates, none of them pending (`settle` comes first).
            entry: Flat name to ``[n, …]``: observation, action, mask, extras, privileged.
            version: The weights version that decided.
            state: Recurrent state before the decision, leaves ``[n, …]``.
        """
        at = self._position[streams]
        for name, values in entry.items():
            self._arrays[name][at, streams] = values
        if "action_mask" in self._arrays and "action_mask" not in entry:
            self._arrays["action_mask"][at, streams] = True  # the game has no masks: everything is legal
        self._arrays["decided"][at, streams] = True
        first = at == 0
        if first.any():
            self._version[streams[first]] = version
            for name, leaf in (state or {}).items():
                self._state[name][streams[first]] = leaf[first]
        self._last_version[streams] = version
        for name, leaf in (state or {}).items():
            self._last_state[name][streams] = leaf
        self._position[streams] += 1
        self._pending[streams] = True

    def settle(self, streams: np.ndarray, *, reward: np.ndarray, elapsed_ticks: np.ndarray) -> np.ndarray:
        """Give the pending decisions of these streams what their seats received since; others are skipped.

        Args:
            streams: ``[n]``.
            reward: ``[n] float32``.
            elapsed_ticks: ``[n]``.

        Returns:
            ``[n] bool``: which of them had a pending decision.
        """
        pending = self._pending[streams]
        chosen = streams[pending]
        at = self._position[chosen] - 1
        self._arrays["reward"][at, chosen] = reward[pending]
        self._arrays["elapsed_ticks"][at, chosen] = elapsed_ticks[pending]
        self._pending[chosen] = False
        return np.asarray(pending)

    def end(
        self,
        streams: np.ndarray,
        *,
        reward: np.ndarray,
        elapsed_ticks: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
    ) -> np.ndarray:
        """End the matches of these streams; their last decisions get what came since.

        Args:
            streams: ``[n]``.
            reward: ``[n] float32``.
            elapsed_ticks: ``[n]``.
            terminated: ``[n] bool``.
            truncated: ``[n] bool``.

        Returns:
            ``[n] bool``: streams that need their final observation (`final`) because they were cut off.
        """
        pending = self.settle(streams, reward=reward, elapsed_ticks=elapsed_ticks)
        chosen = streams[pending]
        at = self._position[chosen] - 1
        self._arrays["terminated"][at, chosen] = terminated[pending]
        self._arrays["truncated"][at, chosen] = truncated[pending] & ~terminated[pending]
        return np.asarray(pending & truncated & ~terminated)

    def final(self, streams: np.ndarray, entry: dict[str, np.ndarray]) -> None:
        """Append the final observations of truncated matches as undecided entries.

        Args:
            streams: ``[n]``, those that `end` returned True for.
            entry: Flat name to ``[n, …]``, as for `decide`.
        """
        at = self._position[streams]
        for name, values in entry.items():
            self._arrays[name][at, streams] = values
        self._position[streams] += 1

    def close(self, streams: np.ndarray) -> None:
        """Take back streams whose match has ended; a later match goes on in them."""
        self._free.extend(int(stream) for stream in streams)

    def flush(self) -> SegmentBatch:
        """Return everything recorded so far as segments and start anew, carrying pending decisions over."""
        last = np.maximum(self._position - 1, 0)
        columns = np.arange(self.streams)
        bootstraps = (self._position > 0) & (self._pending | ~self._arrays["decided"][last, columns])
        length = np.where(bootstraps, last, self._position).astype(np.int32)
        leaving, states, versions = self._arrays, self._state, self._version.copy()
        carried = columns[self._pending]
        self._allocate()
        for name, array in leaving.items():
            self._arrays[name][0, carried] = array[last[carried], carried]
        self._version[carried] = self._last_version[carried]
        for name, leaf in self._last_state.items():
            self._state[name][carried] = leaf[carried]
        used = np.flatnonzero(length > 0)
        batch = _batch(leaving, states, length, versions, used)
        self._position = np.zeros_like(self._position)
        self._position[carried] = 1
        return batch


def _batch(
    arrays: dict[str, np.ndarray], state: Leaves, length: np.ndarray, version: np.ndarray, used: np.ndarray
) -> SegmentBatch:
    """Return the used columns; without a copy where they are the first ones, as they nearly always are."""
    count = used.size
    columns = slice(0, count) if count and used[-1] == count - 1 else used
    chosen = {name: array[:, columns] for name, array in arrays.items()}
    chosen |= {f"initial_state/{name}": leaf[columns] for name, leaf in state.items()}
    return SegmentBatch.from_arrays(chosen | {"length": length[columns], "version": version[columns]})
