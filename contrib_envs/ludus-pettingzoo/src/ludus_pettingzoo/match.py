"""The arrays of one match, by agent."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

from ludus.environment import EnvironmentSpec
from ludus.errors import ContractError
from ludus.spaces import is_continuous
from ludus_copies import (
    MatchArrays,
    SteppingOptions,
    action_reader,
    mask_writer,
    observation_writer,
    reward_value,
    statistics_writer,
)

from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.crowd import Crowd, make_crowd
from ludus_pettingzoo.outcome import MatchRecord, OutcomeRule
from ludus_pettingzoo.seating import AgentSeat, Seating
from ludus_pettingzoo.state import GameState


class SeatAdapter:
    """Transfers observations, rewards and actions between one agent and its seat.

    Args:
        agent_seat: Agent and seat.
        arrays: Arrays of the match.
        config: Options of the environment.

    Attributes:
        read_action: Returns the action of the seat in the form that the environment takes.
        team: Team of the agent.
    """

    __slots__ = (
        "_acting",
        "_is_nested",
        "_mask_in_observation",
        "_mask_key",
        "_reward",
        "_subject",
        "_terminated",
        "_truncated",
        "_write",
        "_write_mask",
        "_write_statistics",
        "read_action",
        "team",
    )

    def __init__(self, agent_seat: AgentSeat, arrays: MatchArrays, config: PettingZooConfig) -> None:
        role, seat, its_spaces = arrays.tick.roles[agent_seat.role], (agent_seat.index, ...), agent_seat.spaces
        self._subject = f"game {config.id!r}, agent {agent_seat.agent!r}"
        self.team = agent_seat.team
        self.read_action = action_reader(its_spaces.action, arrays.actions[agent_seat.role][seat])
        self._write = observation_writer(
            its_spaces.unwrapped,
            {name: leaf[seat] for name, leaf in role.observation.items()},
            channels=config.channels,
        )
        self._is_nested = its_spaces.is_nested
        self._mask_in_observation = its_spaces.has_mask
        self._mask_key = its_spaces.mask_key
        mask = None if role.action_mask is None else role.action_mask[seat]
        self._write_mask = _reject_mask if is_continuous(its_spaces.action) else mask_writer(mask, its_spaces.action)
        self._acting = role.acting[seat]
        self._reward = role.reward[seat]
        assert role.terminated is not None
        assert role.truncated is not None
        self._terminated, self._truncated = role.terminated[seat], role.truncated[seat]
        self._write_statistics = statistics_writer(
            config.statistics, {name: values[seat] for name, values in role.statistics.items()}
        )

    def observe(self, observation: Any, info: Mapping[str, Any]) -> None:
        """Write an observation and its action mask.

        Raises:
            ContractError: The game returned something else.
        """
        try:
            self._write(observation["observation"] if self._is_nested else observation)
            self._write_mask((observation if self._mask_in_observation else info).get(self._mask_key))
        except ContractError as error:
            raise ContractError(f"{self._subject}: {error}") from error
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            if not (self._is_nested or self._mask_in_observation):
                raise  # the info is no dict
            got = sorted(observation) if isinstance(observation, Mapping) else type(observation).__name__
            raise ContractError(
                f"{self._subject}: observation: expected the dict that the space declares, got {got}"
            ) from error

    def add_statistics(self, info: Mapping[str, Any]) -> None:
        """Write the statistics that an info holds.

        Raises:
            ContractError: One is not one finite number.
        """
        try:
            self._write_statistics(info)
        except ContractError as error:
            raise ContractError(f"{self._subject}: {error}") from error

    def act(self) -> None:
        """Mark the seat as acting on this tick."""
        self._acting[...] = True

    def reward(self, reward: Any) -> float:
        """Write the reward of the seat and return it.

        Raises:
            ContractError: It is not one finite number.
        """
        try:
            value = reward_value(reward)
        except ContractError as error:
            raise ContractError(f"{self._subject}: {error}") from error
        self._reward[...] = value
        return value

    def end(self, *, terminated: bool) -> None:
        """Mark the seat as terminated on this tick, else as truncated."""
        self._terminated[...] = terminated
        self._truncated[...] = not terminated


class MatchState:
    """Seats, rewards and the end of one match.

    Args:
        config: Options of the environment.
        seating: Roles and seats of the environment's agents.
        rule: Rule for the outcome.
        state: State of the game for critics; None without one.
        masks_in_infos: Whether the infos hold action masks; agents with Box actions have none.

    Attributes:
        ended: Agents that have ended → whether they were terminated, else truncated.
        has_statistics: Whether infos hold statistics.
        observed_all: Whether the last observations had no agent without one.
    """

    def __init__(
        self,
        config: PettingZooConfig,
        seating: Seating,
        rule: OutcomeRule,
        *,
        state: GameState | None,
        masks_in_infos: bool,
    ) -> None:
        self.masked_roles = frozenset(
            agent_seat.role
            for agent_seat in seating.agent_seats
            if (agent_seat.spaces.has_mask or masks_in_infos) and not is_continuous(agent_seat.spaces.action)
        )
        self.seats: dict[Hashable, SeatAdapter] = {}
        self.ended: dict[Hashable, bool] = {}
        self.has_statistics = bool(config.statistics)
        self.observed_all = False
        self._crowd: Crowd | None = None
        self._config = config
        self._seating = seating
        self._rule = rule
        self._state = state
        self._max_ticks = config.max_ticks
        self._terminates = config.time_limit == "terminates"
        self._waits = config.dead_agents == "wait"
        self._ticks = 0
        self._zeros = [0.0] * len(seating.team_names)
        self._total = self._zeros[:]
        self._last: list[float] | None = None  # None: no rewards on this tick
        self._deaths: dict[Hashable, int] = {}
        self._infos: dict[Hashable, Mapping[str, Any]] = {}

    def make_spec(self, turn: Literal["turn-based", "simultaneous"]) -> EnvironmentSpec:
        """Return the spec of the environment."""
        return EnvironmentSpec(
            name="pettingzoo",
            roles=self._seating.roles,
            turn=turn,
            max_ticks=self._max_ticks or None,
            constant_sum=self._rule.is_constant_sum,
            score=self._rule.score if self._config.score == "auto" else self._config.score,  # type: ignore[arg-type]
            outcome_rule=self._rule.description,
            notes=(*self._seating.notes, *SteppingOptions.of(self._config).notes),
        )

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        self._tick = arrays.tick
        self.seats = {
            agent_seat.agent: SeatAdapter(agent_seat, arrays, self._config) for agent_seat in self._seating.agent_seats
        }
        self._crowd = make_crowd(self._seating.agent_seats, arrays, self._config)
        if self._state is not None:
            self._state.bind(arrays.tick)

    def read_actions(self, agents: Sequence[Hashable]) -> dict[Hashable, Any]:
        """Return the actions of agents in the form that the environment takes."""
        if self._crowd is not None:
            return self._crowd.read_actions(agents)
        return {agent: self.seats[agent].read_action() for agent in agents}

    def observe(self, observations: Mapping[Hashable, Any], infos: Mapping[Hashable, Mapping[str, Any]]) -> None:
        """Write the observations of agents; an agent without one keeps its last.

        Raises:
            ContractError: The game returned something else.
        """
        self.observed_all = self._crowd is not None and self._crowd.observe(observations, infos)
        if self.observed_all:
            return
        for agent, observation in observations.items():
            if observation is not None:
                self.seats[agent].observe(observation, infos.get(agent) or {})

    def act(self, agents: Sequence[Hashable]) -> None:
        """Mark the seats of agents as acting on this tick."""
        if self._crowd is not None:
            self._crowd.act(agents)
            return
        for agent in agents:
            self.seats[agent].act()

    def bots(self, builtin: Sequence[str]) -> dict[Hashable, str]:
        """Return the built-in bot of each agent that has one in a match; see `Scenario.builtin`."""
        agents = [agent_seat.agent for agent_seat in self._seating.agent_seats]
        return {agent: bot for agent, bot in zip(agents, builtin, strict=False) if bot}

    def write_state(self) -> None:
        """Write the state of the game for critics, which do not read that of a terminated match.

        Raises:
            ContractError: It has another form than the game declares.
        """
        if self._state is not None and not self._tick.terminated:
            self._state.write()

    def start(self) -> None:
        """Reset ticks, total rewards and ends of agents."""
        self._ticks = 0
        self._total = self._zeros[:]
        self.ended.clear()
        self._deaths.clear()
        self._infos.clear()

    def add_rewards(self, rewards: Mapping[Hashable, Any]) -> None:
        """Count a tick and write the rewards of the agents; missing rewards and None are 0.

        Raises:
            ContractError: A reward is not one finite number.
        """
        self._ticks += 1
        self._last = None
        try:
            if not any(rewards.values()):
                return
        except ValueError:
            pass  # an array of several numbers
        if self._crowd is not None:
            last = self._zeros[:]
            if self._crowd.add_rewards(rewards, (last, self._total)):
                self._last = last
                return
        for agent, reward in rewards.items():
            if reward is not None:
                self.add_reward(agent, reward)

    def add_reward(self, agent: Hashable, reward: Any) -> None:
        """Write a reward of this tick.

        Raises:
            ContractError: The reward is not one finite number.
        """
        seat = self.seats[agent]
        value = seat.reward(reward)
        if self._last is None:
            self._last = self._zeros[:]
        self._last[seat.team] += value
        self._total[seat.team] += value

    @property
    def has_rewards(self) -> bool:
        """Return whether a seat got a reward on this tick."""
        return self._last is not None and any(self._last)

    def end_agents(self, terminations: Mapping[Hashable, bool], truncations: Mapping[Hashable, bool]) -> list[Hashable]:
        """Add the agents that end on this tick to `ended`, and return them; flags of other agents may be missing."""
        agents = [
            agent
            for agent in {**terminations, **truncations}
            if agent not in self.ended and (terminations.get(agent) or truncations.get(agent))
        ]
        for agent in agents:
            seat, is_dead = self.seats[agent], bool(terminations.get(agent))
            if is_dead:
                self._deaths[agent] = self._ticks
            self.ended[agent] = is_dead or self._terminates
            if not self._waits:
                seat.end(terminated=self.ended[agent])
        return agents

    def add_infos(self, infos: Mapping[Hashable, Mapping[str, Any]]) -> None:
        """Keep the infos of agents where the outcome depends on them."""
        if self._rule.reads_infos:
            self._infos.update(infos)

    def add_statistics(self, infos: Mapping[Hashable, Mapping[str, Any] | None]) -> None:
        """Write the statistics that the infos of agents hold.

        Raises:
            ContractError: One is not one finite number.
        """
        for agent, info in infos.items():
            if info and agent in self.seats:
                self.seats[agent].add_statistics(info)

    def reached_max_ticks(self) -> bool:
        """Return whether the time of the match is over on this tick."""
        return self._ticks == self._max_ticks

    def end(self, *, truncated: bool) -> None:
        """Write the end of the match and its outcome.

        Raises:
            ContractError: The game gives no valid outcome.
        """
        if self._waits:
            for agent, terminated in self.ended.items():
                self.seats[agent].end(terminated=terminated)
        truncated = truncated and not self._terminates
        self._tick.truncated[...] = truncated
        self._tick.terminated[...] = not truncated
        ends = self._zeros[:]
        for agent, seat in self.seats.items():
            ends[seat.team] = max(ends[seat.team], self._deaths.get(agent, float("inf")))
        record = MatchRecord(total=self._total, last=self._last or self._zeros, ends=ends, infos=self._infos)
        try:
            self._tick.outcome[:] = self._rule.points(record)
        except ContractError as error:
            raise ContractError(f"game {self._config.id!r}: {error}") from error


def _reject_mask(mask: Any) -> None:
    if mask is not None:
        raise ContractError("got an action mask for a Box action, which has none; remove it")
