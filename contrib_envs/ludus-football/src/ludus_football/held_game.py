"""What seats do when they hold up a set piece for too long, as in the engine's Python library."""

from __future__ import annotations

import numpy as np

from ludus_football.actions import Action
from ludus_football.state import State

#: After so many ticks in a set piece, the actions of seats are replaced.
PATIENCE_TICKS = 20
#: After so many ticks, the player with the ball turns back.
TURN_BACK_TICKS = 30


def overrule(actions: np.ndarray, state: State, held_ticks: int) -> np.ndarray:
    """Return the actions that are taken: those of the seats, unless they hold up a set piece for too long.

    First all seats pass. Then the player with the ball runs forward, and later backward, while the others do nothing.

    Args:
        actions: ``[S] int64``, directions in the view of the team.
        state: Last moment of the match.
        held_ticks: Ticks since the game was stopped; 0 while it goes on.
    """
    if held_ticks < PATIENCE_TICKS:
        return actions
    if held_ticks == PATIENCE_TICKS:
        return np.full_like(actions, Action.SHORT_PASS)
    has_ball = (state.team == state.owner_team) & (state.controlled == state.owner_player)
    return np.where(has_ball, Action.RIGHT if held_ticks < TURN_BACK_TICKS else Action.LEFT, Action.IDLE)
