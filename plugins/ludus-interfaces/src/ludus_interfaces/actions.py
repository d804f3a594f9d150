"""Transforms of actions."""

from __future__ import annotations

import math

import attrs
import numpy as np
from attrs import define, field
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.interface import Identity, SeatView, Spaces
from ludus.spaces import is_continuous, label_sizes


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
            ContractError: Actions are continuous, or there are too many combinations.
        """
        if is_continuous(raw.action):
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
