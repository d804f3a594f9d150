"""One match of a PettingZoo environment, played through its AEC or its Parallel interface."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from ludus.environment import EnvironmentSpec, Scenario
from ludus.errors import ContractError
from ludus_copies import MatchArrays, fold_seed
from pettingzoo import AECEnv, ParallelEnv

from ludus_pettingzoo.environment import make_pettingzoo, remove_checks
from ludus_pettingzoo.match import MatchState
from ludus_pettingzoo.seating import AgentSpaces, Seating, assign_seats


def make_game(
    *,
    id: str,
    options: Mapping[str, Any],
    api: str,
    unwrap: bool,
    max_ticks: int,
    teams: Mapping[str, Sequence[str]],
    outcome: str,
    dead_agents: str,
) -> AecGame | ParallelGame:
    """Make a scalar game of one PettingZoo environment; arguments as in `PettingZooConfig`.

    Raises:
        ConfigError: The environment cannot be imported or made, or the teams do not fit its agents.
        ContractError: The environment has no `possible_agents`.
    """
    env = make_pettingzoo(id, options, api=api)
    if unwrap:
        env = remove_checks(env)
    possible = getattr(env, "possible_agents", None)
    if not possible:
        raise ContractError(f"PettingZoo environment {id!r} has no possible_agents, which define the seats")
    agents = {a: AgentSpaces(env.observation_space(a), env.action_space(a)) for a in possible}
    seating = assign_seats(agents, teams=teams)
    game = ParallelGame if isinstance(env, ParallelEnv) else AecGame
    return game(env, seating, max_ticks=max_ticks, outcome=outcome, dead_agents=dead_agents)


def _masks_in_infos(infos: Mapping[Hashable, Mapping[str, Any]]) -> bool:
    return any("action_mask" in info for info in infos.values())


def _is_truncated(
    agents: Iterable[Hashable], terminations: Mapping[Hashable, bool], truncations: Mapping[Hashable, bool]
) -> bool:
    """Return whether any of the agents was truncated only."""
    return any(truncations.get(agent, False) and not terminations.get(agent, False) for agent in agents)


class AecGame:
    """One match through the AEC interface: one agent acts per tick.

    Args:
        env: The environment.
        seating: Roles and seats of its agents.
        **rules: Further arguments of `MatchState`.
    """

    def __init__(self, env: AECEnv[Any, Any, Any], seating: Seating, **rules: Any) -> None:
        env.reset(seed=0)
        self._env = env
        self._match = MatchState(seating, masks_in_infos=_masks_in_infos(env.infos), **rules)

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the spec of the environment."""
        return self._match.make_spec("turn-based")

    @property
    def masked_roles(self) -> frozenset[str]:
        """Return the roles that have action masks."""
        return self._match.masked_roles

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        self._match.bind(arrays)

    def reset(self, seed: int, scenario: Scenario) -> None:  # noqa: ARG002  there is only the default
        """Start a match."""
        env, match = self._env, self._match
        env.reset(seed=fold_seed(seed))
        match.start()
        self._select()

    def step(self) -> None:
        """Apply the action of the selected agent."""
        env, match = self._env, self._match
        env.step(match.seats[env.agent_selection].read_action())
        match.add_rewards(env.rewards)
        terminations, truncations = env.terminations, env.truncations
        if any(terminations.values()) or any(truncations.values()):
            ended = match.end_agents(terminations, truncations)
            if self._end_if_over():
                return
            self._observe(agent for agent in ended if not match.ended[agent])  # truncated: bootstraps
            self._remove_dead_agents()
        self._select()
        if match.reached_max_ticks():
            self._observe(env.agents)
            match.end(truncated=True)

    def _end_if_over(self) -> bool:
        """End the match if it has ended for all agents, and return whether it has."""
        terminations, truncations, agents = self._env.terminations, self._env.truncations, self._env.agents
        if not all(terminations[agent] or truncations[agent] for agent in agents):
            return False
        self._observe(agents)
        self._match.end(truncated=_is_truncated(agents, terminations, truncations))
        return True

    def _remove_dead_agents(self) -> None:
        """Step dead agents with None, which removes them."""
        env = self._env
        agent = env.agent_selection
        while env.terminations[agent] or env.truncations[agent]:
            env.step(None)
            agent = env.agent_selection

    def _select(self) -> None:
        """Write the observation of the selected agent and mark its seat as acting."""
        env = self._env
        agent = env.agent_selection
        seat = self._match.seats[agent]
        seat.observe(env.observe(agent), env.infos[agent])
        seat.act()

    def _observe(self, agents: Iterable[Hashable]) -> None:
        for agent in agents:
            self._match.seats[agent].observe(self._env.observe(agent), self._env.infos[agent])

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class ParallelGame:
    """One match through the Parallel interface: all living agents act on every tick.

    Args:
        env: The environment.
        seating: Roles and seats of its agents.
        **rules: Further arguments of `MatchState`.
    """

    def __init__(self, env: ParallelEnv[Any, Any, Any], seating: Seating, **rules: Any) -> None:
        _, infos = env.reset(seed=0)
        self._env = env
        self._living: list[Hashable] = []
        self._match = MatchState(seating, masks_in_infos=_masks_in_infos(infos), **rules)

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the spec of the environment."""
        return self._match.make_spec("simultaneous")

    @property
    def masked_roles(self) -> frozenset[str]:
        """Return the roles that have action masks."""
        return self._match.masked_roles

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        self._match.bind(arrays)

    def reset(self, seed: int, scenario: Scenario) -> None:  # noqa: ARG002  there is only the default
        """Start a match."""
        observations, infos = self._env.reset(seed=fold_seed(seed))
        self._match.start()
        self._observe(observations, infos)
        self._living = list(self._env.agents)
        self._mark_acting(observations)

    def step(self) -> None:
        """Apply the actions of all living agents."""
        env, match = self._env, self._match
        actions = {agent: match.seats[agent].read_action() for agent in self._living}
        observations, rewards, terminations, truncations, infos = env.step(actions)
        match.add_rewards(rewards)
        self._observe(observations, infos)
        match.end_agents(terminations, truncations)
        played = self._living
        self._living = [agent for agent in env.agents if agent not in match.ended]  # some environments keep dead agents
        if not self._living:
            match.end(truncated=_is_truncated(played, terminations, truncations))
            return
        self._mark_acting(observations)
        if match.reached_max_ticks():
            match.end(truncated=True)

    def _mark_acting(self, observations: Mapping[Hashable, Any]) -> None:
        for agent in self._living:
            if agent not in observations:  # the arrays still hold an earlier one
                raise ContractError(
                    f"agent {agent!r} must act but got no observation; expected one for every agent in env.agents"
                )
            self._match.seats[agent].act()

    def _observe(self, observations: Mapping[Hashable, Any], infos: Mapping[Hashable, Any]) -> None:
        for agent, observation in observations.items():
            self._match.seats[agent].observe(observation, infos.get(agent, {}))

    def close(self) -> None:
        """Close the environment."""
        self._env.close()
