"""Interfaces for players of football: rewards of their own, and local observations for MAPPO."""

from __future__ import annotations

import attrs
import numpy as np
from attrs import define, field
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.interface import Identity, Interface, SeatView, Spaces
from ludus_interfaces.rewards import RewardParts

from ludus_football.features import CAPACITIES, feature_groups
from ludus_football.reward_config import RewardFactorsConfig

_LAYOUTS = {groups[-1].slice.stop: groups for groups in map(feature_groups, CAPACITIES)}


def make_rewards(config: RewardFactorsConfig) -> Interface:
    """Make ``football-rewards``."""
    return RewardParts({part: factor for part, factor in attrs.asdict(config).items() if factor != 1.0})


def make_local(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``football-local``."""
    return LocalFeatures()


@define
class LocalFeatures(Identity):
    """Keeps the groups of the observation that concern the own player, the ball and the players next to it.

    A policy of MAPPO decides by them, and its critic reads the whole state besides [DIS §3.2.2]. Which groups are local
    is a choice of `ludus_football.features.feature_groups`; the paper does not name them.
    """

    _kept: np.ndarray = field(init=False, factory=lambda: np.zeros(0, np.int64))

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with the shorter observation.

        Raises:
            ContractError: The observation is not that of DIS.
        """
        size = raw.observation.shape[0] if raw.observation.shape and len(raw.observation.shape) == 1 else 0
        if not isinstance(raw.observation, spaces.Box) or size not in _LAYOUTS:
            raise ContractError(
                f"football-local: expected a vector of {' or '.join(map(str, _LAYOUTS))} numbers, got "
                f'{raw.observation}; set the environment football\'s observation = "dis", and use no interface before '
                "this one that changes it"
            )
        indices = np.arange(size)
        self._kept = np.concatenate([indices[group.slice] for group in _LAYOUTS[size] if group.is_local])
        low, high = raw.observation.low[self._kept], raw.observation.high[self._kept]
        return Spaces(spaces.Box(low, high, dtype=np.float32), raw.action)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view with the leaf ``obs [n, 94]``."""
        return attrs.evolve(view, observation={"obs": view.observation["obs"][:, self._kept]})
