"""Interfaces side by side, one for each part of a joint seat [Arena §2.4.1].

``stack(combine(i0, i1), i2)`` transforms part 0 with i0 and part 1 with i1; i2 then gets both parts, for example to
share information within a team.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define, field
from ludus.errors import ContractError
from ludus.interface import Interface, ScheduledInterface, SeatView, Spaces, require_distinct

from ludus_interfaces.joint_seats import JointPart, join_spaces, join_views, joint_parts, split_spaces, split_view

__all__ = ["combine"]


def combine(*interfaces: Interface, widths: Sequence[int] | None = None) -> Interface:
    """Return an interface that transforms part k of a joint seat with interface k [Arena §2.4.1].

    Every part gets the reward of the joint seat, and the joint reward is the mean of the transformed rewards. Named
    reward parts are averaged in the same way: a part that an interface does not return counts as 0, and the reward of
    an interface without parts counts as the part ``"reward"``. So the parts still sum to the reward for `RewardParts`.

    Args:
        interfaces: One interface per part.
        widths: Number of raw action labels (or Box dimensions) of each part; None if they are equal.

    Raises:
        ContractError: There is no interface, or an object occurs twice.
    """
    if not interfaces:
        raise ContractError("combine needs at least one interface")
    require_distinct(interfaces)
    return _Combined(interfaces, widths)


@define
class _Combined:
    interfaces: tuple[Interface, ...]
    widths: Sequence[int] | None
    _raw_parts: tuple[JointPart, ...] = field(init=False, default=())
    _parts: tuple[JointPart, ...] = field(init=False, default=())

    def bind(self, raw: Spaces) -> Spaces:
        raw_spaces = split_spaces(raw, len(self.interfaces), widths=self.widths)
        bound = [interface.bind(part) for interface, part in zip(self.interfaces, raw_spaces, strict=True)]
        joint = join_spaces(bound)
        self._raw_parts, self._parts = joint_parts(raw_spaces), joint_parts(bound)
        return joint

    def reset(self, seat_ids: np.ndarray) -> None:
        for interface in self.interfaces:
            interface.reset(seat_ids)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        raw_views = split_view(view, self._raw_parts)
        views = [interface.observe(raw, seat_ids) for interface, raw in zip(self.interfaces, raw_views, strict=True)]
        return join_views(views, self._parts)

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        pairs = zip(self.interfaces, self._parts, strict=True)
        raw = [interface.act(action[:, part.labels], seat_ids) for interface, part in pairs]
        return np.concatenate(raw, axis=1)

    def set_progress(self, progress: float) -> None:
        for interface in self.interfaces:
            if isinstance(interface, ScheduledInterface):
                interface.set_progress(progress)
