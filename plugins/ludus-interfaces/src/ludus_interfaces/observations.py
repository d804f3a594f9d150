"""Stateless transforms of observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from attrs import define, field, frozen
from gymnasium import Space, spaces
from ludus.errors import ContractError
from ludus.interface import Identity, SeatView, Spaces
from ludus.spaces import leaf_spaces


def _bounds(leaf: Space[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of a flattened leaf, each ``[size] float32``."""
    if isinstance(leaf, spaces.Box):
        low, high = leaf.low, leaf.high
    elif isinstance(leaf, spaces.Discrete):
        low, high = leaf.start, leaf.start + leaf.n - 1
    elif isinstance(leaf, spaces.MultiDiscrete):
        low, high = leaf.start, leaf.start + leaf.nvec - 1
    else:
        low, high = np.zeros(leaf.shape or ()), np.ones(leaf.shape or ())
    return np.ravel(low).astype(np.float32), np.ravel(high).astype(np.float32)


def select_leaves(
    leaves: dict[str, Space[Any]], names: Sequence[str], kinds: tuple[type, ...]
) -> dict[str, Space[Any]]:
    """Return the leaves of these kinds, restricted to `names` unless it is empty.

    Raises:
        ContractError: There is no leaf of these kinds with a name.
    """
    fitting = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, kinds)}
    for name in names:
        if name not in fitting:
            expected = " or ".join("observation" if kind is Space else kind.__name__ for kind in kinds)
            raise ContractError(f"there is no {expected} leaf {name!r}; there are {', '.join(fitting) or 'none'}")
    return {name: fitting[name] for name in names} if names else fitting


def replace_leaves(raw: Spaces, changed: Mapping[str, Space[Any]]) -> Spaces:
    """Return the spaces with changed observation leaves."""
    if not isinstance(raw.observation, spaces.Dict):
        return Spaces(changed.get("obs", raw.observation), raw.action)
    return Spaces(spaces.Dict({**leaf_spaces(raw.observation), **changed}), raw.action)


@define
class Flatten(Identity):
    """Concatenates all leaves into one float32 vector, in the order of the observation space."""

    _names: tuple[str, ...] = field(init=False, default=())

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with a one-dimensional Box."""
        leaves = leaf_spaces(raw.observation)
        self._names = tuple(leaves)
        low, high = (np.concatenate(ends) for ends in zip(*map(_bounds, leaves.values()), strict=True))
        return Spaces(spaces.Box(low, high), raw.action)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        """Return the view with the single leaf ``"obs"`` ``[n, size] float32``."""
        leaves = [view.observation[name].reshape(seat_ids.size, -1) for name in self._names]
        return attrs.evolve(view, observation={"obs": np.concatenate(leaves, axis=1).astype(np.float32)})


@define
class OneHot(Identity):
    """Encodes Discrete and MultiDiscrete leaves as one-hot float32 vectors, one per number.

    Args:
        leaves: Names of the leaves; empty: all leaves of these kinds.
    """

    leaves: Sequence[str] = ()
    _offsets: dict[str, np.ndarray] = field(init=False, factory=dict)  # first column of each number, minus its start
    _widths: dict[str, int] = field(init=False, factory=dict)

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with these leaves as Boxes.

        Raises:
            ContractError: A named leaf is missing or of another kind.
        """
        chosen = select_leaves(leaf_spaces(raw.observation), self.leaves, (spaces.Discrete, spaces.MultiDiscrete))
        for name, leaf in chosen.items():
            sizes = np.ravel(leaf.nvec if isinstance(leaf, spaces.MultiDiscrete) else leaf.n)  # type: ignore[attr-defined]
            starts = np.ravel(leaf.start)  # type: ignore[attr-defined]
            self._widths[name] = int(sizes.sum())
            self._offsets[name] = np.cumsum(sizes) - sizes - starts
        return replace_leaves(raw, {name: spaces.Box(0, 1, (self._widths[name],)) for name in chosen})

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        """Return the view with one-hot leaves ``[n, size] float32``."""
        rows = np.arange(seat_ids.size)[:, None]
        changed = dict(view.observation)
        for name, offsets in self._offsets.items():
            columns = view.observation[name].reshape(seat_ids.size, -1) + offsets
            changed[name] = np.zeros((seat_ids.size, self._widths[name]), np.float32)
            changed[name][rows, columns] = 1
        return attrs.evolve(view, observation=changed)


_UNBOUNDED = 2.0**31  # wider bounds are limits of a dtype; scaled by them, all observations would be nearly equal


@frozen
class _Scale:
    """Maps [first, last] linearly to [low, high]; entries without bounds do not change."""

    first: np.ndarray
    factor: np.ndarray
    offset: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def apply(self, leaf: np.ndarray) -> np.ndarray:
        scaled = (leaf.astype(np.float32) - self.first) * self.factor + self.offset
        limited: np.ndarray = np.clip(scaled, self.low, self.high)
        return limited

    @classmethod
    def for_leaf(cls, leaf: spaces.Box, low: float, high: float) -> _Scale:
        first, last = leaf.low.astype(np.float32), leaf.high.astype(np.float32)
        width = last.astype(np.float64) - first
        bounded = (width > 0) & (width < _UNBOUNDED)
        return cls(
            first=np.where(bounded, first, 0).astype(np.float32),
            factor=np.where(bounded, (high - low) / np.where(bounded, width, 1), 1).astype(np.float32),
            offset=np.where(bounded, low, 0).astype(np.float32),
            low=np.where(bounded, low, first).astype(np.float32),
            high=np.where(bounded, high, last).astype(np.float32),
        )


@define
class ScaleObservation(Identity):
    """Maps bounded Box leaves linearly to one float32 range; unbounded entries do not change.

    Entries whose bounds are 2³¹ or more apart, such as the limits of int32 or float32, count as unbounded.

    Args:
        low: Lower end of the range.
        high: Upper end of the range.
        leaves: Names of the leaves; empty: all Box leaves.
    """

    low: float = -1.0
    high: float = 1.0
    leaves: Sequence[str] = field(default=(), kw_only=True)
    _scales: dict[str, _Scale] = field(init=False, factory=dict)

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with these leaves in [low, high].

        Raises:
            ContractError: A named leaf is missing or not a Box, or the range is empty.
        """
        if self.low >= self.high:
            raise ContractError(f"scale-observation needs low < high, got {self.low:g} and {self.high:g}")
        boxes = select_leaves(leaf_spaces(raw.observation), self.leaves, (spaces.Box,))
        self._scales = {
            name: _Scale.for_leaf(leaf, self.low, self.high)
            for name, leaf in boxes.items()
            if isinstance(leaf, spaces.Box)
        }
        return replace_leaves(raw, {name: spaces.Box(scale.low, scale.high) for name, scale in self._scales.items()})

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view with scaled leaves."""
        scaled = {name: scale.apply(view.observation[name]) for name, scale in self._scales.items()}
        return attrs.evolve(view, observation={**view.observation, **scaled})


@define
class SelectLeaves(Identity):
    """Removes all leaves except some.

    Args:
        keep: Names of the remaining leaves.
    """

    keep: Sequence[str]

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with these leaves.

        Raises:
            ContractError: A leaf is missing.
        """
        leaves = leaf_spaces(raw.observation)
        missing = [name for name in self.keep if name not in leaves]
        if missing:
            raise ContractError(f"there is no observation leaf {missing[0]!r}; there are {', '.join(leaves)}")
        return Spaces(spaces.Dict({name: leaves[name] for name in self.keep}), raw.action)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view with these leaves."""
        return attrs.evolve(view, observation={name: view.observation[name] for name in self.keep})
