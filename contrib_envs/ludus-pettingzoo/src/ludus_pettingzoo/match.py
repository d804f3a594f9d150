"""The row of one match, by agent."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Literal

from ludus.environment import EnvironmentSpec
from ludus.errors import ContractError
from ludus.spaces import is_continuous
from ludus_copies import Row, action_reader, mask_writer, observation_writer

from ludus_pettingzoo.seating import Placing, Seating

__all__ = ["BoundSeat", "MatchRow"]


class BoundSeat:
    """What moves between one agent and its seat in a row.

    Args:
        placing: Who sits where.
        row: The arrays.

    Attributes:
        read_action: Returns the action in the row as the environment takes it.
        team: Of the agent.
    """

    __slots__ = (
        "_acting",
        "_is_wrapped",
        "_mask_in_observation",
        "_reward",
        "_write",
        "_write_mask",
        "read_action",
        "team",
    )

    def __init__(self, placing: Placing, row: Row) -> None:
        role, seat, its_spaces = row.tick.roles[placing.role], (placing.index, ...), placing.spaces
        self.team = placing.team
        self.read_action = action_reader(its_spaces.action, row.actions[placing.role][seat])
        self._write = observation_writer(its_spaces.seen, {name: leaf[seat] for name, leaf in role.observation.items()})
        self._is_wrapped = its_spaces.is_wrapped
        self._mask_in_observation = its_spaces.has_mask
        mask = None if role.action_mask is None else role.action_mask[seat]
        self._write_mask = _refuse_mask if is_continuous(its_spaces.action) else mask_writer(mask)
        self._acting = role.acting[seat]
        self._reward = role.reward[seat]

    def observe(self, observation: Any, info: Mapping[str, Any]) -> None:
        """Write an observation and the action mask that came with it."""
        self._write(observation["observation"] if self._is_wrapped else observation)
        self._write_mask((observation if self._mask_in_observation else info).get("action_mask"))

    def act(self) -> None:
        """Say that the seat decides on this tick."""
        self._acting[...] = True

    def reward(self, reward: float) -> None:
        """Write what the seat earned."""
        self._reward[...] = reward


class MatchRow:
    """Seats, rewards and the end of one match.

    Args:
        seating: The environment's agents.
        masks_in_infos: Whether action masks come in the infos; agents with Box actions have none anywhere.
        max_ticks: Truncate after so many ticks; 0 never.
        outcome: Who wins, see `PettingZooConfig`.
    """

    def __init__(self, seating: Seating, *, masks_in_infos: bool, max_ticks: int, outcome: str) -> None:
        self.masked_roles = frozenset(
            placing.role
            for placing in seating.placings
            if (placing.spaces.has_mask or masks_in_infos) and not is_continuous(placing.spaces.action)
        )
        self.seats: dict[Hashable, BoundSeat] = {}
        self._seating = seating
        self._max_ticks = max_ticks
        self._outcome = outcome
        self._ticks = 0
        self._nothing = [0.0] * (1 + max(placing.team for placing in seating.placings))
        self._total = self._nothing[:]
        self._last: list[float] | None = None  # None: nobody earned anything on this tick

    def make_spec(self, turn: Literal["turn-based", "simultaneous"]) -> EnvironmentSpec:
        """Return what is known before a match starts."""
        return EnvironmentSpec(
            name="pettingzoo",
            roles=self._seating.roles,
            turn=turn,
            max_ticks=self._max_ticks or None,
            constant_sum=len(self._nothing) == 2 and self._outcome != "positive",
        )

    def bind(self, row: Row) -> None:
        """Keep the arrays of the match."""
        self._tick = row.tick
        self.seats = {placing.agent: BoundSeat(placing, row) for placing in self._seating.placings}

    def start(self) -> None:
        """Forget the last match."""
        self._ticks = 0
        self._total = self._nothing[:]

    def add_rewards(self, rewards: Mapping[Hashable, Any]) -> None:
        """Count a tick and hand out what the agents earned on it."""
        self._ticks += 1
        self._last = None
        if not any(rewards.values()):
            return
        for agent, reward in rewards.items():
            if reward:
                seat = self.seats[agent]
                seat.reward(reward)
                if self._last is None:
                    self._last = self._nothing[:]
                self._last[seat.team] += float(reward)
                self._total[seat.team] += float(reward)

    def is_time_up(self) -> bool:
        """Return whether the match has to be cut off now."""
        return self._ticks == self._max_ticks

    def end(self, *, truncated: bool) -> None:
        """Write that the match is over, and its outcome."""
        self._tick.truncated[...] = truncated
        self._tick.terminated[...] = not truncated
        score = (self._last or self._nothing) if self._outcome == "last" else self._total
        if self._outcome == "positive":
            self._tick.outcome[:] = [0.5 if points == 0 else float(points > 0) for points in score]
        else:
            best = max(score)
            share = 1.0 if score.count(best) == 1 else 0.5
            self._tick.outcome[:] = [share if points == best else 0.0 for points in score]


def _refuse_mask(mask: Any) -> None:
    if mask is not None:
        raise ContractError("an action mask came for a Box action, which has none; leave it out")
