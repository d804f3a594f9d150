"""Agents of a PettingZoo environment as roles, seats and teams."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from attrs import frozen
from gymnasium import Space, spaces
from ludus.environment import Role
from ludus.errors import ConfigError
from ludus_copies import plain_action_space, plain_observation_space

_MASK = "action_mask"


@frozen
class AgentSpaces:
    """The PettingZoo spaces of one agent."""

    observation: Space[Any]
    action: Space[Any]

    @property
    def has_mask(self) -> bool:
        """Return whether observations carry an action mask."""
        return isinstance(self.observation, spaces.Dict) and _MASK in self.observation.spaces

    @property
    def is_nested(self) -> bool:
        """Return whether the observation is under the key ``"observation"``, as beside a mask."""
        return isinstance(self.observation, spaces.Dict) and set(self.observation.spaces) - {_MASK} == {"observation"}

    @property
    def unwrapped(self) -> Space[Any]:
        """Return the observation space without mask and nesting."""
        if not isinstance(self.observation, spaces.Dict):
            return self.observation
        if self.is_nested:
            return self.observation["observation"]
        return spaces.Dict({key: part for key, part in self.observation.spaces.items() if key != _MASK})


@frozen
class AgentSeat:
    """The seat of one agent."""

    agent: Hashable
    role: str
    index: int  # within the role
    team: int
    spaces: AgentSpaces


@frozen
class Seating:
    """The roles of an environment and the seats of its agents."""

    roles: tuple[Role, ...]
    agent_seats: tuple[AgentSeat, ...]


def assign_seats(agents: Mapping[Hashable, AgentSpaces], *, teams: Mapping[str, Sequence[str]]) -> Seating:
    """Assign a seat to every agent; agents with equal spaces share a role.

    Args:
        agents: Spaces by agent, in the environment's order.
        teams: Patterns of agent names per team; empty makes every agent its own team.

    Raises:
        ConfigError: An agent is in no team or in several.
    """
    groups = _group_by_spaces(agents)
    order = [agent for group in groups for agent in group]
    team_of = _assign_teams(order, teams) if teams else {agent: i for i, agent in enumerate(order)}
    roles, agent_seats = [], []
    for name, group in zip(_role_names(groups), groups, strict=True):
        its_spaces = agents[group[0]]
        role = Role(
            name=name,
            observation_space=plain_observation_space(its_spaces.unwrapped),
            action_space=plain_action_space(its_spaces.action),
            teams=tuple(team_of[agent] for agent in group),
            seat_endings=True,
        )
        roles.append(role)
        agent_seats += [AgentSeat(agent, name, i, team_of[agent], agents[agent]) for i, agent in enumerate(group)]
    return Seating(tuple(roles), tuple(agent_seats))


def _group_by_spaces(agents: Mapping[Hashable, AgentSpaces]) -> list[list[Hashable]]:
    """Return groups of agents with equal spaces, in the order of their first agents."""
    groups: list[list[Hashable]] = []
    for agent, its_spaces in agents.items():
        group = next((group for group in groups if agents[group[0]] == its_spaces), None)
        if group is None:
            groups.append([agent])
        else:
            group.append(agent)
    return groups


def _assign_teams(agents: Sequence[Hashable], teams: Mapping[str, Sequence[str]]) -> dict[Hashable, int]:
    problems, team_of = [], {}
    for agent in agents:
        name = str(agent)
        fits = [i for i, patterns in enumerate(teams.values()) if any(fnmatch.fnmatchcase(name, p) for p in patterns)]
        if len(fits) == 1:
            team_of[agent] = fits[0]
        else:
            problems.append(f"teams: expected agent {agent!r} in one team, found it in {len(fits)}")
    problems += [
        f"teams: no agent is in team {name!r}; the agents are {', '.join(map(str, agents))}"
        for i, name in enumerate(teams)
        if i not in team_of.values() and not problems
    ]
    if problems:
        raise ConfigError(*problems)
    return team_of


def _role_names(groups: Sequence[Sequence[Hashable]]) -> list[str]:
    """Return ``player`` for a single role, else the prefixes of the agents' names, or the names of the first agents.

    If such names are equal after invalid characters are replaced, the roles are numbered instead.
    """
    if len(groups) == 1:
        return ["player"]
    firsts = [str(group[0]) for group in groups]
    names = [_valid_name(re.sub(r"[_-]?\d+$", "", first)) for first in firsts]
    names = [name if names.count(name) == 1 else _valid_name(first) for name, first in zip(names, firsts, strict=True)]
    return names if len(set(names)) == len(names) else [f"role_{number}" for number in range(len(names))]


def _valid_name(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]", "-", text.lower()).lstrip("._-")[:64] or "player"
