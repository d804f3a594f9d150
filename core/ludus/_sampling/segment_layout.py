"""The layout of segments: names, shapes and dtypes of all recorded arrays, on which samplers and learners agree."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from attrs import field, frozen

from ludus.environment import Leaves, Role
from ludus.errors import ContractError
from ludus.launcher import Shapes
from ludus.segment import Field
from ludus.spaces import action_dtype, action_width, is_continuous, label_sizes, leaf_spaces

STATE_PREFIX = "initial_state/"


@frozen(kw_only=True)
class SegmentLayout:
    """Names, shapes and dtypes of everything recorded per decision.

    Args:
        decisions: T, the maximal length of a segment.
        arrays: Shape and dtype of one entry by flat name, as in `SegmentBatch.arrays`.
        state: Shape and dtype of the recurrent state leaves of one trajectory.
        opponent_fields: `Field.source` of the arrays that samplers fill with values of opponents, by flat name.
        seat_fields: Flat names of the arrays that hold the numbers of seats.
        labels: Number of choices of every action label; empty for continuous actions.
    """

    decisions: int
    arrays: Shapes
    state: Shapes = field(factory=dict)
    opponent_fields: Mapping[str, str] = field(factory=dict)
    seat_fields: tuple[str, ...] = ()
    labels: tuple[int, ...] = ()

    @classmethod
    def for_role(
        cls, role: Role, *, fields: tuple[Field, ...], decisions: int, state: Leaves | None = None
    ) -> SegmentLayout:
        """Return the layout of a role's decisions.

        Args:
            role: Role, behind the player's interfaces.
            fields: Fields that the algorithm declares.
            decisions: T.
            state: Example of the recurrent state, leaves ``[1, …]``.
        """
        return cls(
            decisions=decisions,
            arrays={**_role_arrays(role), **_field_arrays(fields), **_MARKS},
            state={name: (leaf.shape[1:], leaf.dtype) for name, leaf in (state or {}).items()},
            opponent_fields={
                f"extras/{extra.name}": extra.source for extra in fields if extra.source.startswith("opponent")
            },
            seat_fields=tuple(f"extras/{extra.name}" for extra in fields if extra.source == "seat"),
            labels=label_sizes(role.action_space),
        )

    def block_shapes(self, segments: int) -> Shapes:
        """Return shape and dtype of all arrays of a block with this number of segments, by flat name."""
        head = (self.decisions + 1, segments)
        shapes = {name: ((*head, *shape), dtype) for name, (shape, dtype) in self.arrays.items()}
        shapes |= {STATE_PREFIX + name: ((segments, *shape), dtype) for name, (shape, dtype) in self.state.items()}
        return shapes | {"length": ((segments,), np.dtype(np.int32)), "version": ((segments,), np.dtype(np.int64))}

    def check_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Check that arrays have this layout and contain valid actions.

        Unused entries are checked too: they hold zeros or entries of an earlier block of the player.

        Raises:
            ContractError: An array is missing, unknown, or has a wrong shape or dtype; an action has an invalid choice
                or is not finite.
        """
        self.check_shapes({name: (array.shape, array.dtype) for name, array in arrays.items()})
        if arrays["action"].size:
            self._check_actions(arrays["action"])

    def check_shapes(self, found: Shapes) -> None:
        """Check that declared shapes and dtypes are those of a block of this layout, whatever its number of segments.

        Raises:
            ContractError: An array is missing, unknown, or has a wrong shape or dtype.
        """
        expected = self.block_shapes(math.prod(found["length"][0]) if "length" in found else 0)
        if found != expected:
            name = next(name for name in (*expected, *found) if found.get(name) != expected.get(name))
            got, wanted = (_describe(shapes.get(name)) for shapes in (found, expected))
            raise ContractError(f"segments: expected {wanted} as {name[:64]!r}, got {got}")

    def _check_actions(self, action: np.ndarray) -> None:
        has_reals = action.dtype.kind == "f"
        if has_reals and not np.isfinite(action).all():
            raise ContractError("segments: an action is not finite")
        # one label at a time: NumPy reduces a long last axis slowly
        for label, size in enumerate(self.labels):
            low, high = action[..., label].min(), action[..., label].max()
            if low < 0 or high >= size:
                raise ContractError(f"segments: expected label {label} of actions in [0, {size - 1}], got {low}…{high}")
            if has_reals and np.any(action[..., label] % 1):
                raise ContractError(f"segments: expected whole numbers as label {label} of actions")


_MARKS: Shapes = {
    "terminated": ((), np.dtype(bool)),
    "truncated": ((), np.dtype(bool)),
    "decided": ((), np.dtype(bool)),
    "reward": ((), np.dtype(np.float32)),
    "elapsed_ticks": ((), np.dtype(np.int32)),
}


def _role_arrays(role: Role) -> Shapes:
    arrays: dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]] = {}
    for group, space in (("observation", role.observation_space), ("privileged", role.privileged_space)):
        for name, leaf in leaf_spaces(space).items():
            arrays[f"{group}/{name}"] = (tuple(leaf.shape or ()), np.dtype(leaf.dtype))
    arrays["action"] = ((action_width(role.action_space),), action_dtype(role.action_space))
    if not is_continuous(role.action_space):
        arrays["action_mask"] = ((sum(label_sizes(role.action_space)),), np.dtype(bool))
    return arrays


def _field_arrays(fields: tuple[Field, ...]) -> Shapes:
    return {f"extras/{extra.name}": (extra.shape, np.dtype(extra.dtype)) for extra in fields}


def _describe(shape: tuple[tuple[int, ...], np.dtype[np.generic]] | None) -> str:
    return "nothing" if shape is None else f"{shape[1]}{[*shape[0]]}"
