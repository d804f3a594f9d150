"""Several seats, interfaces or agents as one [Arena §2.4.1, §2.4.3].

A *joint* seat has K parts. Its observation leaves are those of the parts under the prefixes ``"0."``, ``"1."``, …; its
action is the concatenation of the parts' labels (or of their Box dimensions), and so is its mask::

    as_team(game, role)          the seats of one team become one joint seat
    combine(i0, i1)              an interface on a joint seat: i0 on part 0, i1 on part 1
    stack(combine(i0, i1), i2)   i2 sees both parts, and may share information inside the team
    team([a0, a1], i2)           an agent for a joint seat: a0 decides for part 0, a1 for part 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Literal

import attrs
import numpy as np
from attrs import define, field, frozen
from gymnasium import spaces
from ludus.environment import Environment, EnvironmentSpec, Leaves, Playable, Role, RoleTick, Tick
from ludus.errors import ContractError
from ludus.interface import Interface, ScheduledInterface, SeatView, Spaces, require_distinct, stack
from ludus.spaces import action_width, is_continuous, label_sizes, leaf_spaces

from ludus_interfaces.rewards import WHOLE_REWARD
from ludus_interfaces.wrapping import Wrapper

if TYPE_CHECKING:
    from ludus.agent import Agent

__all__ = ["as_team", "combine", "join_spaces", "split_spaces", "team"]


# -- joint spaces and views ----------------------------------------------------------------------------------------


def join_spaces(parts: Sequence[Spaces]) -> Spaces:
    """Return the spaces of a joint seat made of these parts.

    Raises:
        ContractError: Some parts have Box actions and others labels.
    """
    leaves = {f"{k}.{n}": leaf for k, part in enumerate(parts) for n, leaf in leaf_spaces(part.observation).items()}
    return Spaces(spaces.Dict(leaves), _join_actions([part.action for part in parts]))


def _join_actions(parts: Sequence[spaces.Space[object]]) -> spaces.Space[object]:
    continuous = [is_continuous(part) for part in parts]
    if not any(continuous):
        return spaces.MultiDiscrete([n for part in parts for n in label_sizes(part)])
    boxes = [part for part in parts if isinstance(part, spaces.Box)]
    if len(boxes) < len(parts):
        raise ContractError("cannot join Box actions with labels: a seat has either; make all parts the same kind")
    low, high = (np.concatenate([np.ravel(getattr(box, end)) for box in boxes]) for end in ("low", "high"))
    return spaces.Box(low.astype(np.float32), high.astype(np.float32))


def split_spaces(joint: Spaces, parts: int, *, widths: Sequence[int] | None = None) -> tuple[Spaces, ...]:
    """Return the spaces of the parts of a joint seat; the inverse of `join_spaces`.

    Args:
        joint: Leaves named ``"0.…"`` to ``f"{parts - 1}.…"``.
        parts: K.
        widths: Action labels (or Box dimensions) of each part; None if all parts have equally many.

    Raises:
        ContractError: The leaves or the labels do not divide into so many parts.
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
            f"the {width} action labels do not divide into {parts} parts of widths {split}; give `widths`"
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
    if isinstance(action, spaces.Box):
        return spaces.Box(np.ravel(action.low)[start:stop], np.ravel(action.high)[start:stop])
    sizes = label_sizes(action)[start:stop]
    return spaces.Discrete(sizes[0]) if len(sizes) == 1 else spaces.MultiDiscrete(list(sizes))


@frozen
class _Part:
    """Where one part lies in the arrays of its joint seat."""

    names: Mapping[str, str]  # own leaf name → joint leaf name
    labels: slice  # of the action
    choices: slice  # of the mask


def _parts(of: Sequence[Spaces]) -> tuple[_Part, ...]:
    labels = accumulate((action_width(part.action) for part in of), initial=0)
    choices = accumulate((sum(label_sizes(part.action)) for part in of), initial=0)
    return tuple(
        _Part({name: f"{k}.{name}" for name in leaf_spaces(part.observation)}, slice(*label), slice(*choice))
        for k, (part, label, choice) in enumerate(zip(of, pairwise(labels), pairwise(choices), strict=True))
    )


def _split_view(view: SeatView, parts: Sequence[_Part]) -> list[SeatView]:
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


def _join_views(views: Sequence[SeatView], parts: Sequence[_Part]) -> SeatView:
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
    """Return the mean over the views of every named part, so that parts add up to the joint reward as before."""
    if not any(view.reward_parts for view in views):
        return {}
    named = [view.reward_parts or {WHOLE_REWARD: view.reward} for view in views]
    nothing = np.zeros_like(views[0].reward)
    return {name: _mean([of.get(name, nothing) for of in named]) for name in dict.fromkeys(chain.from_iterable(named))}


def _mean(values: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(np.mean(values, axis=0, dtype=np.float64), np.float32)


# -- interfaces side by side ---------------------------------------------------------------------------------------


def combine(*interfaces: Interface, widths: Sequence[int] | None = None) -> Interface:
    """Put interfaces side by side: interface k transforms part k of a joint seat [Arena §2.4.1].

    Every part is shown the joint seat's reward, and the joint reward is the mean of what the parts make of it. So it is
    for each named part of the reward: an interface that does not show it counts as 0, and one that shows none at all
    adds its whole reward as the part ``"reward"``. `RewardParts` on top therefore sees parts that add up to the reward
    wherever they do so below.

    Args:
        interfaces: One per part.
        widths: Raw action labels (or Box dimensions) of each part; None if all parts have equally many.

    Raises:
        ContractError: None is given, or the same object twice.
    """
    if not interfaces:
        raise ContractError("combine needs at least one interface")
    require_distinct(interfaces)
    return _Combined(interfaces, widths)


@define
class _Combined:
    interfaces: tuple[Interface, ...]
    widths: Sequence[int] | None
    _raw: tuple[_Part, ...] = field(init=False, default=())
    _seen: tuple[_Part, ...] = field(init=False, default=())

    def bind(self, raw: Spaces) -> Spaces:
        parts = split_spaces(raw, len(self.interfaces), widths=self.widths)
        seen = [interface.bind(part) for interface, part in zip(self.interfaces, parts, strict=True)]
        joint = join_spaces(seen)
        self._raw, self._seen = _parts(parts), _parts(seen)
        return joint

    def reset(self, seat_ids: np.ndarray) -> None:
        for interface in self.interfaces:
            interface.reset(seat_ids)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        views = _split_view(view, self._raw)
        seen = [interface.observe(part, seat_ids) for interface, part in zip(self.interfaces, views, strict=True)]
        return _join_views(seen, self._seen)

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        raw = [i.act(action[:, part.labels], seat_ids) for i, part in zip(self.interfaces, self._seen, strict=True)]
        return np.concatenate(raw, axis=1)

    def set_progress(self, progress: float) -> None:
        for interface in self.interfaces:
            if isinstance(interface, ScheduledInterface):
                interface.set_progress(progress)


# -- agents as one -------------------------------------------------------------------------------------------------


def team(
    agents: Sequence[Agent],
    interface: Interface | None = None,
    *,
    raw: Spaces,
    widths: Sequence[int] | None = None,
) -> Agent:
    """Return one agent for a joint seat out of one agent per part [Arena §2.4.3].

    Args:
        agents: Agent k decides for part k of what the interface shows. The same agent may stand twice if it has
            no memory.
        interface: On top of the joint seat, for example to share information inside the team.
        raw: The spaces of the joint seat.
        widths: Action labels (or Box dimensions) of each agent; None if all have equally many.

    Raises:
        ContractError: The spaces do not divide into one part per agent.
    """
    through = stack() if interface is None else interface
    parts = split_spaces(through.bind(raw), len(agents), widths=widths)
    return _Team(tuple(agents), through, _parts(parts))


@frozen
class _Team:
    agents: tuple[Agent, ...]
    interface: Interface
    parts: tuple[_Part, ...]

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        view = SeatView(observation=observation, action_mask=action_mask, reward=np.zeros(seat_ids.size, np.float32))
        views = _split_view(self.interface.observe(view, seat_ids), self.parts)
        chosen = [
            agent.act(part.observation, action_mask=part.action_mask, seat_ids=seat_ids, rng=rng)
            for agent, part in zip(self.agents, views, strict=True)
        ]
        return self.interface.act(np.concatenate(chosen, axis=1), seat_ids)

    def reset(self, seat_ids: np.ndarray) -> None:
        self.interface.reset(seat_ids)
        for agent in self.agents:
            agent.reset(seat_ids)


# -- seats as one --------------------------------------------------------------------------------------------------


def as_team(environment: Environment, role: str, *, reward: Literal["sum", "shared"] = "sum") -> Environment:
    """Return the game with all seats that one team has in a role joined into one seat.

    * The joint seat acts when any of its seats acts. A seat that does not act has only choice 0 of each of its labels
      legal in the joint mask, so it adds nothing to log-probabilities or entropy; what is chosen for it is ignored.
    * Privileged observations are joined like observations.
    * The result is `Playable` where the game is; the parts of an action are separated by commas.

    Args:
        environment: The game; the result is its only user from now on.
        role: Whose seats are joined. Every team in this role must have equally many.
        reward: What the joint seat receives: ``"sum"`` of its seats' rewards, or their mean as the ``"shared"``
            reward, for games that already pay every seat of a team the same.

    Raises:
        KeyError: (when first used) there is no such role.
        ContractError: (when first used) the teams have different numbers of seats in this role.
    """
    kind = _PlayableTeams if isinstance(environment, Playable) else _Teams
    return kind(environment, role, reward)


@define
class _Teams(Wrapper):
    role: str
    reward: Literal["sum", "shared"]
    _seats: np.ndarray = field(init=False)  # [G, K] seat numbers of each joint seat
    _raw: Role = field(init=False)

    def _bind(self, raw: EnvironmentSpec) -> EnvironmentSpec:
        self._raw = raw.role(self.role)
        teams = tuple(dict.fromkeys(self._raw.teams))
        groups = [[seat for seat, team in enumerate(self._raw.teams) if team == wanted] for wanted in teams]
        if len({len(group) for group in groups}) > 1:
            raise ContractError(
                f"{raw.name}: the teams have {', '.join(str(len(g)) for g in groups)} seats of role {self.role!r}; "
                f"only teams of one size can be joined"
            )
        self._seats = np.array(groups)
        roles = tuple(self._joint_role(teams) if role is self._raw else role for role in raw.roles)
        summed = self.reward == "sum"
        bounds = raw.reward_range
        if bounds is not None and summed:
            size = len(groups[0])
            bounds = (min(bounds[0], size * bounds[0]), max(bounds[1], size * bounds[1]))
        return attrs.evolve(raw, roles=roles, zero_sum=raw.zero_sum and summed, reward_range=bounds)

    def _joint_role(self, teams: tuple[int, ...]) -> Role:
        raw, size = self._raw, self._seats.shape[1]
        joint = join_spaces([Spaces(raw.observation_space, raw.action_space)] * size)
        privileged = leaf_spaces(raw.privileged_space)
        leaves = {f"{k}.{name}": leaf for k in range(size) for name, leaf in privileged.items()}
        return attrs.evolve(
            raw,
            observation_space=joint.observation,
            action_space=joint.action,
            teams=teams,
            privileged_space=spaces.Dict(leaves) if leaves else None,
            labels_used=None,  # which labels of one seat count does not depend on the joint action's first label
        )

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        return self._show(self.environment.step({**actions, self.role: self._to_raw(actions[self.role])}))

    def _to_raw(self, joint: np.ndarray) -> np.ndarray:
        """Return ``[B, S, L]`` from joint actions ``[B, G, K * L]``."""
        matches, width = joint.shape[0], action_width(self._raw.action_space)
        raw = np.empty((matches, self._raw.num_seats, width), joint.dtype)
        raw[:, self._seats] = joint.reshape(matches, *self._seats.shape, width)
        return raw

    def _show(self, tick: Tick) -> Tick:
        roles = {name: self._join(role) if name == self.role else role for name, role in tick.roles.items()}
        return Tick(roles=roles, terminated=tick.terminated, truncated=tick.truncated, outcome=tick.outcome)

    def _join(self, tick: RoleTick) -> RoleTick:
        return RoleTick(
            observation=self._join_leaves(tick.observation),
            acting=np.asarray(tick.acting[:, self._seats].any(axis=-1)),
            action_mask=self._join_masks(tick),
            reward=self._join_rewards(tick.reward),
            reward_parts={name: self._join_rewards(part) for name, part in tick.reward_parts.items()},
            privileged=self._join_leaves(tick.privileged),
        )

    def _join_leaves(self, leaves: Leaves) -> Leaves:
        size = self._seats.shape[1]
        return {f"{k}.{name}": leaf[:, self._seats[:, k]] for name, leaf in leaves.items() for k in range(size)}

    def _join_rewards(self, reward: np.ndarray) -> np.ndarray:
        parts = reward[:, self._seats]  # [B, G, K]
        return np.asarray(parts.sum(axis=-1) if self.reward == "sum" else parts.mean(axis=-1), np.float32)

    def _join_masks(self, tick: RoleTick) -> np.ndarray | None:
        sizes = label_sizes(self._raw.action_space)
        if not sizes:
            return None
        only_first = np.concatenate([np.arange(n) == 0 for n in sizes])  # [A]
        legal = np.ones_like(only_first) if tick.action_mask is None else tick.action_mask
        alive = tick.acting | ~tick.acting.any(axis=1, keepdims=True)  # nobody acts where a match was truncated
        mask = np.where(alive[..., None], legal, only_first)  # [B, S, A]
        joint: np.ndarray = mask[:, self._seats]  # [B, G, K, A]
        return joint.reshape(*joint.shape[:2], -1)


class _PlayableTeams(_Teams):
    def render(self, match: int) -> str:
        return self._game.render(match)

    def action_name(self, role: str, action: np.ndarray) -> str:
        if role != self.role:
            return self._game.action_name(role, action)
        parts = action.reshape(self._size(), -1)
        return ", ".join(self._game.action_name(role, part) for part in parts)

    def parse_action(self, role: str, text: str) -> np.ndarray:
        if role != self.role:
            return self._game.parse_action(role, text)
        words, size = text.split(","), self._size()
        if len(words) % size:
            raise ValueError(f"expected {size} actions separated by commas, got {len(words)}")
        each = len(words) // size  # more than one where the game's own actions have commas, as those of teams do
        parts = [",".join(words[start : start + each]).strip() for start in range(0, len(words), each)]
        return np.concatenate([self._game.parse_action(role, part) for part in parts])

    def _size(self) -> int:
        assert self.spec is not None  # binds
        return int(self._seats.shape[1])
