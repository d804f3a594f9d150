"""The vector observations of DIS: 214 numbers for teams of up to 5 players, 370 for up to 11 [DIS table 2].

The paper names the content and the length of every group of numbers. Which numbers they are in detail is a choice of
this module, see `feature_groups`. Every seat sees the field in the view of its team, which attacks to the right.

Units: positions as in `State`, distances in half lengths of the field, movements of players in metres per step, so that
all numbers are about in [-1, 1]. Numbers of players that do not exist or were sent off are 0.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

from ludus_football.actions import NUM_ACTIONS, Action
from ludus_football.masks import available
from ludus_football.state import (
    GOAL_Y,
    MAX_PLAYERS,
    METRES,
    NUM_DIRECTIONS,
    PENALTY_X,
    PENALTY_Y,
    RIGHT,
    TURNED_STICKY,
    GameMode,
    State,
)
from ludus_football.team_views import TeamViews

#: Players of a team in the short and in the long layout.
CAPACITIES = (5, MAX_PLAYERS)
#: Numbers of the engine's roles: goalkeeper, centre back, left back, right back, defensive, central, left, right and
#: attacking midfielder, centre forward.
NUM_ROLES = 10
_STICKY = (*(Action(1 + direction).name.lower() for direction in range(NUM_DIRECTIONS)), "sprint", "dribble")
_MODES = tuple(mode.name.lower() for mode in GameMode)

_PLAYER = (
    "x from the own player",
    "y from the own player",
    "x",
    "y",
    "movement along x",
    "movement along y",
    "speed",
    "tiredness",
    "distance to the own player",
)
_SELF = (
    *_PLAYER[2:8],
    *(f"role {index}" for index in range(NUM_ROLES)),
    "has the ball",
    "distance to the opponents' goal",
    "angle under which it sees that goal, in π",
)
_BALL = (
    "x",
    "y",
    "height in 5 m",
    "movement along x in 2 m",
    "movement along y in 2 m",
    "movement upwards in 2 m",
    "speed in 2 m",
    "rotation about x, times 100",
    "rotation about y, times 100",
    "rotation about z, times 100",
    "x from the own player",
    "y from the own player",
    "distance to the own player",
    "no player has it",
    "the own team has it",
    "the opponents have it",
    "is in the own penalty area",
    "is in the opponents' penalty area",
)
_MATCH = (
    "share of the steps left",
    "own goals in 5",
    "goals of the opponents in 5",
    *(f"mode {name}" for name in _MODES),
)

_METRE_PER_UNIT = float(METRES[0])


@frozen
class FeatureGroup:
    """Consecutive numbers of an observation.

    Args:
        name: As in the paper's table.
        start: Index of the first number.
        meanings: Meaning of every number.
        is_local: Whether a policy of MAPPO sees it: what concerns the own player, the ball and the players next to it.
    """

    name: str
    start: int
    meanings: tuple[str, ...]
    is_local: bool

    @property
    def slice(self) -> slice:
        """Return where the numbers are."""
        return slice(self.start, self.start + len(self.meanings))


def feature_groups(capacity: int) -> tuple[FeatureGroup, ...]:
    """Return the groups of the layout in order.

    Args:
        capacity: Players of a team: one of `CAPACITIES`.
    """
    mates = tuple(f"teammate {index}" for index in range(capacity - 1))
    own = tuple(f"own player {index}" for index in range(capacity))
    opponents = tuple(f"opponent {index}" for index in range(capacity))
    meanings: dict[str, tuple[tuple[str, ...], bool]] = {
        "controlling player": (_SELF, True),
        "ball": (_BALL, True),
        "teammates": (_each(mates, _PLAYER), False),
        "closest teammate": (_PLAYER, True),
        "opponents": (_each(opponents, _PLAYER), False),
        "closest opponent": (_PLAYER, True),
        "available actions": (tuple(action.name.lower() for action in Action), True),
        "match state": (_MATCH, True),
        "offside": (_each(own + opponents, ("is in an offside position",)), False),
        "cards": (_each(own + opponents, ("has a yellow card", "was sent off")), False),
        "sticky actions": (_STICKY, True),
        "distances to the ball": (_each(mates + opponents, ("distance",)), False),
    }
    groups = []
    start = 0
    for name, (numbers, is_local) in meanings.items():
        groups.append(FeatureGroup(name, start, numbers, is_local))
        start += len(numbers)
    return tuple(groups)


def _each(players: tuple[str, ...], numbers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{player}: {number}" for player in players for number in numbers)


def layout_capacity(num_players: tuple[int, int]) -> int:
    """Return the players of a team in the shortest layout for these teams."""
    return next(capacity for capacity in CAPACITIES if max(num_players) <= capacity)


class FeatureEncoder:
    """Writes the observations of [DIS table 2] of all seats.

    Args:
        num_players: Players of each team.
        num_seats: S.

    Attributes:
        groups: What the numbers are.
        shape: Shape of the observation of a seat.
    """

    dtype = np.float32

    def __init__(self, num_players: tuple[int, int], num_seats: int) -> None:
        capacity = layout_capacity(num_players)
        self.groups = feature_groups(capacity)
        self.shape = (self.groups[-1].slice.stop,)
        self.views = TeamViews(capacity)
        self._capacity = capacity
        self._slices = [group.slice for group in self.groups]
        self._seats = np.arange(num_seats)
        self._mates = np.arange(capacity - 1)
        self._players = np.zeros((num_seats, 2 * capacity, len(_PLAYER)), np.float32)
        self._available = np.zeros((num_seats, NUM_ACTIONS), bool)

    def encode(self, state: State, out: np.ndarray) -> None:
        """Write the observations of all seats.

        Args:
            state: Moment of the match.
            out: ``[S, 214 or 370] float32``, overwritten.
        """
        self.views.update(state)
        views, count = self.views, self._capacity
        own_player, ball, mates, near_mate, opponents, near, actions, match, offside, cards, sticky, distances = (
            out[:, where] for where in self._slices
        )
        team, own = state.team, np.maximum(state.controlled, 0)
        present = views.present[team]
        plays = present[self._seats, own] & (state.controlled >= 0)
        players = self._relative_players(team, own, present)
        others = self._mates + (self._mates >= own[:, None])  # all but the own player
        mates.reshape(-1, count - 1, len(_PLAYER))[:] = players[self._seats[:, None], others]
        opponents[:] = players[:, count:].reshape(len(team), -1)
        far = np.where(present, players[..., -1], np.float32(np.inf))
        far[self._seats, own] = np.inf
        near_mate[:] = self._nearest(far[:, :count], 0, players)
        near[:] = self._nearest(far[:, count:], count, players)
        self._write_self(state, own_player, players[self._seats, own, 2:8], plays)
        self._write_ball(team, ball, players[self._seats, own, 2:4])
        actions[:] = available(state, self._available)
        match[:] = views.match[team]
        offside[:] = views.offside[team]
        cards[:] = views.cards[team].reshape(len(team), -1)
        sticky[:] = np.where((team == RIGHT)[:, None], state.sticky[:, TURNED_STICKY], state.sticky)
        from_ball = self._ball_distances()[team]
        distances[:, : count - 1] = from_ball[self._seats[:, None], others]
        distances[:, count - 1 :] = from_ball[:, count:]

    def _relative_players(self, team: np.ndarray, own: np.ndarray, present: np.ndarray) -> np.ndarray:
        """Return the nine numbers of every player for every seat, ``[S, 2P, 9] float32``."""
        players = self._players
        players[..., 2:8] = self.views.players[team]
        np.subtract(players[..., 2:4], players[self._seats, own, None, 2:4], out=players[..., 0:2])
        apart = players[..., 0:2] * (METRES / _METRE_PER_UNIT)
        np.hypot(apart[..., 0], apart[..., 1], out=players[..., 8])
        players *= present[..., None]
        return players

    def _nearest(self, far: np.ndarray, first: int, players: np.ndarray) -> np.ndarray:
        """Return the numbers of the player with the smallest of the distances ``[S, P]``, 0 if all are infinite."""
        index = far.argmin(axis=1)
        return np.asarray(players[self._seats, first + index])  # an absent player has numbers of 0

    def _write_self(self, state: State, out: np.ndarray, player: np.ndarray, plays: np.ndarray) -> None:
        out[:, :6] = player
        out[:, 6:16] = 0
        role = state.role[state.team, state.controlled]
        out[self._seats, 6 + role] = plays
        out[:, 16] = plays & (state.team == state.owner_team) & (state.controlled == state.owner_player)
        to_line = (1 - player[:, 0]) * _METRE_PER_UNIT
        y = player[:, 1] * METRES[1]
        out[:, 17] = np.hypot(to_line, y) / _METRE_PER_UNIT
        post = GOAL_Y * METRES[1]
        out[:, 18] = (np.arctan2(y + post, to_line) - np.arctan2(y - post, to_line)) / np.pi
        out[:, 17:19] *= plays[:, None]

    def _write_ball(self, team: np.ndarray, out: np.ndarray, player: np.ndarray) -> None:
        views = self.views
        ball = views.ball[team]
        out[:, :10] = ball
        np.subtract(ball[:, :2], player, out=out[:, 10:12])
        apart = out[:, 10:12] * (METRES / _METRE_PER_UNIT)
        np.hypot(apart[:, 0], apart[:, 1], out=out[:, 12])
        out[:, 13:16] = views.owner[team]
        is_between = abs(ball[:, 1]) <= PENALTY_Y
        out[:, 16] = is_between & (ball[:, 0] <= PENALTY_X - 1)
        out[:, 17] = is_between & (ball[:, 0] >= 1 - PENALTY_X)

    def _ball_distances(self) -> np.ndarray:
        """Return the distance of every player to the ball in both views, ``[2, 2P] float32``."""
        views = self.views
        apart = (views.players[..., 0:2] - views.ball[:, None, 0:2]) * (METRES / _METRE_PER_UNIT)
        return np.asarray(np.hypot(apart[..., 0], apart[..., 1]) * views.present)
