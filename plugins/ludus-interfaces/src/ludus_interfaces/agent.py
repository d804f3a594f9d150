"""Agents behind interfaces [Arena §2.4.2]."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen
from ludus.agent import Agent, EvaluatingAgent
from ludus.environment import Leaves
from ludus.interface import Interface, SeatView, Spaces


def wrap_agent(agent: Agent, interface: Interface, *, raw: Spaces | None = None) -> EvaluatingAgent:
    """Return an agent for the raw environment from an agent for the transformed one [Arena §2.4.2].

    Agents with different observation and action spaces can so play in the same environment. Agents get no rewards, so
    the rewards of the interface's views are 0.

    Args:
        agent: Agent for transformed observations and actions.
        interface: Interface that no other agent uses.
        raw: Raw spaces to bind the interface to; None if the caller binds it before the first decision.
    """
    if raw is not None:
        interface.bind(raw)
    return _WrappedAgent(agent, interface)


@frozen
class _WrappedAgent:
    agent: Agent
    interface: Interface

    def act(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        view = self._observe(observation, action_mask, seat_ids)
        action = self.agent.act(view.observation, action_mask=view.action_mask, seat_ids=seat_ids, rng=rng)
        return self.interface.act(action, seat_ids)

    def act_and_evaluate(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        view, values = self._observe(observation, action_mask, seat_ids), np.full(seat_ids.size, np.nan, np.float32)
        options: dict[str, Any] = {"action_mask": view.action_mask, "seat_ids": seat_ids, "rng": rng}
        if isinstance(self.agent, EvaluatingAgent):
            action, values = self.agent.act_and_evaluate(view.observation, **options)
        else:
            action = self.agent.act(view.observation, **options)
        return self.interface.act(action, seat_ids), values

    def _observe(self, observation: Leaves, action_mask: np.ndarray | None, seat_ids: np.ndarray) -> SeatView:
        view = SeatView(observation=observation, action_mask=action_mask, reward=np.zeros(seat_ids.size, np.float32))
        return self.interface.observe(view, seat_ids)

    def reset(self, seat_ids: np.ndarray) -> None:
        self.interface.reset(seat_ids)
        self.agent.reset(seat_ids)
