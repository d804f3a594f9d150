"""Names, shapes and dtypes of what a replay buffer stores of every decision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen
from ludus.environment import Role
from ludus.spaces import action_dtype, action_width, is_continuous, label_sizes, leaf_spaces

_ArraySpec = tuple[tuple[int, ...], "np.dtype[np.generic]"]


@frozen(kw_only=True)
class ReplayLayout:
    """Names, shapes and dtypes of one row.

    Args:
        arrays: Flat name to shape and dtype: ``"observation/…"``, ``"privileged/…"``, ``"action"``, ``"action_mask"``
            for discrete actions, ``"reward"``, ``"discount"``, ``"offset"``, and ``"sums/…"``.
    """

    arrays: Mapping[str, _ArraySpec]

    @classmethod
    def for_role(cls, role: Role, *, sums: Sequence[str] = (), privileged: bool = False) -> ReplayLayout:
        """Return the layout for the decisions of a role.

        Args:
            role: Role as the player observes it.
            sums: Names of columns that are summed over the decisions of a transition besides the reward.
            privileged: Whether rows include privileged leaves.
        """
        arrays: dict[str, _ArraySpec] = {}
        groups = {"observation": role.observation_space, "privileged": role.privileged_space if privileged else None}
        for group, space in groups.items():
            for name, leaf in leaf_spaces(space).items():
                arrays[f"{group}/{name}"] = (tuple(leaf.shape or ()), np.dtype(leaf.dtype))
        arrays["action"] = ((action_width(role.action_space),), action_dtype(role.action_space))
        if not is_continuous(role.action_space):
            arrays["action_mask"] = ((sum(label_sizes(role.action_space)),), np.dtype(bool))
        for name in ("reward", "discount", *(f"sums/{name}" for name in sums)):
            arrays[name] = ((), np.dtype(np.float32))
        arrays["offset"] = ((), np.dtype(np.int32))
        return cls(arrays=arrays)

    @property
    def row_bytes(self) -> int:
        """Return the size of one row in bytes."""
        return sum(math.prod(shape) * dtype.itemsize for shape, dtype in self.arrays.values())
