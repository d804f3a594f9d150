"""Agents whose decision is a function of what they see now."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ludus.environment import Leaves

__all__ = ["StatelessAgent"]


class StatelessAgent:
    """An agent that is a function of the observation; see `ludus.agent.EvaluatingAgent`.

    Args:
        decide: From leaves ``[n, …]`` to actions ``[n, L] int64`` or ``[n, D] float32``.
        value: What a seat expects to receive that plays so to the end.
    """

    def __init__(self, decide: Callable[[Leaves], np.ndarray], *, value: float) -> None:
        self._decide = decide
        self._value = value

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - the observation says what is right
        seat_ids: np.ndarray,  # noqa: ARG002 - it remembers nothing
        rng: np.random.Generator,  # noqa: ARG002 - there is one best action
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        return self._decide(observation)

    def act_and_evaluate(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Decide as `act` does, and return the same value ``[n] float32`` for all rows."""
        actions = self.act(observation, action_mask=action_mask, seat_ids=seat_ids, rng=rng)
        return actions, np.full(len(actions), self._value, np.float32)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""
