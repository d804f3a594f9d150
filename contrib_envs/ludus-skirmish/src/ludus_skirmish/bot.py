"""Scripted armies of three strengths."""

from __future__ import annotations

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves
from ludus.spaces import label_sizes

from ludus_skirmish.actions import NEAREST, STOP
from ludus_skirmish.config import BotConfig
from ludus_skirmish.tactics import Situation, focus_fire, read_units, retreat


class SkirmishBot:
    """Decides for an army, or for a single unit, by rules; see `ludus_skirmish.tactics`. It has no state.

    Args:
        config: Options of the agent.
        spec: Spec of the environment.
        role: Role that the agent plays.
    """

    def __init__(self, config: BotConfig, *, spec: EnvironmentSpec, role: str) -> None:
        self._strength = config.strength
        self._sizes = label_sizes(spec.role(role).action_space)

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,  # noqa: ARG002 - the agent draws nothing
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        assert action_mask is not None, "the game always has masks"
        mask = action_mask.reshape(len(seat_ids), len(self._sizes), self._sizes[0])
        choice = np.where(mask[..., NEAREST], NEAREST, STOP)
        if self._strength > 1:
            situation = Situation.of(read_units(observation), mask)
            choice = focus_fire(situation, choice)
            if self._strength > 2:
                choice = retreat(situation, choice)
        return choice

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""
