"""Interfaces: one changes what a seat sees and earns, the other what it does."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces
from ludus import ContractError
from ludus.interface import Identity, SeatView, Spaces
from ludus.spaces import label_sizes, real_sizes

from ludus_dummy.config import ScaleConfig


class Scale(Identity):
    """Multiplies real-valued observation leaves and rewards by constants."""

    def __init__(self, config: ScaleConfig) -> None:
        self._config = config
        self._scaled: frozenset[str] = frozenset()

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with the bounds of real-valued leaves scaled."""
        if not isinstance(raw.observation, spaces.Dict):
            self._scaled = frozenset({"obs"} if _is_real(raw.observation) else ())
            return Spaces(self._scale_space(raw.observation), raw.action)
        self._scaled = frozenset(name for name, leaf in raw.observation.spaces.items() if _is_real(leaf))
        leaves = {name: self._scale_space(leaf) for name, leaf in raw.observation.spaces.items()}
        return Spaces(spaces.Dict(leaves), raw.action)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002 - stateless
        """Return the scaled view."""
        factor = np.float32(self._config.observation)
        observation = {name: leaf * factor if name in self._scaled else leaf for name, leaf in view.observation.items()}
        return SeatView(
            observation=observation, action_mask=view.action_mask, reward=view.reward * np.float32(self._config.reward)
        )

    def _scale_space(self, space: Space[Any]) -> Space[Any]:
        if not _is_real(space):
            return space
        assert isinstance(space, spaces.Box)
        factor = np.float32(self._config.observation)
        return spaces.Box(space.low * factor, space.high * factor, dtype=np.float32)


class Reverse(Identity):
    """Reverses the choices of every action label: choice 0 becomes the last one."""

    def __init__(self, config: None) -> None:  # noqa: ARG002 - signature of the factory
        self._sizes: tuple[int, ...] = ()

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces unchanged.

        Raises:
            ContractError: Actions have real numbers.
        """
        self._sizes = label_sizes(raw.action)
        if real_sizes(raw.action):
            raise ContractError("dummy-reverse needs discrete actions; this role has a Box action space or part")
        return raw

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002 - stateless
        """Return the view with masks reversed label by label."""
        if view.action_mask is None:
            return view
        labels = np.split(view.action_mask, np.cumsum(self._sizes)[:-1], axis=1)
        mask = np.concatenate([label[:, ::-1] for label in labels], axis=1)
        return SeatView(observation=view.observation, action_mask=mask, reward=view.reward)

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:  # noqa: ARG002 - stateless
        """Return the action in the original numbering."""
        raw: np.ndarray = np.asarray(self._sizes, np.int64) - 1 - action
        return raw


def _is_real(space: Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and space.dtype == np.float32
