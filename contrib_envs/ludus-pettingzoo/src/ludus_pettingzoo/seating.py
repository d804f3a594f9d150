"""Agents of a PettingZoo environment as roles, seats and teams."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from attrs import frozen
from gymnasium import Space, spaces
from ludus.environment import Role
from ludus.errors import ConfigError, ContractError
from ludus.spaces import label_sizes, leaf_spaces
from ludus_copies import MaxEntities, observation_notes, plain_action_space, plain_observation_space
from ludus_copies_options import DEFAULT_ENTITIES


@frozen
class AgentSpaces:
    """The PettingZoo spaces of one agent.

    Args:
        observation: Space of its observations, with the mask if there is one.
        action: Space of its actions.
        mask_key: Key of the action mask.
    """

    observation: Space[Any]
    action: Space[Any]
    mask_key: str

    @property
    def has_mask(self) -> bool:
        """Return whether observations carry an action mask."""
        return isinstance(self.observation, spaces.Dict) and self.mask_key in self.observation.spaces

    @property
    def is_nested(self) -> bool:
        """Return whether the observation is under the key ``"observation"``, as beside a mask."""
        if not isinstance(self.observation, spaces.Dict):
            return False
        return set(self.observation.spaces) - {self.mask_key} == {"observation"}

    @property
    def unwrapped(self) -> Space[Any]:
        """Return the observation space without mask and nesting."""
        if not isinstance(self.observation, spaces.Dict):
            return self.observation
        if self.is_nested:
            return self.observation["observation"]
        return spaces.Dict({key: part for key, part in self.observation.spaces.items() if key != self.mask_key})


def read_spaces(env: Any, agent: Hashable, mask_key: str) -> AgentSpaces:
    """Return the spaces of an agent of a PettingZoo environment.

    Raises:
        ContractError: They are no spaces of Gymnasium, or of a kind that ludus does not support.
    """
    observation, action = env.observation_space(agent), env.action_space(agent)
    for name, space in (("observation_space", observation), ("action_space", action)):
        if not isinstance(space, Space):
            got = f"{type(space).__module__}.{type(space).__qualname__}"
            raise ContractError(f"agent {agent!r}: {name} returned {got}; expected a space of gymnasium.spaces")
    its_spaces = AgentSpaces(observation, action, mask_key)
    try:
        leaf_spaces(plain_observation_space(its_spaces.unwrapped))
        label_sizes(action)
    except ContractError as error:
        raise ContractError(f"agent {agent!r}: {error}") from error
    return its_spaces


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
    team_names: tuple[Hashable, ...]
    notes: tuple[str, ...] = ()


def assign_seats(
    agents: Mapping[Hashable, AgentSpaces],
    *,
    roles: Mapping[str, Sequence[str]],
    teams: Mapping[str, Sequence[str]],
    given_teams: Mapping[Hashable, Hashable] | None = None,
    statistics: Sequence[str] = (),
    privileged: Space[Any] | None = None,
    channels: str = "auto",
    max_entities: MaxEntities = DEFAULT_ENTITIES,
    builtin: Mapping[Hashable, Sequence[str]] = MappingProxyType({}),
) -> Seating:
    """Assign a seat to every agent.

    Args:
        agents: Spaces by agent, in the environment's order.
        roles: Patterns of agent names per role; empty: agents with equal spaces share a role.
        teams: Patterns of agent names per team; empty makes every agent its own team.
        given_teams: Team of every agent as the game gives it, instead of `teams`.
        statistics: Names of the statistics of every agent.
        privileged: Space of what only the critics of every role read; None where there is nothing.
        channels: Axis of the channels of images.
        max_entities: Number of entities of a Sequence that are observed.
        builtin: Built-in bots that can fill the seat of each agent; a role has those that all its agents have.

    Raises:
        ConfigError: An agent is in no role or team or in several, or agents of a role have other spaces.
    """
    groups = _group_by_option(agents, roles) if roles else _group_by_spaces(agents)
    order = [agent for group in groups.values() for agent in group]
    named = given_teams
    if named is None:
        named = _match_patterns(order, teams, "team") if teams else {agent: agent for agent in order}
    team_names = tuple(teams) if teams else tuple(dict.fromkeys(named[agent] for agent in order))
    team_of = {agent: team_names.index(named[agent]) for agent in order}
    made, agent_seats = [], []
    notes: list[str] = []
    for name, group in groups.items():
        its_spaces = agents[group[0]]
        role = Role(
            name=name,
            observation_space=plain_observation_space(
                its_spaces.unwrapped, channels=channels, max_entities=max_entities
            ),
            action_space=plain_action_space(its_spaces.action),
            teams=tuple(team_of[agent] for agent in group),
            privileged_space=privileged,
            seat_endings=True,
            seat_names=tuple(map(str, group)),
            statistics=tuple(statistics),
            builtin=tuple(bot for bot in builtin.get(group[0], ()) if all(bot in builtin.get(a, ()) for a in group)),
        )
        made.append(role)
        notes += observation_notes(its_spaces.unwrapped, channels=channels, max_entities=max_entities)
        agent_seats += [AgentSeat(agent, name, i, team_of[agent], agents[agent]) for i, agent in enumerate(group)]
    return Seating(tuple(made), tuple(agent_seats), team_names, tuple(dict.fromkeys(notes)))


def read_teams(
    source: str, env: Any, agents: Iterable[Hashable], infos: Mapping[Hashable, Mapping[str, Any]]
) -> dict[Hashable, Hashable]:
    """Return the team of every agent as the game gives it.

    Raises:
        ConfigError: The game does not give it.
    """
    kind, _, name = source.partition(":")
    if kind == "info":
        teams = {agent: info[name] for agent, info in infos.items() if name in info}
    else:
        method = getattr(env.unwrapped, name, None)
        if not callable(method):
            raise ConfigError(f"teams: the game has no method {name!r}")
        teams = method()
    missing = [agent for agent in agents if not isinstance(teams, Mapping) or agent not in teams]
    if missing:
        raise ConfigError(f"teams: expected the team of every agent from {source!r}, got none of {missing[0]!r}")
    return {agent: teams[agent] for agent in agents}


def _group_by_spaces(agents: Mapping[Hashable, AgentSpaces]) -> dict[str, list[Hashable]]:
    """Return groups of agents with equal spaces by the names of their roles, in the order of their first agents."""
    groups: list[list[Hashable]] = []
    for agent, its_spaces in agents.items():
        group = next((group for group in groups if agents[group[0]] == its_spaces), None)
        if group is None:
            groups.append([agent])
        else:
            group.append(agent)
    return dict(zip(_role_names(groups), groups, strict=True))


def _group_by_option(
    agents: Mapping[Hashable, AgentSpaces], roles: Mapping[str, Sequence[str]]
) -> dict[str, list[Hashable]]:
    """Return the agents of every role of the option `roles`."""
    wrong = [name for name in roles if _valid_name(name) != name]
    if wrong:
        raise ConfigError(*(f"roles: expected a name from a-z 0-9 . _ - for a role, got {name!r}" for name in wrong))
    role_of = _match_patterns(list(agents), roles, "role")
    groups: dict[str, list[Hashable]] = {name: [] for name in roles}
    for agent, role in role_of.items():
        groups[role].append(agent)
    for name, group in groups.items():
        for agent in group:
            if agents[agent] != agents[group[0]]:
                raise ConfigError(
                    f"roles: agents {group[0]!r} and {agent!r} of role {name!r} have other spaces; give each a role"
                )
    return groups


def _match_patterns(agents: Sequence[Hashable], groups: Mapping[str, Sequence[str]], noun: str) -> dict[Hashable, str]:
    """Return the group of every agent.

    Args:
        agents: The agents.
        groups: Patterns of agent names by the name of the group.
        noun: Kind of the groups; its plural is the name of the option.

    Raises:
        ConfigError: An agent is in no group or in several, or a group is empty.
    """
    found, wrong = {}, []
    for agent in agents:
        fits = [name for name, patterns in groups.items() if any(fnmatch.fnmatchcase(str(agent), p) for p in patterns)]
        if len(fits) == 1:
            found[agent] = fits[0]
        else:
            wrong.append(f"agent {agent!r} in one {noun}, found it in {len(fits)}{_in_brackets(fits)}")
    if wrong:
        others = f", and {len(wrong) - 1} other agent{'s' * (len(wrong) > 2)} likewise" if len(wrong) > 1 else ""
        raise ConfigError(f"{noun}s: expected {wrong[0]}{others}")
    problems = [
        f"{noun}s: no agent is in {noun} {name!r}; the agents are {', '.join(map(str, agents))}"
        for name in groups
        if name not in found.values()
    ]
    if problems:
        raise ConfigError(*problems)
    return found


def _in_brackets(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


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
