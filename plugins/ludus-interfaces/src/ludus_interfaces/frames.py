"""Observations of the last few decisions together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from attrs import define, field
from gymnasium import Space, spaces
from ludus.environment import Leaves
from ludus.errors import ContractError
from ludus.interface import Identity, SeatView, Spaces
from ludus.spaces import is_image, leaf_spaces

from ludus_interfaces.observations import replace_leaves, select_leaves


def _no_ids() -> np.ndarray:
    return np.zeros(0, np.int64)


@define
class SeatRows:
    """Assigns every seat id a row in the caller's arrays, and marks rows of seats whose match starts as fresh.

    Seat ids may be any int64. They are few and occur again, so rows are not released.
    """

    _ids: np.ndarray = field(init=False, factory=_no_ids)  # [k] sorted
    _rows: np.ndarray = field(init=False, factory=_no_ids)  # [k] row of each id
    _fresh: np.ndarray = field(init=False, factory=lambda: np.zeros(0, bool))  # [k] by row

    @property
    def count(self) -> int:
        """Return k, the number of rows that the caller's arrays need."""
        return int(self._ids.size)

    def rows(self, seat_ids: np.ndarray) -> np.ndarray:
        """Return the row ``[n] int64`` of each seat id; new seat ids get new, fresh rows."""
        known = self._find(seat_ids)
        if not known.all():
            self._add(np.unique(seat_ids[~known]))
        return np.asarray(self._rows[np.searchsorted(self._ids, seat_ids)])

    def reset(self, seat_ids: np.ndarray) -> None:
        """Mark the rows of these seat ids as fresh."""
        known = seat_ids[self._find(seat_ids)]
        self._fresh[self._rows[np.searchsorted(self._ids, known)]] = True

    def take_fresh(self, rows: np.ndarray) -> np.ndarray:
        """Return ``[n] bool``, whether the rows are fresh, and clear the marks."""
        fresh = self._fresh[rows]
        self._fresh[rows] = False
        return np.asarray(fresh)

    def _find(self, seat_ids: np.ndarray) -> np.ndarray:
        if not self._ids.size:
            return np.zeros(seat_ids.shape, bool)
        position = np.minimum(np.searchsorted(self._ids, seat_ids), self._ids.size - 1)
        return np.asarray(self._ids[position] == seat_ids)

    def _add(self, new: np.ndarray) -> None:
        rows = np.arange(self.count, self.count + new.size)
        ids = np.concatenate([self._ids, new])
        order = np.argsort(ids)
        self._ids, self._rows = ids[order], np.concatenate([self._rows, rows])[order]
        self._fresh = np.concatenate([self._fresh, np.ones(new.size, bool)])


_MOST_NUMBERS = 3 * 10**7  # of one leaf, four frames of a large screen; one observation is then 120 MB


@define
class FrameStack(Identity):
    """Stacks the observations of the last F decisions, oldest first.

    Images are stacked along their channels, other leaves along a new first axis. Frames are the
    decisions of a seat and the end of its match, not the ticks in between.

    Args:
        frames: F, the number of frames.
        leaves: Names of the leaves; empty: all leaves.
        padding: What fills the frames before the first observation of a match: ``"first"`` observation, or ``"zeros"``.
    """

    frames: int = 4
    leaves: Sequence[str] = field(default=(), kw_only=True)
    padding: str = field(default="first", kw_only=True)
    _rows: SeatRows = field(init=False, factory=SeatRows)
    _memory: Leaves = field(init=False, factory=dict)  # stacked leaves [k, …], one row per seat id
    _axes: dict[str, int] = field(init=False, factory=dict)  # axis of the frames, by leaf

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with stacked leaves.

        Raises:
            ContractError: A named leaf is missing, or a leaf cannot be stacked.
        """
        leaves = select_leaves(leaf_spaces(raw.observation), self.leaves, (Space,))
        stacked = {name: _stacked(leaf, self.frames) for name, leaf in leaves.items()}
        if not self._memory:
            self._memory = {name: np.zeros((0, *(leaf.shape or ())), leaf.dtype) for name, leaf in stacked.items()}
            self._axes = {name: -1 if is_image(leaf) else 1 for name, leaf in leaves.items()}
        return replace_leaves(raw, stacked)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the frames of these seats."""
        self._rows.reset(seat_ids)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        """Return the view with leaves ``[n, F, …]``, and images ``[n, H, W, F · C]``."""
        rows = self._rows.rows(seat_ids)
        fresh = self._rows.take_fresh(rows)
        stacked = {name: self._push(name, view.observation[name], rows, fresh) for name in self._memory}
        return attrs.evolve(view, observation={**view.observation, **stacked})

    def _push(self, name: str, leaf: np.ndarray, rows: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        memory = self._memory[name]
        if memory.shape[0] < self._rows.count:
            more = np.zeros((self._rows.count - memory.shape[0], *memory.shape[1:]), memory.dtype)
            memory = self._memory[name] = np.concatenate([memory, more])
        axis = self._axes[name]
        newest = leaf if axis < 0 else leaf[:, None]
        frames = np.empty((rows.size, *memory.shape[1:]), memory.dtype)
        shifted, width = np.moveaxis(frames, axis, 0), newest.shape[axis]
        shifted[:-width] = np.moveaxis(memory[rows], axis, 0)[width:]
        shifted[-width:] = np.moveaxis(newest, axis, 0)
        older = newest[fresh] if self.padding == "first" else np.zeros_like(newest[fresh])
        frames[fresh] = np.concatenate([older] * (self.frames - 1) + [newest[fresh]], axis)
        memory[rows] = frames
        return frames


def _repeat(bound: np.ndarray, frames: int, along_channels: bool) -> np.ndarray:
    return np.concatenate([bound if along_channels else bound[None]] * frames, axis=-1 if along_channels else 0)


def _stacked(leaf: Space[Any], frames: int) -> Space[Any]:
    """Return the space of a leaf of several frames.

    Raises:
        ContractError: Such a leaf cannot be stacked, or is too large.
    """
    numbers = math.prod(leaf.shape or ())
    if numbers * frames > _MOST_NUMBERS:
        raise ContractError(
            f"frame-stack: {frames} frames of {numbers:,} numbers exceed {_MOST_NUMBERS:,}: expected fewer frames, or "
            "frame-stack once among the interfaces"
        )
    if isinstance(leaf, spaces.Box):
        low, high = (_repeat(bound, frames, is_image(leaf)) for bound in (leaf.low, leaf.high))
        return spaces.Box(low, high, dtype=leaf.dtype.type)
    if isinstance(leaf, spaces.Discrete):
        return spaces.MultiDiscrete([leaf.n] * frames, dtype=leaf.dtype.type, start=[leaf.start] * frames)
    if isinstance(leaf, spaces.MultiDiscrete):
        sizes, start = (np.repeat(part[None], frames, axis=0) for part in (leaf.nvec, leaf.start))
        return spaces.MultiDiscrete(sizes, dtype=leaf.dtype.type, start=start)
    if isinstance(leaf, spaces.MultiBinary):
        return spaces.MultiBinary((frames, *leaf.shape))
    raise ContractError(f"frame-stack cannot stack a {type(leaf).__name__} leaf")
