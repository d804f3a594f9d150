"""The 19 actions of a seat, in the order of [DIS appendix B]."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from ludus_football.state import NUM_DIRECTIONS, TURNED_STICKY


class Action(IntEnum):
    """Actions; their names in lower case are those of the engine."""

    IDLE = 0
    LEFT = 1
    TOP_LEFT = 2
    TOP = 3
    TOP_RIGHT = 4
    RIGHT = 5
    BOTTOM_RIGHT = 6
    BOTTOM = 7
    BOTTOM_LEFT = 8
    LONG_PASS = 9
    HIGH_PASS = 10
    SHORT_PASS = 11
    SHOT = 12
    SPRINT = 13
    RELEASE_DIRECTION = 14
    RELEASE_SPRINT = 15
    SLIDING = 16
    DRIBBLE = 17
    RELEASE_DRIBBLE = 18


NUM_ACTIONS = len(Action)
#: Actions that play the ball.
KICKS = (Action.LONG_PASS, Action.HIGH_PASS, Action.SHORT_PASS, Action.SHOT)
PASSES = KICKS[:3]
#: The same action after a turn of the field by 180 degrees, ``[19] int64``: directions become their opposites.
TURNED_ACTIONS = np.arange(NUM_ACTIONS)
TURNED_ACTIONS[1 : 1 + NUM_DIRECTIONS] = TURNED_STICKY[:NUM_DIRECTIONS] + 1
