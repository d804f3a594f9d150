"""Segments: the decisions that samplers record and learners learn from.

A *segment* holds up to T consecutive decisions of one seat that one version of the weights made. A `SegmentBatch` holds
N segments side by side, time-major, in arrays of T + 1 entries::

    entry            0        1        …    length-1   length      …  T
                  decision decision        decision   bootstrap   (undefined)

* Entry t holds the observation and the action of a decision. `reward[t]` is the reward of the seat from that decision
  until its next decision or the end of the seat, which is the end of its match or earlier.
* Entry ``length`` exists if the last decision did not end its seat. It holds the observation of the next decision and
  the policy's outputs for it. It belongs to the next segment and is used for bootstrapping only.
* A *truncated* seat adds an entry with `decided` False. It holds the final observation and the actions that would be
  legal (all actions if that is unknown), so the next observation of entry t is always in entry t + 1. A *terminated*
  seat adds no entry: the next entry, if any, starts another match.

Hence one rule holds for all algorithms: the successor of entry t is entry t + 1 unless ``terminated[t]``, and entries
with `decided` False are not trained on.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from attrs import define, field, frozen

from ludus.environment import Leaves
from ludus.errors import ContractError

__all__ = ["Field", "SegmentBatch"]


@frozen
class Field:
    """An array that an algorithm adds to segments, for example log-probabilities.

    Args:
        name: Name, unique among the fields of the algorithm.
        shape: Shape of one entry; ``()`` for a scalar.
        dtype: NumPy dtype name.
        source: ``"policy"``: the policy returns the field in `Decision.extras`. ``"opponents"``: the sampler records
            the opponents' evaluation of the position that the decision led to, V_opp(s_{t+1}) [Minimax eq. 3], a
            float32 scalar. It is the mean value of the opposing seats on the first later tick of the match on which
            one of them evaluates. All decisions of the seat before that tick and since the last such value share it
            [Minimax §4.2]. It is NaN if no opponent evaluates before the seat ends or before the block is sent; the
            newest decision of a seat is carried over to the next block. If the seat decides on that tick itself,
            opponents that record values too are left out, and the value is NaN if there are no others.
            ``"opponent-minima"``: in the same entries, the mean of the lowest values of these opponents, R_min
            [Minimax eq. 4]: the lowest reward of a game of sparse rewards, else what `BoundedPolicy.lowest_values`
            returns, 0 for opponents without one. ``"seat"``: the sampler records the number of the seat within its
            role, an int32 scalar.
    """

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    source: Literal["policy", "opponents", "opponent-minima", "seat"] = "policy"


@define(kw_only=True)
class SegmentBatch:
    """N segments of one player.

    Attributes:
        observation: Leaves ``[T+1, N, …]`` in the environment's own dtypes.
        privileged: Leaves ``[T+1, N, …]``; empty where the role has none.
        action: ``[T+1, N, L] int64``, or ``[T+1, N, L + D] float32`` with D real numbers behind the labels.
        action_mask: ``[T+1, N, A] bool``; None without labels. All True if the environment has no masks.
        reward: ``[T+1, N] float32``.
        terminated: ``[T+1, N] bool``: the seat ended by the rules of the game after this decision.
        truncated: ``[T+1, N] bool``: the seat was cut off after this decision.
        decided: ``[T+1, N] bool``: the entry is a decision; False: a final observation, or unused.
        elapsed_ticks: ``[T+1, N] int32``: ticks from this decision to the next one or the end of the seat.
        extras: Fields of the algorithm, each ``[T+1, N, …]``.
        initial_state: Recurrent state before entry 0, leaves ``[N, …]``; empty if there is none.
        length: ``[N] int32``: number of entries before the bootstrap entry.
        version: ``[N] int64``: version of the weights that made the first decision.
    """

    observation: Leaves
    privileged: Leaves = field(factory=dict)
    action: np.ndarray
    action_mask: np.ndarray | None = None
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    decided: np.ndarray
    elapsed_ticks: np.ndarray
    extras: dict[str, np.ndarray] = field(factory=dict)
    initial_state: Leaves = field(factory=dict)
    length: np.ndarray
    version: np.ndarray
    _counts: np.ndarray | None = field(default=None, init=False, eq=False, repr=False)

    @property
    def num_segments(self) -> int:
        """Return N."""
        return int(self.length.shape[0])

    @property
    def num_decisions(self) -> int:
        """Return the number of trainable decisions."""
        return int(self.counts().sum())

    def counts(self) -> np.ndarray:
        """Return ``[N] int64``: the number of trainable decisions of each segment. Cached."""
        if self._counts is None:
            self._counts = self.trainable().sum(axis=0)
        return self._counts

    def trainable(self) -> np.ndarray:
        """Return ``[T+1, N] bool``: decisions before the bootstrap entry, whose rewards are known."""
        entries = np.arange(self.decided.shape[0])[:, None]
        return self.decided & (entries < self.length[None, :])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by flat names, as messages contain them."""
        flat = {name: getattr(self, name) for name in _PLAIN}
        if self.action_mask is not None:
            flat["action_mask"] = self.action_mask
        for group in _GROUPS:
            flat |= {f"{group}/{name}": array for name, array in getattr(self, group).items()}
        return flat

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> SegmentBatch:
        """Return the batch of `arrays`; the inverse of that method.

        The values are not checked; see `check` for arrays from other processes.

        Raises:
            ContractError: An array is missing or unknown.
        """
        missing = [name for name in _PLAIN if name not in arrays]
        if missing:
            raise ContractError(f"segment batch lacks {', '.join(missing)}")
        groups: dict[str, dict[str, np.ndarray]] = {group: {} for group in _GROUPS}
        fields: dict[str, Any] = {**groups}
        for name, array in arrays.items():
            group, _, leaf = name.partition("/")
            if leaf and group in groups:
                groups[group][leaf] = array
            elif name in _PLAIN or name == "action_mask":
                fields[name] = array
            else:
                raise ContractError(f"segment batch has an unknown array {name!r}")
        return cls(**fields)

    def check(self) -> None:
        """Check shapes, lengths and final masks.

        Learners check every block that they receive, and trainers every batch. Batches that are only recorded, joined
        or split need no check.

        Raises:
            ContractError: Shapes disagree, or a final observation leaves no legal action.
        """
        if self.decided.ndim != 2:
            raise ContractError(f"segment batch: decided has shape {self.decided.shape}, expected [T+1, N]")
        steps, segments = self.decided.shape
        for name, array in self.arrays().items():
            head = (segments,) if _axis(name) == 0 else (steps, segments)
            if array.shape[: len(head)] != head:
                raise ContractError(f"segment batch: {name} has shape {array.shape}, expected it to start with {head}")
        self._check_lengths(steps)
        if self.action_mask is not None and self.truncated.any():
            self._check_final(self.action_mask)

    def _check_lengths(self, steps: int) -> None:
        if self.length.size and not (self.length.min() >= 0 and self.length.max() < steps):
            raise ContractError(f"segment batch: lengths must be in [0, {steps - 1}]")

    def _check_final(self, mask: np.ndarray) -> None:
        cut = (self.trainable() & self.truncated & ~self.terminated)[:-1]
        entry, segment = np.nonzero(cut & ~self.decided[1:])
        for i in np.flatnonzero(~mask[entry + 1, segment].any(axis=-1)):
            raise ContractError(
                f"segment batch: the final observation of segment {segment[i]} (entry {entry[i] + 1}) leaves no legal "
                f"action; expected all actions to be legal if the legal ones are unknown"
            )

    def split(self, decisions: int) -> list[SegmentBatch]:
        """Return parts of about `decisions` trainable decisions each, as views of whole segments.

        Args:
            decisions: Number of decisions, ≥ 1.
        """
        return self.divide(max(1, round(self.num_decisions / decisions)))

    def divide(self, parts: int) -> list[SegmentBatch]:
        """Return parts with about equal numbers of trainable decisions, as views of whole segments.

        There are fewer parts if a part would have no trainable decision.

        Args:
            parts: Number of parts, ≥ 1.
        """
        counts, parts = self.counts(), min(parts, max(1, self.num_segments))
        if parts == 1:
            return [self]
        totals, numbers = np.concatenate([[0], np.cumsum(counts)]), np.arange(1, parts)
        targets = totals[-1] * numbers / parts
        after = np.searchsorted(totals, targets)
        ends = after - (targets - totals[after - 1] < totals[after] - targets)  # the nearest end of a segment
        ends = np.maximum.accumulate(np.maximum(ends - numbers, 0)) + numbers  # at least one segment per part
        ends = np.minimum(ends, self.num_segments - parts + numbers)
        bounds = [0, *ends.tolist(), self.num_segments]
        if (np.diff(totals[bounds]) == 0).any():
            return self.divide(parts - 1)
        return [self.part(start, end) for start, end in itertools.pairwise(bounds)]

    def part(self, start: int, end: int) -> SegmentBatch:
        """Return the segments from `start` to `end` as views."""
        part = SegmentBatch.from_arrays(
            {name: a[start:end] if _axis(name) == 0 else a[:, start:end] for name, a in self.arrays().items()}
        )
        if self._counts is not None:
            part._counts = self._counts[start:end]
        return part

    def read_only(self) -> SegmentBatch:
        """Return the same segments as read-only views, for trainers."""
        views = {name: array.view() for name, array in self.arrays().items()}
        for view in views.values():
            view.flags.writeable = False
        batch = SegmentBatch.from_arrays(views)
        batch._counts = self._counts
        return batch

    @classmethod
    def concatenate(cls, batches: Sequence[SegmentBatch]) -> SegmentBatch:
        """Join batches of one player and equal T along the segment axis, without empty segments."""
        if len(batches) == 1:
            return batches[0]
        parts = [batch._without_empty() for batch in batches]
        arrays = [part.arrays() for part in parts]
        joined = cls.from_arrays(
            {name: np.concatenate([part[name] for part in arrays], axis=_axis(name)) for name in arrays[0]}
        )
        joined._counts = np.concatenate([part.counts() for part in parts])
        return joined

    def compact(self) -> SegmentBatch:
        """Return a copy of the segments with trainable decisions."""
        return self._copy(np.flatnonzero(self.counts()))

    def _without_empty(self) -> SegmentBatch:
        """Return the segments with entries; few may be left after decisions were dropped as too old."""
        kept = np.flatnonzero(self.length)
        return self if kept.size == self.num_segments else self._copy(kept)

    def _copy(self, kept: np.ndarray) -> SegmentBatch:
        """Return a copy of the segments of the given indices."""
        part = SegmentBatch.from_arrays({name: a.take(kept, axis=_axis(name)) for name, a in self.arrays().items()})
        part._counts = self.counts()[kept]
        return part


def _axis(name: str) -> int:
    """Return the segment axis of the array with this flat name."""
    return 0 if name in _PER_SEGMENT or name.startswith("initial_state/") else 1


_PER_SEGMENT = ("length", "version")
_PLAIN = ("action", "reward", "terminated", "truncated", "decided", "elapsed_ticks", *_PER_SEGMENT)
_GROUPS = ("observation", "privileged", "extras", "initial_state")
