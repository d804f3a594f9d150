"""The action mask of DIS: rules that exclude actions without a meaning [DIS appendix G].

The paper gives the rules without numbers; the distances are choices of this module.
"""

from __future__ import annotations

import numpy as np

from ludus_football.actions import KICKS, Action
from ludus_football.state import DRIBBLE, METRES, RIGHT, SPRINT, State

#: Distances from the ball in metres up to which a player may kick and slide. A player has the ball within 1.5 m in the
#: engine. It runs up to 0.9 m and the ball moves up to 3 m in a step, and kicks may be chosen some steps ahead.
KICK_REACH_M = 4.0
SLIDE_REACH_M = 6.0
_KICKS = list(map(int, KICKS))
_SHOT, _SLIDING = int(Action.SHOT), int(Action.SLIDING)
_RELEASES = (
    (SPRINT, int(Action.SPRINT), int(Action.RELEASE_SPRINT)),
    (DRIBBLE, int(Action.DRIBBLE), int(Action.RELEASE_DRIBBLE)),
)


def seat_positions(state: State) -> np.ndarray:
    """Return where the players of the seats are, in the coordinates of the left team, ``[S, 2] float32``."""
    return np.asarray(state.position[state.team, state.controlled])


def ball_distances(state: State) -> np.ndarray:
    """Return the distances of the seats' players from the ball in metres, ``[S] float32``; infinite if absent."""
    apart = (seat_positions(state) - state.ball[:2]) * METRES
    distance = np.sqrt(np.einsum("sk,sk->s", apart, apart))
    plays = (state.controlled >= 0) & state.active[state.team, state.controlled]
    return np.where(plays, distance, np.float32(np.inf))


def available(state: State, out: np.ndarray) -> np.ndarray:
    """Write which actions the rules allow.

    (1) Passes and shots need the ball within `KICK_REACH_M`. (2) Sliding needs the ball within `SLIDE_REACH_M`, or an
    opponent who has it. (3) Sprint and dribble can be released only while they hold on, and (4) chosen only while they
    do not. (5) A shot needs a player in the opponents' half. Directions and idling are always allowed.

    Args:
        state: Moment of the match.
        out: ``[S, 19] bool``, overwritten.

    Returns:
        `out`.
    """
    distance = ball_distances(state)
    out[:] = True
    out[:, _KICKS] = (distance <= KICK_REACH_M)[:, None]
    out[:, _SLIDING] = (distance <= SLIDE_REACH_M) | (state.team == 1 - state.owner_team)
    for held, choose, release in _RELEASES:
        out[:, release] = state.sticky[:, held]
        np.logical_not(state.sticky[:, held], out=out[:, choose])
    x = seat_positions(state)[:, 0]
    out[:, _SHOT] &= np.where(state.team == RIGHT, x <= 0, x >= 0)
    return out
