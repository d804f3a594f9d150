"""Transfers between many agents and their seats in one call of NumPy for all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from ludus_copies import MatchArrays
from ludus_copies.images import find_layout

from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.seating import AgentSeat

_LEAST_AGENTS = 8  # fewer are faster one by one
_NUMBERS = frozenset({float, int, np.float32, np.float64})
_MAX_FLOAT32 = float(np.finfo(np.float32).max)


def make_crowd(agent_seats: Sequence[AgentSeat], arrays: MatchArrays, config: PettingZooConfig) -> Crowd | None:
    """Return the crowd of a match; None if it has few agents, or agents that need conversions of their own."""
    if len(agent_seats) < _LEAST_AGENTS or not all(_is_plain(seat, config) for seat in agent_seats):
        return None
    return Crowd(agent_seats, arrays, mask_key=config.mask_key)


def _is_plain(agent_seat: AgentSeat, config: PettingZooConfig) -> bool:
    """Return whether a Box is observed as it is, without a mask, and the action is a Discrete from 0."""
    observation, action = agent_seat.spaces.observation, agent_seat.spaces.action
    if not isinstance(observation, spaces.Box) or not observation.shape or 0 in observation.shape:
        return False
    layout = find_layout(observation, config.channels)
    is_kept = layout is None or layout.axes == "HWC"
    return is_kept and isinstance(action, spaces.Discrete) and not action.start


class Crowd:
    """The agents of a match, numbered by role and seat.

    Methods return whether they could transfer everything. If not, the caller transfers one agent after another, which
    finds what is wrong.

    Args:
        agent_seats: All agents.
        arrays: Arrays of the match.
        mask_key: Key of action masks in infos.
    """

    def __init__(self, agent_seats: Sequence[AgentSeat], arrays: MatchArrays, *, mask_key: str) -> None:
        self._mask_key = mask_key
        self._roles: list[_Role] = []
        self._numbers: dict[Hashable, int] = {}
        teams: list[int] = []
        for name in arrays.tick.roles:
            own = sorted((seat for seat in agent_seats if seat.role == name), key=lambda seat: seat.index)
            agents = tuple(seat.agent for seat in own)
            self._roles.append(_Role(name, agents, arrays, first=len(self._numbers)))
            self._numbers.update({agent: len(self._numbers) + k for k, agent in enumerate(agents)})
            teams += [seat.team for seat in own]
        self._teams = np.array(teams)
        self._flat_reward = np.zeros(len(teams), np.float32)
        self._flat_action = np.zeros(len(teams), np.int64)
        self._flat_acting = np.zeros(len(teams), np.bool_)
        self._last_agents: list[Hashable] = []
        self._last_numbers = np.zeros(0, np.int64)

    def _find(self, agents: Iterable[Hashable]) -> np.ndarray:
        """Return the numbers ``[n] int64`` of agents, which are often those of the last call.

        Raises:
            KeyError: There is no such agent.
        """
        listed = list(agents)
        if listed != self._last_agents:
            self._last_numbers = np.array([self._numbers[agent] for agent in listed], np.int64)
            self._last_agents = listed
        return self._last_numbers

    def read_actions(self, agents: Sequence[Hashable]) -> dict[Hashable, int]:
        """Return the actions of agents."""
        for role in self._roles:
            self._flat_action[role.numbers] = role.actions
        return dict(zip(agents, self._flat_action[self._find(agents)].tolist(), strict=True))

    def act(self, agents: Sequence[Hashable]) -> None:
        """Mark the seats of agents as acting."""
        self._flat_acting[:] = False
        self._flat_acting[self._find(agents)] = True
        for role in self._roles:
            role.acting[:] = self._flat_acting[role.numbers]

    def observe(self, observations: Mapping[Hashable, Any], infos: Mapping[Hashable, Any]) -> bool:
        """Write observations of known agents without masks."""
        if any(infos.values()) and any(self._mask_key in info for info in infos.values() if info):
            return False
        found = 0
        for role in self._roles:
            written = role.observe(observations)
            if written is None:
                return False
            found += written
        return found == len(observations)

    def add_rewards(self, rewards: Mapping[Hashable, Any], totals: Sequence[list[float]]) -> bool:
        """Write rewards that are plain, finite numbers, and add them to lists of totals by team."""
        if not rewards or not _NUMBERS.issuperset(map(type, rewards.values())):
            return False
        try:
            numbers = self._find(rewards)
        except KeyError:
            return False
        values = np.fromiter(rewards.values(), np.float64, len(rewards))
        if not np.abs(values).max() <= _MAX_FLOAT32:
            return False
        self._flat_reward[:] = 0
        self._flat_reward[numbers] = values
        for role in self._roles:
            role.reward[:] = self._flat_reward[role.numbers]
        for team, total in enumerate(np.bincount(self._teams[numbers], values).tolist()):
            for sums in totals:
                sums[team] += total
        return True


class _Role:
    """The seats of one role.

    Args:
        name: Name of the role.
        agents: Its agents in the order of their seats.
        arrays: Arrays of the match.
        first: Number of the first agent.
    """

    def __init__(self, name: str, agents: tuple[Hashable, ...], arrays: MatchArrays, *, first: int) -> None:
        tick = arrays.tick.roles[name]
        (self._leaf,) = tick.observation.values()
        self.actions = arrays.actions[name][:, 0]
        self.acting, self.reward = tick.acting, tick.reward
        self.numbers = slice(first, first + len(agents))
        self._agents = agents
        self._rows = self._leaf.reshape(-1, *self._leaf.shape[2:])  # [S * first axis, …]
        self._length = self._leaf.shape[1]

    def observe(self, observations: Mapping[Hashable, Any]) -> int | None:
        """Write the observations of these agents and return their number; None if one differs from its space."""
        given = list(map(observations.get, self._agents))
        if len(observations) == len(given):
            return len(given) if self._join(given, self._rows) else None
        seats = [seat for seat, observation in enumerate(given) if observation is not None]
        if seats:
            part = np.empty((len(seats) * self._length, *self._leaf.shape[2:]), self._leaf.dtype)
            if not self._join([given[seat] for seat in seats], part):
                return None
            self._leaf[seats] = part.reshape(len(seats), *self._leaf.shape[1:])
        return len(seats)

    def _join(self, observations: Sequence[Any], out: np.ndarray) -> bool:
        """Write observations one after another, and return whether all have the shape and dtype of the space."""
        try:
            if set(map(len, observations)) != {self._length}:
                return False
            np.concatenate(observations, out=out, casting="no")
        except (TypeError, ValueError):
            return False
        return True
