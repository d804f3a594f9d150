"""Agents that play through interfaces [Arena §2.4.2]."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen
from ludus.agent import Agent, EvaluatingAgent
from ludus.environment import Leaves
from ludus.interface import Interface, SeatView, Spaces

__all__ = ["on_agent"]


def on_agent(agent: Agent, interface: Interface, *, raw: Spaces | None = None) -> EvaluatingAgent:
    """Return an agent for the raw game from one that plays in the transformed game [Arena §2.4.2].

    Agents made for different observation and action spaces can so meet in the same raw game. Agents see no rewards,
    so the interface is given zeros.

    Args:
        agent: Takes transformed observations, returns transformed actions.
        interface: Used by this agent alone.
        raw: The raw spaces to bind it to; None if it is bound already, or will be before the first decision.
    """
    if raw is not None:
        interface.bind(raw)
    return _AgentThrough(agent, interface)


@frozen
class _AgentThrough:
    agent: Agent
    interface: Interface

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        seen = self._observe(observation, action_mask, seat_ids)
        chosen = self.agent.act(seen.observation, action_mask=seen.action_mask, seat_ids=seat_ids, rng=rng)
        return self.interface.act(chosen, seat_ids)

    def act_and_evaluate(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        seen, values = self._observe(observation, action_mask, seat_ids), np.full(seat_ids.size, np.nan, np.float32)
        more: dict[str, Any] = {"action_mask": seen.action_mask, "seat_ids": seat_ids, "rng": rng}
        if isinstance(self.agent, EvaluatingAgent):
            chosen, values = self.agent.act_and_evaluate(seen.observation, **more)
        else:
            chosen = self.agent.act(seen.observation, **more)
        return self.interface.act(chosen, seat_ids), values

    def _observe(self, observation: Leaves, action_mask: np.ndarray | None, seat_ids: np.ndarray) -> SeatView:
        view = SeatView(observation=observation, action_mask=action_mask, reward=np.zeros(seat_ids.size, np.float32))
        return self.interface.observe(view, seat_ids)

    def reset(self, seat_ids: np.ndarray) -> None:
        self.interface.reset(seat_ids)
        self.agent.reset(seat_ids)
