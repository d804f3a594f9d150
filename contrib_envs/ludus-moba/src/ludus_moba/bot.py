"""Scripted heroes of four strengths."""

from __future__ import annotations

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves

from ludus_moba.actions import BUTTON
from ludus_moba.bot_view import Choice, read_observation
from ludus_moba.config import BotConfig
from ludus_moba.tactics import STRENGTHS, decide


class MobaBot:
    """Plays a hero by rules; see `ludus_moba.tactics`. It has no state.

    Args:
        config: Options of the agent.
        spec: Spec of the environment.
        role: Role that the agent plays.
    """

    def __init__(self, config: BotConfig, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - one game, one role
        self._strength = config.strength

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        assert action_mask is not None, "the game always has masks"
        choice = Choice(action_mask)
        if self._strength == 1:
            _wander(choice, len(seat_ids), rng)
        else:
            decide(read_observation(observation), choice, STRENGTHS[self._strength])
        return choice.action

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""


def _wander(choice: Choice, rows: int, rng: np.random.Generator) -> None:
    """Walk in random directions, mostly forward, and attack the nearest unit on half of the ticks."""
    dx, dy = rng.normal(0.3, 1.0, rows), rng.normal(0.0, 1.0, rows)
    choice.move(np.ones(rows, bool), dx, dy)
    choice.take(rng.random(rows) < 0.5, BUTTON["attack"])
