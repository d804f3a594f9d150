"""The seats of a team as one joint seat, and an agent that plays one [Arena §2.4.3]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs
import numpy as np
from attrs import define, field, frozen
from gymnasium import spaces
from ludus.agent import Agent, elapse
from ludus.controls import Controls
from ludus.environment import Environment, EnvironmentSpec, Leaves, Playable, Role, RoleTick, Tick
from ludus.errors import ContractError
from ludus.interface import Interface, SeatView, Spaces, stack
from ludus.spaces import action_width, label_sizes, leaf_spaces

from ludus_interfaces.environment import Wrapper
from ludus_interfaces.joint_seats import JointPart, join_spaces, joint_parts, split_spaces, split_view


def team_agent(
    agents: Sequence[Agent], interface: Interface | None = None, *, raw: Spaces, widths: Sequence[int] | None = None
) -> Agent:
    """Return an agent for a joint seat that uses one agent per part [Arena §2.4.3].

    Args:
        agents: Agents of the parts. An agent may occur twice if it is stateless.
        interface: Interface on the joint seat, for example to share information within the team.
        raw: Spaces of the joint seat.
        widths: Number of action labels (or Box dimensions) of each agent; None if they are equal.

    Raises:
        ContractError: The spaces do not divide into one part per agent.
    """
    interface = stack() if interface is None else interface
    parts = split_spaces(interface.bind(raw), len(agents), widths=widths)
    return _TeamAgent(tuple(agents), interface, joint_parts(parts))


@frozen
class _TeamAgent:
    agents: tuple[Agent, ...]
    interface: Interface
    parts: tuple[JointPart, ...]

    def act(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        view = SeatView(observation=observation, action_mask=action_mask, reward=np.zeros(seat_ids.size, np.float32))
        views = split_view(self.interface.observe(view, seat_ids), self.parts)
        actions = [
            agent.act(part.observation, action_mask=part.action_mask, seat_ids=seat_ids, rng=rng)
            for agent, part in zip(self.agents, views, strict=True)
        ]
        return self.interface.act(np.concatenate(actions, axis=1), seat_ids)

    def elapse(self, ticks: np.ndarray, seat_ids: np.ndarray) -> None:
        for decider in (self.interface, *self.agents):
            elapse(decider, ticks, seat_ids)

    def reset(self, seat_ids: np.ndarray) -> None:
        self.interface.reset(seat_ids)
        for agent in self.agents:
            agent.reset(seat_ids)


def as_team(environment: Environment, role: str, *, reward: Literal["sum", "shared"] = "sum") -> Environment:
    """Return an environment in which the seats of a team in a role are one joint seat.

    * The joint seat acts when any of its seats acts. A seat that does not act has choice 0 of each label as its only
      legal choice in the joint mask, so it adds nothing to log-probabilities and entropy; its action is ignored.
    * The joint seat ends with the last of its seats: truncated if one of those that end on this tick is truncated, else
      terminated. Until then it gets the rewards of all of its seats, also of those that have ended.
    * Privileged observations are joined like observations; a statistic is the mean over the seats.
    * The result is `Playable` if the environment is. The parts of a typed action are separated by commas.

    Args:
        environment: Environment; the result owns it.
        role: Role whose seats are joined. All teams must have the same number of seats in it.
        reward: ``"sum"``: the joint reward is the sum over its seats. ``"shared"``: it is their mean, for environments
            that give all seats of a team the same reward.

    Raises:
        ContractError: On first use: there is no such role, or its teams have different numbers of seats.
    """
    kind = _PlayableTeamEnvironment if isinstance(environment, Playable) else _TeamEnvironment
    return kind(environment, role, reward)


@define
class _TeamEnvironment(Wrapper):
    role: str
    reward: Literal["sum", "shared"]
    _seats: np.ndarray = field(init=False)  # [G, K] seats of each joint seat
    _raw: Role = field(init=False)
    _ended: np.ndarray = field(init=False)  # [B, S] bool: seats that ended before their running match

    def _bind(self, raw: EnvironmentSpec) -> EnvironmentSpec:
        if self.role not in {role.name for role in raw.roles}:
            names = ", ".join(role.name for role in raw.roles)
            raise ContractError(f"{raw.name} has no role {self.role!r} whose seats could be joined; it has {names}")
        self._raw = raw.role(self.role)
        teams = tuple(dict.fromkeys(self._raw.teams))
        groups = [np.flatnonzero(np.array(self._raw.teams) == team) for team in teams]
        if len({len(group) for group in groups}) > 1:
            raise ContractError(
                f"{raw.name}: the teams have {', '.join(str(len(g)) for g in groups)} seats of role {self.role!r}; "
                f"expected equal numbers"
            )
        self._seats = np.array(groups)
        self._ended = np.zeros((self.num_matches, self._raw.num_seats), bool)
        roles = tuple(self._joint_role(teams) if role is self._raw else role for role in raw.roles)
        zero_sum = raw.zero_sum and self.reward == "sum"
        return attrs.evolve(raw, roles=roles, zero_sum=zero_sum, reward_range=self._reward_range(raw))

    def _reward_range(self, raw: EnvironmentSpec) -> tuple[float, float] | None:
        if raw.reward_range is None or self.reward == "shared":
            return raw.reward_range
        (low, high), size = raw.reward_range, self._seats.shape[1]
        return min(low, size * low), max(high, size * high)

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
            labels_used=None,  # the first label of a joint action describes one seat only
        )

    def _start_matches(self, tick: Tick, indices: np.ndarray) -> None:  # noqa: ARG002 - nothing of a tick is kept
        self._ended[indices] = False

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        return self._transform(self.environment.step({**actions, self.role: self._to_raw(actions[self.role])}))

    def _to_raw(self, joint: np.ndarray) -> np.ndarray:
        """Return ``[B, S, L]`` from joint actions ``[B, G, K * L]``."""
        matches, width = joint.shape[0], action_width(self._raw.action_space)
        raw = np.empty((matches, self._raw.num_seats, width), joint.dtype)
        raw[:, self._seats] = joint.reshape(matches, *self._seats.shape, width)
        return raw

    def _transform(self, tick: Tick) -> Tick:
        roles = {name: self._join(role) if name == self.role else role for name, role in tick.roles.items()}
        return attrs.evolve(tick, roles=roles)

    def _join(self, tick: RoleTick) -> RoleTick:
        terminated, truncated = self._join_endings(tick)
        return RoleTick(
            observation=self._join_leaves(tick.observation),
            acting=np.asarray(tick.acting[:, self._seats].any(axis=-1)),
            action_mask=self._join_masks(tick),
            reward=self._join_rewards(tick.reward),
            reward_parts={name: self._join_rewards(part) for name, part in tick.reward_parts.items()},
            privileged=self._join_leaves(tick.privileged),
            terminated=terminated,
            truncated=truncated,
            statistics={name: np.asarray(v[:, self._seats].mean(axis=-1)) for name, v in tick.statistics.items()},
            dropped=None if tick.dropped is None else np.asarray(tick.dropped[:, self._seats].any(axis=-1)),
        )

    def _join_endings(self, tick: RoleTick) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return ``[B, G] bool`` each: joint seats whose last seats are terminated or truncated on this tick."""
        if tick.terminated is None or tick.truncated is None:
            return None, None
        flagged = tick.terminated | tick.truncated
        self._ended |= flagged
        ends = flagged[:, self._seats].any(axis=-1) & self._ended[:, self._seats].all(axis=-1)
        truncated = tick.truncated[:, self._seats].any(axis=-1)
        return ends & ~truncated, ends & truncated

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
        keeps_mask = tick.acting | ~tick.acting.any(axis=1, keepdims=True)  # no seat acts on a final observation
        if tick.truncated is not None:
            keeps_mask |= tick.truncated
        mask = np.where(keeps_mask[..., None], legal, only_first)  # [B, S, A]
        joint: np.ndarray = mask[:, self._seats]  # [B, G, K, A]
        return joint.reshape(*joint.shape[:2], -1)


class _PlayableTeamEnvironment(_TeamEnvironment):
    def render(self, match: int) -> str:
        return self._playable.render(match)

    def controls(self, role: str, seat: int) -> Controls | None:
        return None if role == self.role else super().controls(role, seat)  # keys name the actions of one seat

    def action_name(self, role: str, action: np.ndarray) -> str:
        if role != self.role:
            return self._playable.action_name(role, action)
        parts = action.reshape(self._size(), -1)
        return ", ".join(self._playable.action_name(role, part) for part in parts)

    def parse_action(self, role: str, text: str) -> np.ndarray:
        if role != self.role:
            return self._playable.parse_action(role, text)
        words, size = text.split(","), self._size()
        if len(words) % size:
            raise ValueError(f"expected {size} actions separated by commas, got {len(words)}")
        each = len(words) // size  # more than one if single actions contain commas, such as those of joint seats
        parts = [",".join(words[start : start + each]).strip() for start in range(0, len(words), each)]
        return np.concatenate([self._playable.parse_action(role, part) for part in parts])

    def _size(self) -> int:
        assert self.spec is not None  # calls `_bind`
        return int(self._seats.shape[1])
