"""One agent for a joint seat, made of one agent per part [Arena §2.4.3]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen
from ludus.agent import Agent
from ludus.environment import Leaves
from ludus.interface import Interface, SeatView, Spaces, stack

from ludus_interfaces.joint_seats import JointPart, joint_parts, split_spaces, split_view

__all__ = ["team_agent"]


def team_agent(
    agents: Sequence[Agent], interface: Interface | None = None, *, raw: Spaces, widths: Sequence[int] | None = None
) -> Agent:
    """Return an agent for a joint seat that uses one agent per part [Arena §2.4.3].

    Args:
        agents: Agents of the parts. An agent may occur twice if it is stateless.
        interface: Interface on the joint seat, for example to share information within the team.
        raw: Spaces of the joint seat.
        widths: Number of action labels (or Box dimensions) of each agent; None if they are equal.

    Raises:
        ContractError: The spaces do not divide into one part per agent.
    """
    interface = stack() if interface is None else interface
    parts = split_spaces(interface.bind(raw), len(agents), widths=widths)
    return _TeamAgent(tuple(agents), interface, joint_parts(parts))


@frozen
class _TeamAgent:
    agents: tuple[Agent, ...]
    interface: Interface
    parts: tuple[JointPart, ...]

    def act(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        view = SeatView(observation=observation, action_mask=action_mask, reward=np.zeros(seat_ids.size, np.float32))
        views = split_view(self.interface.observe(view, seat_ids), self.parts)
        actions = [
            agent.act(part.observation, action_mask=part.action_mask, seat_ids=seat_ids, rng=rng)
            for agent, part in zip(self.agents, views, strict=True)
        ]
        return self.interface.act(np.concatenate(actions, axis=1), seat_ids)

    def reset(self, seat_ids: np.ndarray) -> None:
        self.interface.reset(seat_ids)
        for agent in self.agents:
            agent.reset(seat_ids)
