"""The agent contract: whatever fills seats without learning (scripted bots, perfect players, remote programs)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ludus.environment import Leaves

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Agent", "EvaluatingAgent"]


class Agent(Protocol):
    """Decides for any number of seats at once, from what those seats see.

    Made by the factory of an ``agent`` component for one role of one environment.
    """

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows.

        Args:
            observation: Leaves ``[n, …]``.
            action_mask: ``[n, A] bool`` or None.
            seat_ids: ``[n] int64``: which (match row, seat) each row belongs to, for agents with memory.
            rng: The only source of randomness.

        Returns:
            ``[n, L] int64``, or ``[n, D] float32`` for continuous actions.
        """

    def reset(self, seat_ids: np.ndarray) -> None:
        """Forget everything about these streams: a new match starts there."""


@runtime_checkable
class EvaluatingAgent(Agent, Protocol):
    """An agent that also knows how good its position is; an optional part of the contract.

    A player that learns to exploit it reads that [Minimax eq. 3].
    """

    def act_and_evaluate(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Decide as `act` does, and return besides what each row expects to receive from here on.

        Returns:
            Actions as of `act`; values ``[n] float32`` in the units of the game's rewards, NaN where unknown.
        """
