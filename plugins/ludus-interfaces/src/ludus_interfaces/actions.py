"""Transforms of actions and masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import attrs
import numpy as np
from attrs import define, field
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.interface import Identity, SeatView, Spaces
from ludus.spaces import label_sizes, real_sizes


@define
class MergeLabels(Identity):
    """Merges action labels into one label whose choices are all combinations; the last label varies fastest.

    A combination is legal if all of its choices are.

    Args:
        max_choices: Limit on the number of combinations.
    """

    max_choices: int = field(default=10_000, kw_only=True)
    _sizes: tuple[int, ...] = field(init=False, default=())

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with one Discrete action.

        Raises:
            ContractError: Actions have real numbers, or there are too many combinations.
        """
        if real_sizes(raw.action):
            raise ContractError(f"merge-labels needs discrete actions, got {raw.action}")
        self._sizes = label_sizes(raw.action)
        choices = math.prod(self._sizes)
        if choices > self.max_choices:
            raise ContractError(
                f"merge-labels: {raw.action} has {choices:,} combinations, more than max_choices = "
                f"{self.max_choices:,}; raise it or keep the labels apart"
            )
        return Spaces(raw.observation, spaces.Discrete(choices))

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view with a mask of combinations."""
        if view.action_mask is None:
            return view
        rows = view.action_mask.shape[0]
        first, *rest = np.split(view.action_mask, np.cumsum(self._sizes)[:-1], axis=1)
        for label in rest:
            first = (first[:, :, None] & label[:, None, :]).reshape(rows, -1)
        return attrs.evolve(view, action_mask=first)

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """Return the labels ``[n, L']`` of the chosen combination ``[n, 1]``."""
        return np.stack(np.unravel_index(action[:, 0], self._sizes), axis=1).astype(np.int64)


@define
class HideMask(Identity):
    """Hides the mask of legal actions; a choice that is illegal becomes the first legal one of its label.

    With it, an agent has to learn from its results which actions are legal [HoK §4, the comparison without masks].
    """

    keeps_labels = True
    _bounds: tuple[int, ...] = field(init=False, default=())
    _masks: dict[int, np.ndarray] = field(init=False, factory=dict)  # [A] bool by seat id, of the last view

    def bind(self, raw: Spaces) -> Spaces:
        """Return the raw spaces.

        Raises:
            ContractError: Actions have no labels, so they have no mask.
        """
        sizes = label_sizes(raw.action)
        if not sizes:
            raise ContractError(f"hide-mask needs discrete actions, got {raw.action}")
        self._bounds = (0, *accumulate(sizes))
        return raw

    def reset(self, seat_ids: np.ndarray) -> None:
        """Forget the masks of the seats."""
        for seat in seat_ids.tolist():
            self._masks.pop(seat, None)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        """Return the view with a mask by which all choices are legal."""
        if view.action_mask is None:
            return view
        self._masks.update(zip(seat_ids.tolist(), view.action_mask.copy(), strict=True))
        return attrs.evolve(view, action_mask=np.ones_like(view.action_mask))

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        """Return the action ``[n, L]`` with legal choices."""
        if not self._masks:
            return action
        return replace_illegal(action, np.stack([self._masks[seat] for seat in seat_ids.tolist()]), self._bounds)


def replace_illegal(action: np.ndarray, mask: np.ndarray, bounds: Sequence[int]) -> np.ndarray:
    """Return actions in which every illegal choice is replaced by the first legal one of its label.

    Args:
        action: ``[n, L + D]``, labels and behind them real numbers.
        mask: ``[n, A] bool``.
        bounds: First column of every label in the mask, and A.
    """
    action = action.copy()
    for label, (start, stop) in enumerate(pairwise(bounds)):
        choices = mask[:, start:stop]
        is_legal = np.take_along_axis(choices, action[:, label, None].astype(np.int64), axis=1)[:, 0]
        action[:, label] = np.where(is_legal, action[:, label], choices.argmax(axis=1))
    return action
