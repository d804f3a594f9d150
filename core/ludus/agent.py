"""The agent contract: whatever fills seats without learning (scripted bots, perfect players, remote programs)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ludus.environment import Leaves

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Agent"]


class Agent(Protocol):
    """Decides for any number of seats at once, from what those seats see.

    Made by the factory of an ``agent`` component for one role of one environment.
    """

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        streams: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows.

        Args:
            observation: Leaves ``[n, …]``.
            action_mask: ``[n, A] bool`` or None.
            streams: ``[n] int64``: which (match row, seat) each row belongs to, for agents with memory.
            rng: The only source of randomness.

        Returns:
            ``[n, L] int64``, or ``[n, D] float32`` for continuous actions.
        """

    def reset(self, streams: np.ndarray) -> None:
        """Forget everything about these streams: a new match starts there."""
