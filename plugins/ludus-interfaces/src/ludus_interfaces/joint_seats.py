"""Joint seats: several seats as one [Arena §2.4.1].

A *joint* seat has K parts. Its observation leaves are those of the parts with the prefixes ``"0."``, ``"1."``, …. Its
action concatenates the labels (or Box dimensions) of the parts, and so does its mask.

`combine` puts interfaces side by side, one for each part: ``stack(combine(i0, i1), i2)`` transforms part 0 with i0 and
part 1 with i1; i2 then gets both parts, for example to share information within a team.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, pairwise

import numpy as np
from attrs import define, field, frozen
from gymnasium import spaces
from ludus.agent import elapse
from ludus.errors import ContractError
from ludus.interface import Interface, ScheduledInterface, SeatView, Spaces, require_distinct
from ludus.spaces import action_width, is_continuous, label_sizes, leaf_spaces, real_box

from ludus_interfaces.rewards import WHOLE_REWARD


def is_joint(observation: spaces.Space[object]) -> bool:
    """Return whether an observation space is that of a joint seat: all its leaves have the prefix of a part."""
    return all(name.partition(".")[0].isdecimal() and "." in name for name in leaf_spaces(observation))


def join_spaces(parts: Sequence[Spaces]) -> Spaces:
    """Return the spaces of a joint seat with these parts.

    Raises:
        ContractError: Some parts have Box actions and others labels, or a part has both.
    """
    leaves = {f"{k}.{n}": leaf for k, part in enumerate(parts) for n, leaf in leaf_spaces(part.observation).items()}
    return Spaces(spaces.Dict(leaves), _join_actions([part.action for part in parts]))


def _join_actions(parts: Sequence[spaces.Space[object]]) -> spaces.Space[object]:
    boxes = [box for box in map(real_box, parts) if box is not None]
    if not boxes:
        return spaces.MultiDiscrete([n for part in parts for n in label_sizes(part)])
    if not all(map(is_continuous, parts)):
        raise ContractError(
            "cannot join Box actions with labels: expected labels only, or real numbers only, in the actions of all "
            "parts"
        )
    low, high = (np.concatenate([np.ravel(getattr(box, end)) for box in boxes]) for end in ("low", "high"))
    return spaces.Box(low.astype(np.float32), high.astype(np.float32))


def split_spaces(joint: Spaces, parts: int, *, widths: Sequence[int] | None = None) -> tuple[Spaces, ...]:
    """Return the spaces of the parts of a joint seat; the inverse of `join_spaces`.

    Args:
        joint: Spaces with leaves ``"0.…"`` to ``f"{parts - 1}.…"``.
        parts: K.
        widths: Number of action labels (or Box dimensions) of each part; None if they are equal.

    Raises:
        ContractError: The leaves or the labels do not divide into K parts.
    """
    leaves = [_part_leaves(joint, k) for k in range(parts)]
    total, named = len(leaf_spaces(joint.observation)), sum(map(len, leaves))
    if named < total or not all(leaves):
        names = ", ".join(leaf_spaces(joint.observation))
        raise ContractError(
            f"expected the observation of {parts} parts with leaves '0.…', '1.…' and so on, got {names}"
        )
    width = action_width(joint.action)
    split = [width // parts] * parts if widths is None else list(widths)
    if sum(split) != width or len(split) != parts:
        raise ContractError(
            f"{width} action labels do not divide into {parts} parts of widths {split}; pass valid `widths`"
        )
    ends = list(pairwise(accumulate(split, initial=0)))
    return tuple(
        Spaces(_plain_or_dict(part), _part_action(joint.action, *end)) for part, end in zip(leaves, ends, strict=True)
    )


def _part_leaves(joint: Spaces, k: int) -> dict[str, spaces.Space[object]]:
    prefix = f"{k}."
    leaves = leaf_spaces(joint.observation)
    return {name.removeprefix(prefix): leaf for name, leaf in leaves.items() if name.startswith(prefix)}


def _plain_or_dict(leaves: dict[str, spaces.Space[object]]) -> spaces.Space[object]:
    return leaves["obs"] if set(leaves) == {"obs"} else spaces.Dict(leaves)


def _part_action(action: spaces.Space[object], start: int, stop: int) -> spaces.Space[object]:
    box = real_box(action)
    if box is not None:
        if not is_continuous(action):
            raise ContractError(f"cannot divide actions with labels and real numbers into parts, got {action}")
        return spaces.Box(box.low[start:stop], box.high[start:stop])
    sizes = label_sizes(action)[start:stop]
    return spaces.Discrete(sizes[0]) if len(sizes) == 1 else spaces.MultiDiscrete(list(sizes))


@frozen
class JointPart:
    """The place of one part in the arrays of a joint seat.

    Attributes:
        names: Leaf names of the part → leaf names of the joint seat.
        labels: Columns of the action.
        choices: Columns of the mask.
    """

    names: Mapping[str, str]
    labels: slice
    choices: slice


def joint_parts(parts: Sequence[Spaces]) -> tuple[JointPart, ...]:
    """Return the places of parts with these spaces."""
    labels = accumulate((action_width(part.action) for part in parts), initial=0)
    choices = accumulate((sum(label_sizes(part.action)) for part in parts), initial=0)
    return tuple(
        JointPart({name: f"{k}.{name}" for name in leaf_spaces(part.observation)}, slice(*label), slice(*choice))
        for k, (part, label, choice) in enumerate(zip(parts, pairwise(labels), pairwise(choices), strict=True))
    )


def split_view(view: SeatView, parts: Sequence[JointPart]) -> list[SeatView]:
    """Return the views of the parts; each has the reward of the joint seat."""
    mask = view.action_mask
    return [
        SeatView(
            observation={own: view.observation[joint] for own, joint in part.names.items()},
            action_mask=None if mask is None else mask[:, part.choices],
            reward=view.reward,
            reward_parts=view.reward_parts,
        )
        for part in parts
    ]


def join_views(views: Sequence[SeatView], parts: Sequence[JointPart]) -> SeatView:
    """Return the view of the joint seat; its reward is the mean over the parts."""
    observation = {
        joint: view.observation[own]
        for view, part in zip(views, parts, strict=True)
        for own, joint in part.names.items()
    }
    mask = None
    if any(view.action_mask is not None for view in views):
        mask = np.ones((views[0].reward.size, parts[-1].choices.stop), np.bool_)
        for view, part in zip(views, parts, strict=True):
            if view.action_mask is not None:
                mask[:, part.choices] = view.action_mask
    return SeatView(
        observation=observation,
        action_mask=mask,
        reward=_mean([view.reward for view in views]),
        reward_parts=_join_reward_parts(views),
    )


def _join_reward_parts(views: Sequence[SeatView]) -> dict[str, np.ndarray]:
    """Return the mean over the views of every named reward part, so that parts still sum to the reward."""
    if not any(view.reward_parts for view in views):
        return {}
    parts = [view.reward_parts or {WHOLE_REWARD: view.reward} for view in views]
    zero = np.zeros_like(views[0].reward)
    names = dict.fromkeys(chain.from_iterable(parts))
    return {name: _mean([rewards.get(name, zero) for rewards in parts]) for name in names}


def _mean(values: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(np.mean(values, axis=0, dtype=np.float64), np.float32)


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

    def elapse(self, ticks: np.ndarray, seat_ids: np.ndarray) -> None:
        for interface in self.interfaces:
            elapse(interface, ticks, seat_ids)

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
