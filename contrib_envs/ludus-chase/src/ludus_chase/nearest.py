"""An interface that shows only the nearest entities of each group."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from attrs import define, field
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.interface import Identity, SeatView, Spaces

from ludus_chase.config import NearestConfig
from ludus_chase.layout import MOUSE_LEAVES, PATH

_FAR = PATH.index("far")
#: Entities in these states are sorted behind all others: cheese that is not on the floor, filled holes.
_USELESS = {"cheeses": ("held", "in-hole"), "holes": ("done",)}
_ABSENT, _OUT_OF_USE = 4.0, 2.0  # beyond the greatest distance, which is 1


def make_nearest(config: NearestConfig) -> Nearest:
    """Make ``chase-nearest``."""
    return Nearest(config.keep)


@define
class Nearest(Identity):
    """Sorts groups of entities by walking distance and shows only the first of each.

    Args:
        keep: Number of entities to keep per group; groups that are not named stay as they are.
    """

    keep: Mapping[str, int]
    _rows: dict[str, int] = field(init=False, factory=dict)

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with shorter groups; groups that the role does not have are ignored.

        Raises:
            ContractError: The observation is not that of the game.
        """
        if not isinstance(raw.observation, spaces.Dict):
            raise ContractError("chase-nearest: expected the observation of chase; list this interface first")
        leaves = dict(raw.observation.spaces)
        self._rows = {name: count for name, count in self.keep.items() if f"{name}_present" in leaves}
        for name, count in self._rows.items():
            group = leaves.pop(name)
            del leaves[f"{name}_present"]
            assert isinstance(group, spaces.Box)
            if count:
                leaves[name] = spaces.Box(group.low[:count], group.high[:count], dtype=np.float32)
                leaves[f"{name}_present"] = spaces.MultiBinary(min(count, len(group.low)))
        return Spaces(spaces.Dict(leaves), raw.action)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002 - it has no state
        """Return the view with groups ``[n, keep, …]``."""
        leaves = dict(view.observation)
        for name, count in self._rows.items():
            group, present = leaves.pop(name), leaves.pop(f"{name}_present")
            if count:
                first = _order(name, group, present)[:, :count]
                leaves[name] = np.take_along_axis(group, first[:, :, None], axis=1)
                leaves[f"{name}_present"] = np.take_along_axis(present, first, axis=1)
        return attrs.evolve(view, observation=leaves)


def _order(name: str, group: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Return ``[n, k] int64``: entity indices in order of distance."""
    far = np.abs(group[:, :, 0]) + np.abs(group[:, :, 1]) if name == "doors" else group[:, :, _FAR]
    behind = _ABSENT * (1.0 - present)
    for what in _USELESS.get(name, ()):
        behind = behind + _OUT_OF_USE * group[:, :, MOUSE_LEAVES[name][1].index(what)]
    order: np.ndarray = (far + behind).argsort(axis=1, kind="stable")
    return order
