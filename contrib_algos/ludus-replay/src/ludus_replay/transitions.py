"""Transitions sampled from a replay buffer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import numpy as np
from attrs import define

_Array = TypeVar("_Array")
_Other = TypeVar("_Other")


@define(kw_only=True)
class Transitions(Generic[_Array]):
    """A sample of n transitions, as NumPy arrays or as tensors.

    Attributes:
        observation: Leaves ``[n, …]`` in the environment's dtypes.
        privileged: Leaves ``[n, …]``; empty unless the layout includes them.
        action: ``[n, L] int64`` or ``[n, D] float32``.
        action_mask: ``[n, A] bool``; None for continuous actions.
        reward: ``[n] float32``, discounted sum over the decisions of the transition.
        discount: ``[n] float32``, factor of the value of the next observation; 0 where the seat terminated.
        next_observation: Leaves ``[n, …]``; undefined where the discount is 0.
        next_privileged: Leaves ``[n, …]``; undefined where the discount is 0.
        next_action_mask: ``[n, A] bool``; undefined where the discount is 0, but with a legal choice in every row.
        sums: Further columns ``[n] float32``, summed over the decisions of the transition like the reward.
        index: ``[n] int64``, row in the buffer, for `ReplayBuffer.set_priorities`.
        weight: ``[n] float32``, importance weights, at most 1; all 1 in uniform samples.
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

    def map(self, function: Callable[[_Array], _Other]) -> Transitions[_Other]:
        """Apply `function` to every array except `index`, and return the result."""

        def map_leaves(leaves: Mapping[str, _Array]) -> dict[str, _Other]:
            return {name: function(leaf) for name, leaf in leaves.items()}

        return Transitions(
            observation=map_leaves(self.observation),
            privileged=map_leaves(self.privileged),
            action=function(self.action),
            action_mask=None if self.action_mask is None else function(self.action_mask),
            reward=function(self.reward),
            discount=function(self.discount),
            next_observation=map_leaves(self.next_observation),
            next_privileged=map_leaves(self.next_privileged),
            next_action_mask=None if self.next_action_mask is None else function(self.next_action_mask),
            sums=map_leaves(self.sums),
            index=self.index,
            weight=function(self.weight),
        )
