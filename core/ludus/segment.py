"""Segments: what samplers record and learners learn from.

A *segment* is the part of one seat's stream of decisions that one model version made, at most T long. A
`SegmentBatch` holds N of them side by side, time-major, in arrays of T + 1 entries::

    entry            0        1        …    length-1   length      …  T
                  decision decision        decision   bootstrap   (undefined)

* Entry t holds the observation at a decision and what was decided; `reward[t]` is everything the seat received
  after that decision and up to its next one (or the end of the match).
* Entry ``length`` exists where the last decision did not end its match: the observation (with all the policy
  computed from it) of the decision that follows. It belongs to the next segment and only serves to bootstrap.
* A match that is *truncated* leaves one entry with `decided` False that carries its final observation and what would
  be legal there (everything, where nobody knows), so that the next observation of entry t is always entry t + 1. A
  match that is *terminated* leaves none: the next entry, if any, starts another match.

Hence one rule serves every algorithm: the successor of entry t is entry t + 1 unless ``terminated[t]``, and
entries with `decided` False are never trained on.
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
    """One array that segments carry besides what every algorithm needs, for example log-probabilities.

    Args:
        name: Unique among the fields of the algorithm.
        shape: Shape of one decision's entry; ``()`` for a scalar.
        dtype: NumPy dtype name.
        source: Who fills it. ``"policy"``: its decisions, in their `extras`. ``"opponents"``: the sampler, with the
            opponents' own evaluation of the position that the decision led to, V_opp(s_{t+1}) [Minimax eq. 3]. That is
            the mean evaluation of the opposing seats that evaluate first on a later tick of the match; all decisions
            that the seat made before that tick and since the last such evaluation share it [Minimax §4.2]. NaN where
            nobody evaluates any more before the match ends, or before the segment leaves, which only a seat's newest
            decision outlasts. Where the seat decides on that very tick, opponents that read evaluations themselves
            are left out, and NaN stays where there are no others. Such a field is a scalar float32.
    """

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    source: Literal["policy", "opponents"] = "policy"


@define(kw_only=True)
class SegmentBatch:
    """N segments of one player.

    Attributes:
        observation: Leaves ``[T+1, N, …]`` in the environment's own dtypes.
        privileged: Leaves ``[T+1, N, …]``; empty where the role has none.
        action: ``[T+1, N, L] int64``, or ``[T+1, N, D] float32`` for continuous actions.
        action_mask: ``[T+1, N, A] bool``; None for continuous actions. All True where the game has no masks.
        reward: ``[T+1, N] float32``.
        terminated: ``[T+1, N] bool``: the match ended by its rules after this decision.
        truncated: ``[T+1, N] bool``: the match was cut off after this decision.
        decided: ``[T+1, N] bool``: a real decision (False: a final observation, or unused).
        elapsed_ticks: ``[T+1, N] int32``: ticks from this decision to the next or the end.
        extras: The fields that the algorithm declares, each ``[T+1, N, …]``.
        initial_state: Recurrent state before entry 0, leaves ``[N, …]``; empty for stateless policies.
        length: ``[N] int32``: entries before the bootstrap entry.
        version: ``[N] int64``: the weights version that made the first decision.
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
        """Return how many decisions can be trained on."""
        return int(self.counts().sum())

    def counts(self) -> np.ndarray:
        """Return ``[N] int64``: how many decisions of each segment can be trained on; computed once."""
        if self._counts is None:
            self._counts = self.trainable().sum(axis=0)
        return self._counts

    def trainable(self) -> np.ndarray:
        """Return ``[T+1, N] bool``: real decisions whose outcome is known (before the bootstrap entry)."""
        entries = np.arange(self.decided.shape[0])[:, None]
        return self.decided & (entries < self.length[None, :])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return every array under a flat name, as they travel between processes."""
        flat = {name: getattr(self, name) for name in _PLAIN}
        if self.action_mask is not None:
            flat["action_mask"] = self.action_mask
        for group in _GROUPS:
            flat |= {f"{group}/{name}": array for name, array in getattr(self, group).items()}
        return flat

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> SegmentBatch:
        """Build a batch from `arrays()`; the inverse of it.

        What is in them is taken as it is; see `check` for arrays that somebody else made.

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

        For segments of somebody else: a learner checks every block that comes in, a trainer every batch that it is
        given. What is only recorded, joined or divided is not looked at again.

        Raises:
            ContractError: Shapes disagree, or a final observation leaves no legal action.
        """
        if self.decided.ndim != 2:
            raise ContractError(f"segment batch: decided has shape {self.decided.shape}, expected [T+1, N]")
        steps, segments = self.decided.shape
        for name, array in self.arrays().items():
            head = (segments,) if name in _PER_SEGMENT or name.startswith("initial_state/") else (steps, segments)
            if array.shape[: len(head)] != head:
                raise ContractError(f"segment batch: {name} has shape {array.shape}, expected it to start with {head}")
        if segments and not (self.length.min() >= 0 and self.length.max() < steps):
            raise ContractError(f"segment batch: lengths must lie in [0, {steps - 1}]")
        if self.action_mask is not None and self.truncated.any():
            self._check_final(self.action_mask)

    def _check_final(self, mask: np.ndarray) -> None:
        cut = (self.trainable() & self.truncated & ~self.terminated)[:-1]
        entry, segment = np.nonzero(cut & ~self.decided[1:])
        for i in np.flatnonzero(~mask[entry + 1, segment].any(axis=-1)):
            raise ContractError(
                f"segment batch: the final observation of segment {segment[i]} (entry {entry[i] + 1}) leaves no legal "
                f"action; where nobody knows what would be legal, everything is"
            )

    def split(self, decisions: int) -> list[SegmentBatch]:
        """Return parts of about `decisions` trainable decisions each, as views of whole segments.

        Args:
            decisions: ≥ 1.
        """
        return self.divide(max(1, round(self.num_decisions / decisions)))

    def divide(self, parts: int) -> list[SegmentBatch]:
        """Return so many parts of about as many trainable decisions each, as views of whole segments.

        Fewer where there are not enough segments for each to have some.

        Args:
            parts: ≥ 1.
        """
        counts, parts = self.counts(), min(parts, max(1, self.num_segments))
        if parts == 1:
            return [self]
        known, numbers = np.concatenate([[0], np.cumsum(counts)]), np.arange(1, parts)
        wanted = known[-1] * numbers / parts
        after = np.searchsorted(known, wanted)
        ends = after - (wanted - known[after - 1] < known[after] - wanted)  # the nearer end of a segment
        ends = np.maximum.accumulate(np.maximum(ends - numbers, 0)) + numbers  # at least one for each part
        ends = np.minimum(ends, self.num_segments - parts + numbers)
        bounds = [0, *ends.tolist(), self.num_segments]
        if (np.diff(known[bounds]) == 0).any():
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
        """Return the same segments as views that cannot be written to, as trainers get them."""
        views = {name: array.view() for name, array in self.arrays().items()}
        for view in views.values():
            view.flags.writeable = False
        shown = SegmentBatch.from_arrays(views)
        shown._counts = self._counts
        return shown

    @classmethod
    def concatenate(cls, batches: Sequence[SegmentBatch]) -> SegmentBatch:
        """Join batches of one player and equal T along the segment axis, without segments that hold nothing."""
        if len(batches) == 1:
            return batches[0]
        parts = [batch._without_empty() for batch in batches]
        arrays = [part.arrays() for part in parts]
        joined = cls.from_arrays(
            {name: np.concatenate([part[name] for part in arrays], axis=_axis(name)) for name in arrays[0]}
        )
        joined._counts = np.concatenate([part.counts() for part in parts])
        return joined

    def _without_empty(self) -> SegmentBatch:
        """Return the segments of any length: of what has become too old, few may be left."""
        kept = np.flatnonzero(self.length)
        if kept.size == self.num_segments:
            return self
        part = SegmentBatch.from_arrays({name: a.take(kept, axis=_axis(name)) for name, a in self.arrays().items()})
        part._counts = self.counts()[kept]
        return part


def _axis(name: str) -> int:
    """Return the axis of the segments in an array of that flat name."""
    return 0 if name in _PER_SEGMENT or name.startswith("initial_state/") else 1


_PER_SEGMENT = ("length", "version")
_PLAIN = ("action", "reward", "terminated", "truncated", "decided", "elapsed_ticks", *_PER_SEGMENT)
_GROUPS = ("observation", "privileged", "extras", "initial_state")
