"""The interface contract [Arena §2.4]: reversible transforms of what a seat sees and does.

This module holds the protocol; the ways to put interfaces together follow it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from attrs import define, frozen

from ludus.environment import Leaves

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import Space

__all__ = ["Interface", "Spaces", "View"]


@frozen
class Spaces:
    """The two spaces of a seat."""

    observation: Space[Any]
    action: Space[Any]


@define(kw_only=True)
class View:
    """What n seats see on one tick.

    Attributes:
        observation: Leaves ``[n, …]``.
        action_mask: ``[n, A] bool`` or None.
        reward: ``[n] float32``.
    """

    observation: Leaves
    action_mask: np.ndarray | None
    reward: np.ndarray


class Interface(Protocol):
    """A transform of observations (raw → seen), masks, rewards and actions (chosen → raw).

    Stateless interfaces are pure functions of their arguments; stateful ones (frame stack) keep one entry
    per stream.
    """

    def bind(self, raw: Spaces) -> Spaces:
        """Fix the raw spaces and return the transformed ones. Called before anything else.

        Raises:
            ContractError: The interface cannot work on these spaces.
        """

    def reset(self, streams: np.ndarray) -> None:
        """Forget everything about these streams (``[n] int64``): a new match starts there."""

    def observe(self, view: View, streams: np.ndarray) -> View:
        """Return what the seats see; must not modify `view`.

        Args:
            view: n rows.
            streams: ``[n] int64``: which (match row, seat) each row belongs to.
        """

    def act(self, action: np.ndarray, streams: np.ndarray) -> np.ndarray:
        """Return the raw action ``[n, L']`` for the chosen ``action [n, L]``."""
