"""The arrays of one match, by agent."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Literal

from ludus.environment import EnvironmentSpec
from ludus.errors import ContractError
from ludus.spaces import is_continuous
from ludus_copies import MatchArrays, action_reader, mask_writer, observation_writer

from ludus_pettingzoo.seating import AgentSeat, Seating


class SeatAdapter:
    """Transfers observations, rewards and actions between one agent and its seat.

    Args:
        agent_seat: Agent and seat.
        arrays: Arrays of the match.

    Attributes:
        read_action: Returns the action of the seat in the form that the environment takes.
        team: Team of the agent.
    """

    __slots__ = (
        "_acting",
        "_is_nested",
        "_mask_in_observation",
        "_reward",
        "_terminated",
        "_truncated",
        "_write",
        "_write_mask",
        "read_action",
        "team",
    )

    def __init__(self, agent_seat: AgentSeat, arrays: MatchArrays) -> None:
        role, seat, its_spaces = arrays.tick.roles[agent_seat.role], (agent_seat.index, ...), agent_seat.spaces
        self.team = agent_seat.team
        self.read_action = action_reader(its_spaces.action, arrays.actions[agent_seat.role][seat])
        self._write = observation_writer(
            its_spaces.unwrapped, {name: leaf[seat] for name, leaf in role.observation.items()}
        )
        self._is_nested = its_spaces.is_nested
        self._mask_in_observation = its_spaces.has_mask
        mask = None if role.action_mask is None else role.action_mask[seat]
        self._write_mask = _reject_mask if is_continuous(its_spaces.action) else mask_writer(mask)
        self._acting = role.acting[seat]
        self._reward = role.reward[seat]
        assert role.terminated is not None
        assert role.truncated is not None
        self._terminated, self._truncated = role.terminated[seat], role.truncated[seat]

    def observe(self, observation: Any, info: Mapping[str, Any]) -> None:
        """Write an observation and its action mask."""
        self._write(observation["observation"] if self._is_nested else observation)
        self._write_mask((observation if self._mask_in_observation else info).get("action_mask"))

    def act(self) -> None:
        """Mark the seat as acting on this tick."""
        self._acting[...] = True

    def reward(self, reward: float) -> None:
        """Write the reward of the seat."""
        self._reward[...] = reward

    def end(self, *, terminated: bool) -> None:
        """Mark the seat as terminated on this tick, else as truncated."""
        self._terminated[...] = terminated
        self._truncated[...] = not terminated


class MatchState:
    """Seats, rewards and the end of one match.

    Args:
        seating: Roles and seats of the environment's agents.
        masks_in_infos: Whether the infos hold action masks; agents with Box actions have none.
        max_ticks: Number of ticks after which to truncate; 0 means never.
        outcome: Rule for the outcome, see `PettingZooConfig`.
        dead_agents: When the seats of dead agents end, see `PettingZooConfig`.

    Attributes:
        ended: Agents that have ended → whether they were terminated, else truncated.
    """

    def __init__(
        self, seating: Seating, *, masks_in_infos: bool, max_ticks: int, outcome: str, dead_agents: str
    ) -> None:
        self.masked_roles = frozenset(
            agent_seat.role
            for agent_seat in seating.agent_seats
            if (agent_seat.spaces.has_mask or masks_in_infos) and not is_continuous(agent_seat.spaces.action)
        )
        self.seats: dict[Hashable, SeatAdapter] = {}
        self._seating = seating
        self._max_ticks = max_ticks
        self._outcome = outcome
        self._dead_agents = dead_agents
        self.ended: dict[Hashable, bool] = {}
        self._ticks = 0
        self._zeros = [0.0] * (1 + max(agent_seat.team for agent_seat in seating.agent_seats))
        self._total = self._zeros[:]
        self._last: list[float] | None = None  # None: no rewards on this tick

    def make_spec(self, turn: Literal["turn-based", "simultaneous"]) -> EnvironmentSpec:
        """Return the spec of the environment."""
        return EnvironmentSpec(
            name="pettingzoo",
            roles=self._seating.roles,
            turn=turn,
            max_ticks=self._max_ticks or None,
            constant_sum=len(self._zeros) == 2 and self._outcome != "positive",
        )

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        self._tick = arrays.tick
        self.seats = {agent_seat.agent: SeatAdapter(agent_seat, arrays) for agent_seat in self._seating.agent_seats}

    def start(self) -> None:
        """Reset ticks, total rewards and ended agents."""
        self._ticks = 0
        self.ended.clear()
        self._total = self._zeros[:]

    def add_rewards(self, rewards: Mapping[Hashable, Any]) -> None:
        """Count a tick and write the rewards of the agents."""
        self._ticks += 1
        self._last = None
        if not any(rewards.values()):
            return
        for agent, reward in rewards.items():
            if reward:
                seat = self.seats[agent]
                seat.reward(reward)
                if self._last is None:
                    self._last = self._zeros[:]
                self._last[seat.team] += float(reward)
                self._total[seat.team] += float(reward)

    def reached_max_ticks(self) -> bool:
        """Return whether the match must be truncated on this tick."""
        return self._ticks == self._max_ticks

    def end_agents(self, terminations: Mapping[Hashable, bool], truncations: Mapping[Hashable, bool]) -> list[Hashable]:
        """Add the agents that end on this tick to `ended`, and return them."""
        agents = [
            agent
            for agent in {**terminations, **truncations}
            if agent not in self.ended and (terminations.get(agent) or truncations.get(agent))
        ]
        for agent in agents:
            self.ended[agent] = bool(terminations.get(agent))
            if self._dead_agents == "end":
                self.seats[agent].end(terminated=self.ended[agent])
        return agents

    def end(self, *, truncated: bool) -> None:
        """Write the end of the match and its outcome."""
        if self._dead_agents == "wait":
            for agent, terminated in self.ended.items():
                self.seats[agent].end(terminated=terminated)
        self._tick.truncated[...] = truncated
        self._tick.terminated[...] = not truncated
        score = (self._last or self._zeros) if self._outcome == "last" else self._total
        if self._outcome == "positive":
            self._tick.outcome[:] = [0.5 if points == 0 else float(points > 0) for points in score]
        else:
            best = max(score)
            share = 1.0 if score.count(best) == 1 else 0.5
            self._tick.outcome[:] = [share if points == best else 0.0 for points in score]


def _reject_mask(mask: Any) -> None:
    if mask is not None:
        raise ContractError("got an action mask for a Box action, which has none; remove it")
