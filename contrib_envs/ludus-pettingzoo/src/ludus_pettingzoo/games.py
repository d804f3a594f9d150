"""One match of a PettingZoo environment, played through its AEC or its Parallel interface."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from ludus.environment import EnvironmentSpec, Scenario
from ludus.errors import ContractError
from ludus_copies import Row, fold_seed
from pettingzoo import AECEnv, ParallelEnv

from ludus_pettingzoo.making import make_pettingzoo, without_checks
from ludus_pettingzoo.match import MatchRow
from ludus_pettingzoo.seating import AgentSpaces, Seating, seat_agents

__all__ = ["AecGame", "ParallelGame", "make_game"]


def make_game(
    *,
    id: str,
    options: Mapping[str, Any],
    api: str,
    unwrap: bool,
    max_ticks: int,
    teams: Mapping[str, Sequence[str]],
    outcome: str,
) -> AecGame | ParallelGame:
    """Make one PettingZoo environment as a scalar game; arguments as in `PettingZooConfig`.

    Raises:
        ConfigError: The environment cannot be imported or made, or the teams do not fit its agents.
        ContractError: It does not say which agents it may have.
    """
    env = make_pettingzoo(id, options, api=api)
    if unwrap:
        env = without_checks(env)
    possible = getattr(env, "possible_agents", None)
    if not possible:
        raise ContractError(f"PettingZoo environment {id!r} has no possible_agents; seats must be known beforehand")
    agents = {a: AgentSpaces(env.observation_space(a), env.action_space(a)) for a in possible}
    seating = seat_agents(agents, teams=teams)
    game = ParallelGame if isinstance(env, ParallelEnv) else AecGame
    return game(env, seating, max_ticks=max_ticks, outcome=outcome)


def _masks_in_infos(infos: Mapping[Hashable, Mapping[str, Any]]) -> bool:
    return any("action_mask" in info for info in infos.values())


class AecGame:
    """One match through the AEC interface: one agent acts per tick.

    Args:
        env: The environment.
        seating: Its agents.
        max_ticks: Truncate after so many ticks; 0 never.
        outcome: Who wins, see `PettingZooConfig`.
    """

    def __init__(self, env: AECEnv[Any, Any, Any], seating: Seating, *, max_ticks: int, outcome: str) -> None:
        env.reset(seed=0)
        self._env = env
        self._match = MatchRow(seating, masks_in_infos=_masks_in_infos(env.infos), max_ticks=max_ticks, outcome=outcome)

    @property
    def spec(self) -> EnvironmentSpec:
        """Return what is known before a match starts."""
        return self._match.make_spec("turn-based")

    @property
    def masked_roles(self) -> frozenset[str]:
        """Return the roles that have action masks."""
        return self._match.masked_roles

    def bind(self, row: Row) -> None:
        """Keep the arrays of the match."""
        self._match.bind(row)

    def reset(self, seed: int, scenario: Scenario) -> None:  # noqa: ARG002  there is only the default
        """Start a match."""
        env, match = self._env, self._match
        env.reset(seed=fold_seed(seed))
        match.start()
        self._select()

    def step(self) -> None:
        """Let the selected agent act."""
        env, match = self._env, self._match
        env.step(match.seats[env.agent_selection].read_action())
        match.add_rewards(env.rewards)
        terminations, truncations = env.terminations, env.truncations
        if any(terminations.values()) or any(truncations.values()):
            agents = env.agents
            if all(terminations[agent] or truncations[agent] for agent in agents):
                self._observe(agents)
                match.end(truncated=any(truncations[agent] and not terminations[agent] for agent in agents))
                return
            self._dismiss_dead()
        self._select()
        if match.is_time_up():
            self._observe(env.agents)
            match.end(truncated=True)

    def _dismiss_dead(self) -> None:
        """Let dead agents take the empty step that removes them."""
        env = self._env
        agent = env.agent_selection
        while env.terminations[agent] or env.truncations[agent]:
            env.step(None)
            agent = env.agent_selection

    def _select(self) -> None:
        """Show the selected agent what it sees, and let it act."""
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
        seating: Its agents.
        max_ticks: Truncate after so many ticks; 0 never.
        outcome: Who wins, see `PettingZooConfig`.
    """

    def __init__(self, env: ParallelEnv[Any, Any, Any], seating: Seating, *, max_ticks: int, outcome: str) -> None:
        _, infos = env.reset(seed=0)
        self._env = env
        self._living: list[Hashable] = []
        self._gone: set[Hashable] = set()  # not every environment takes them out of its list of agents
        self._match = MatchRow(seating, masks_in_infos=_masks_in_infos(infos), max_ticks=max_ticks, outcome=outcome)

    @property
    def spec(self) -> EnvironmentSpec:
        """Return what is known before a match starts."""
        return self._match.make_spec("simultaneous")

    @property
    def masked_roles(self) -> frozenset[str]:
        """Return the roles that have action masks."""
        return self._match.masked_roles

    def bind(self, row: Row) -> None:
        """Keep the arrays of the match."""
        self._match.bind(row)

    def reset(self, seed: int, scenario: Scenario) -> None:  # noqa: ARG002  there is only the default
        """Start a match."""
        observations, infos = self._env.reset(seed=fold_seed(seed))
        self._match.start()
        self._observe(observations, infos)
        self._living = list(self._env.agents)
        self._gone.clear()
        self._act(observations)

    def step(self) -> None:
        """Let all living agents act."""
        env, match = self._env, self._match
        actions = {agent: match.seats[agent].read_action() for agent in self._living}
        observations, rewards, terminations, truncations, infos = env.step(actions)
        match.add_rewards(rewards)
        self._observe(observations, infos)
        played = self._living
        self._gone.update(agent for agent in terminations if terminations[agent] or truncations[agent])
        self._living = [agent for agent in env.agents if agent not in self._gone]
        if not self._living:
            match.end(truncated=any(truncations.get(a, False) and not terminations.get(a, False) for a in played))
            return
        self._act(observations)
        if match.is_time_up():
            match.end(truncated=True)

    def _act(self, observations: Mapping[Hashable, Any]) -> None:
        for agent in self._living:
            if agent not in observations:  # the row still holds an earlier one
                raise ContractError(
                    f"agent {agent!r} is to act without an observation; expected one for every agent in agents"
                )
            self._match.seats[agent].act()

    def _observe(self, observations: Mapping[Hashable, Any], infos: Mapping[Hashable, Any]) -> None:
        for agent, observation in observations.items():
            self._match.seats[agent].observe(observation, infos.get(agent, {}))

    def close(self) -> None:
        """Close the environment."""
        self._env.close()
