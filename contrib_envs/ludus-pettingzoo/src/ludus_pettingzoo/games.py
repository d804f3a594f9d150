"""One match of a PettingZoo environment, played through its AEC or its Parallel interface."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from ludus.environment import EnvironmentSpec, Scenario
from ludus.errors import ContractError, LudusError
from ludus.rendering import Frame
from ludus_copies import MatchArrays, SteppingOptions, fold_seed, read_frame, wrap
from pettingzoo import AECEnv, ParallelEnv

from ludus_pettingzoo.answers import RESET, STEP, find_problem, find_unknown_agent
from ludus_pettingzoo.bots import NO_BOTS, read_builtin, reset_options
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_pettingzoo, remove_checks
from ludus_pettingzoo.match import MatchState
from ludus_pettingzoo.outcome import make_rule
from ludus_pettingzoo.seating import assign_seats, read_spaces, read_teams
from ludus_pettingzoo.state import check_leaf_names, find_state
from ludus_pettingzoo.stepped import with_stepping


def make_game(**options: Any) -> AecGame | ParallelGame:
    """Make a scalar game of one PettingZoo environment; arguments as in `PettingZooConfig`.

    Raises:
        ConfigError: The environment cannot be imported or made, or an option does not fit its agents.
        ContractError: The environment has no `possible_agents`, or does not keep the API of PettingZoo.
    """
    config = PettingZooConfig(**options)
    env = make_pettingzoo(config.id, config.options, api=config.api)
    if config.unwrap:
        env = remove_checks(env)
    stepping = SteppingOptions.of(config)
    env = with_stepping(env, stepping, id=config.id)
    env = wrap(env, config.wrappers, id=config.id, kinds=(AECEnv, ParallelEnv))
    possible = getattr(env, "possible_agents", None)
    if not possible:
        raise ContractError(f"PettingZoo environment {config.id!r} has no possible_agents, which define the seats")
    try:
        agents = {agent: read_spaces(env, agent, config.mask_key) for agent in possible}
        infos = _reset_infos(env, possible)
        builtin = read_builtin(env, list(agents))
    except ContractError as error:
        raise ContractError(f"game {config.id!r}: {error}") from error
    given = read_teams(config.teams, env, agents, infos) if isinstance(config.teams, str) else None
    state = find_state(env, config)
    check_leaf_names(config, agents.values(), state)
    seating = assign_seats(
        agents,
        roles=config.roles,
        teams={} if isinstance(config.teams, str) else config.teams,
        given_teams=given,
        statistics=tuple(config.statistics),
        privileged=None if state is None else state.space,
        channels=config.channels,
        max_entities=config.max_entities,
        builtin=builtin,
    )
    match = MatchState(
        config,
        seating,
        make_rule(config, seating, env.unwrapped),
        state=state,
        masks_in_infos=any(config.mask_key in info for info in infos.values()),
    )
    stepping.reject_masks(match.masked_roles, game=config.id)
    return ParallelGame(config.id, env, match) if isinstance(env, ParallelEnv) else AecGame(config.id, env, match)


def _reset_infos(env: Any, agents: Iterable[Hashable]) -> Mapping[Hashable, Mapping[str, Any]]:
    """Reset a game for the first time and return the infos of its agents.

    Raises:
        ContractError: It does not keep the API of PettingZoo.
    """
    try:
        answer = env.reset(seed=0)
    except TypeError as error:
        if "seed" not in str(error):
            raise
        raise ContractError("reset takes no seed; adapt it to PettingZoo ≥ 1.24, or wrap it") from error
    if isinstance(env, ParallelEnv):
        if problem := find_problem("reset", answer, RESET, list(agents)):
            raise ContractError(problem)
        _, infos = answer
        return infos  # type: ignore[no-any-return]
    for name in ("agents", "agent_selection", "terminations", "truncations"):
        if not hasattr(env, name):
            raise ContractError(f"it has no attribute {name!r} after reset; adapt it to PettingZoo ≥ 1.24, or wrap it")
    return getattr(env, "infos", None) or {}


def _is_truncated(
    agents: Iterable[Hashable], terminations: Mapping[Hashable, bool], truncations: Mapping[Hashable, bool]
) -> bool:
    """Return whether any of the agents was truncated only."""
    return any(truncations.get(agent, False) and not terminations.get(agent, False) for agent in agents)


class AecGame:
    """One match through the AEC interface: one agent acts per tick.

    Args:
        game: Id of the environment, for error messages.
        env: The environment.
        match: State of the match.
    """

    def __init__(self, game: str, env: AECEnv[Any, Any, Any], match: MatchState) -> None:
        self._id = game
        self._env = env
        self._match = match
        self._rewards_by_last = True  # until the game has set rewards
        self._bots = NO_BOTS

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

    def reset(self, seed: int, scenario: Scenario) -> None:
        """Start a match; of the scenario only the built-in bots count."""
        self._bots = self._match.bots(scenario.builtin)
        self._env.reset(seed=fold_seed(seed), **reset_options(self._bots))
        self._match.start()
        try:
            self._select()
            self._match.write_state()
        except Exception as error:
            self._explain(error)
            raise

    def step(self) -> None:
        """Apply the action of the selected agent, None for a built-in bot."""
        env = self._env
        agent = env.agent_selection
        env.step(None if agent in self._bots else self._match.seats[agent].read_action())
        try:
            self._advance()
            self._match.write_state()
        except Exception as error:
            self._explain(error)
            raise

    def _explain(self, error: Exception) -> None:
        """Raise a `ContractError` if reading the state failed because the game names an unknown agent."""
        if isinstance(error, LudusError):
            return
        env = self._env
        named = [env.agent_selection, *env.agents, *(getattr(env, "rewards", None) or {})]
        if problem := find_unknown_agent("it names", named, self._match.seats):
            raise ContractError(f"game {self._id!r}: {problem}") from error

    def _advance(self) -> None:
        env, match = self._env, self._match
        match.add_rewards(getattr(env, "rewards", None) or {})
        if match.has_statistics:
            match.add_statistics(getattr(env, "infos", None) or {})
        if self._rewards_by_last and match.has_rewards:
            self._rewards_by_last = False
        terminations, truncations = env.terminations, env.truncations
        if not env.agents or any(terminations.values()) or any(truncations.values()):
            ended = match.end_agents(terminations, truncations)
            if self._end_if_over():
                return
            self._observe(agent for agent in ended if not match.ended[agent])  # truncated: bootstraps
            if self._remove_dead_agents():
                self._end(truncated=not all(match.ended[agent] for agent in ended))
                return
        self._select()
        if match.reached_max_ticks():
            self._observe(env.agents)
            self._end(truncated=True)

    def _end_if_over(self) -> bool:
        """End the match if it has ended for all agents, and return whether it has."""
        terminations, truncations, agents = self._env.terminations, self._env.truncations, self._env.agents
        if not all(terminations.get(agent) or truncations.get(agent) for agent in agents):
            return False
        if not agents:  # the game removed them itself
            agents = [*terminations, *truncations]
        self._observe(agent for agent in agents if agent in self._match.seats)
        truncated = _is_truncated(agents, terminations, truncations)
        if self._rewards_by_last:
            self._remove_dead_agents()
        self._end(truncated=truncated)
        return True

    def _remove_dead_agents(self) -> bool:
        """Step dead agents with None, which removes them, and return whether none is left."""
        env = self._env
        while env.agents:
            agent = env.agent_selection
            if not (env.terminations[agent] or env.truncations[agent]):
                return False
            self._take_last_reward(agent)
            env.step(None)
        return True

    def _take_last_reward(self, agent: Hashable) -> None:
        """Write the reward of the selected agent from `last`, if the game does not set `rewards`."""
        if self._rewards_by_last:
            _, reward, *_ = self._env.last()
            if reward is not None:
                self._match.add_reward(agent, reward)

    def _end(self, *, truncated: bool) -> None:
        self._match.add_infos(getattr(self._env, "infos", None) or {})
        self._match.end(truncated=truncated)

    def _select(self) -> None:
        """Write the observation of the selected agent and mark its seat as acting, unless it is a built-in bot."""
        agent = self._env.agent_selection
        seat = self._match.seats[agent]
        seat.observe(self._env.observe(agent), self._info(agent))
        if self._rewards_by_last:
            self._take_last_reward(agent)
        if agent not in self._bots:
            seat.act()

    def _observe(self, agents: Iterable[Hashable]) -> None:
        """Write the observations of agents; an agent without one keeps its last."""
        for agent in agents:
            observation = self._env.observe(agent)
            if observation is not None:
                self._match.seats[agent].observe(observation, self._info(agent))

    def _info(self, agent: Hashable) -> Mapping[str, Any]:
        return (getattr(self._env, "infos", None) or {}).get(agent) or {}

    def render_frame(self) -> Frame | None:
        """Return what the game renders as an image or as text."""
        return read_frame(self._env, game=self._id)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class ParallelGame:
    """One match through the Parallel interface: all living agents act on every tick.

    Args:
        game: Id of the environment, for error messages.
        env: The environment.
        match: State of the match.
    """

    def __init__(self, game: str, env: ParallelEnv[Any, Any, Any], match: MatchState) -> None:
        self._id = game
        self._env = env
        self._match = match
        self._living: list[Hashable] = []
        self._removed: set[Hashable] = set()  # ended agents that are not in env.agents
        self._bots = NO_BOTS

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

    def reset(self, seed: int, scenario: Scenario) -> None:
        """Start a match; of the scenario only the built-in bots count."""
        self._bots = self._match.bots(scenario.builtin)
        answer = self._env.reset(seed=fold_seed(seed), **reset_options(self._bots))
        try:
            self._start(*answer)
            self._match.write_state()
        except Exception as error:
            self._explain("reset", answer, RESET, error)
            raise

    def step(self) -> None:
        """Apply the actions of all living agents but built-in bots."""
        answer = self._env.step(self._match.read_actions(self._acting))
        try:
            self._advance(*answer)
            self._match.write_state()
        except Exception as error:
            self._explain("step", answer, STEP, error)
            raise

    def _explain(self, method: str, answer: Any, parts: tuple[str, ...], error: Exception) -> None:
        """Raise a `ContractError` if reading an answer failed because of its form."""
        if isinstance(error, LudusError):
            return
        seats = self._match.seats
        problem = find_problem(method, answer, parts, seats)
        problem = problem or find_unknown_agent("env.agents holds", self._env.agents, seats)
        if problem:
            raise ContractError(f"game {self._id!r}: {problem}") from error

    def _start(self, observations: Mapping[Hashable, Any], infos: Mapping[Hashable, Any]) -> None:
        self._match.start()
        self._removed.clear()
        self._observe(observations, infos)
        self._living = list(self._env.agents)
        if not self._living:
            raise ContractError(f"game {self._id!r}: reset left no agent in env.agents; expected at least one")
        self._mark_acting(observations)

    def _advance(
        self,
        observations: Mapping[Hashable, Any],
        rewards: Mapping[Hashable, Any],
        terminations: Mapping[Hashable, Any],
        truncations: Mapping[Hashable, Any],
        infos: Mapping[Hashable, Any],
    ) -> None:
        match = self._match
        match.add_rewards(rewards)
        self._observe(observations, infos)
        if match.has_statistics:
            match.add_statistics(infos)
        if any(terminations.values()) or any(truncations.values()):
            match.end_agents(terminations, truncations)
        played = self._living
        self._living = list(self._env.agents)
        if match.ended:
            self._living = self._without_ended(self._living)
        if not self._living:
            match.end(truncated=_is_truncated(played, terminations, truncations))
            return
        self._mark_acting(observations)
        if match.reached_max_ticks():
            match.end(truncated=True)

    def _without_ended(self, agents: list[Hashable]) -> list[Hashable]:
        """Return the agents without ended ones, which some environments keep.

        Raises:
            ContractError: An ended agent returns that the environment had removed.
        """
        if returned := self._removed.intersection(agents):
            raise ContractError(
                f"game {self._id!r}: agent {min(returned, key=str)!r} is in env.agents again after its end; expected "
                f"it to end once in a match: keep its flags False until it is gone for good"
            )
        self._removed.update(self._match.ended.keys() - set(agents))
        return [agent for agent in agents if agent not in self._match.ended]

    @property
    def _acting(self) -> list[Hashable]:
        return [agent for agent in self._living if agent not in self._bots] if self._bots else self._living

    def _mark_acting(self, observations: Mapping[Hashable, Any]) -> None:
        """Mark the seats of all living agents but built-in bots as acting.

        Raises:
            ContractError: One of them got no observation; the arrays still hold an earlier one.
        """
        acting = self._acting
        given = (
            observations if self._match.observed_all else [a for a, seen in observations.items() if seen is not None]
        )
        if not set(acting).issubset(given):
            agent = next(agent for agent in acting if agent not in given)
            if agent in self._match.seats:
                raise ContractError(
                    f"game {self._id!r}: agent {agent!r} must act but got no observation; expected one for every "
                    f"agent in env.agents"
                )
        self._match.act(acting)

    def _observe(self, observations: Mapping[Hashable, Any], infos: Mapping[Hashable, Any]) -> None:
        self._match.add_infos(infos)
        self._match.observe(observations, infos)

    def render_frame(self) -> Frame | None:
        """Return what the game renders as an image or as text."""
        return read_frame(self._env, game=self._id)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()
