"""Observations of Google Research Football's own wrappers, and the state that critics read."""

from __future__ import annotations

import numpy as np

from ludus_football.features import layout_capacity
from ludus_football.state import LEFT, MAX_PLAYERS, RIGHT, GameMode, State
from ludus_football.team_views import TeamViews

SIMPLE115_SIZE = 115
MINIMAP_SHAPE = (72, 96, 4)
#: Half the width and height of the field that a minimap shows.
_MINIMAP_EDGES = np.array([1.0, 1.0 / 2.25])
_MARK = 255
#: Numbers of a player in the state that critics read.
GLOBAL_PLAYER = (
    "x",
    "y",
    "movement along x",
    "movement along y",
    "speed",
    "tiredness",
    "is on the field",
    "has a yellow card",
    "has the ball",
)


class Simple115Encoder:
    """Writes the library's ``simple115v2`` of all seats.

    Positions and movements of 11 own players and 11 opponents, -1 for players that a team does not have; position and
    movement of the ball; whether no player, the own team or the opponents have it; the own player out of 11; the mode.

    Args:
        num_players: Players of each team.
        num_seats: S.

    Attributes:
        shape: Shape of the observation of a seat.
    """

    dtype = np.float32

    def __init__(self, num_players: tuple[int, int], num_seats: int) -> None:
        self.shape = (SIMPLE115_SIZE,)
        self._num_players = num_players
        self._seats = np.arange(num_seats)
        self._views = np.full((2, SIMPLE115_SIZE), -1, np.float32)

    def encode(self, state: State, out: np.ndarray) -> None:
        """Write the observations of all seats.

        Args:
            state: Moment of the match.
            out: ``[S, 115] float32``, overwritten.
        """
        views = self._views
        for view, sign in ((LEFT, 1), (RIGHT, -1)):
            for side, team in enumerate((view, 1 - view)):
                count = self._num_players[team]
                start = 4 * MAX_PLAYERS * side
                for index, array in enumerate((state.position, state.direction)):
                    numbers = views[view, start + 2 * MAX_PLAYERS * index :]
                    numbers[: 2 * count] = sign * array[team, :count].ravel()
            views[view, 88:94] = (*(sign * state.ball[:2]), state.ball[2], *(sign * state.ball_direction[:2]), 0)
            views[view, 93] = state.ball_direction[2]
            views[view, 94:97] = 0
            views[view, 94 + (0 if state.owner_team < 0 else 1 + (state.owner_team != view))] = 1
        views[:, 97:] = 0
        views[:, 108 + state.mode] = 1
        out[:] = views[state.team]
        out[self._seats, 97 + np.maximum(state.controlled, 0)] = state.controlled >= 0


class MinimapEncoder:
    """Writes the library's ``extracted`` minimap of all seats: dots for own players, opponents, ball and own player.

    Args:
        num_players: Players of each team.
        num_seats: S.

    Attributes:
        shape: Shape of the observation of a seat: height, width, layers.
    """

    dtype = np.uint8

    def __init__(self, num_players: tuple[int, int], num_seats: int) -> None:
        self.shape = MINIMAP_SHAPE
        self._num_players = num_players
        self._seats = np.arange(num_seats)

    def encode(self, state: State, out: np.ndarray) -> None:
        """Write the observations of all seats.

        Args:
            state: Moment of the match.
            out: ``[S, 72, 96, 4] uint8``, overwritten.
        """
        out[:] = 0
        for view, sign in ((LEFT, 1), (RIGHT, -1)):
            seats = np.flatnonzero(state.team == view)
            if not seats.size:
                continue
            own, opponents = (
                _cells(sign * state.position[team, : self._num_players[team]]) for team in (view, 1 - view)
            )
            ball = _cells(sign * state.ball[None, :2])
            for layer, cells in enumerate((own, opponents, ball)):
                out[seats[:, None], cells[:, 0], cells[:, 1], layer] = _MARK
            playing = seats[state.controlled[seats] >= 0]
            mine = own[state.controlled[playing]]
            out[playing, mine[:, 0], mine[:, 1], 3] = _MARK


def _cells(points: np.ndarray) -> np.ndarray:
    """Return row and column ``[n, 2] int64`` of points ``[n, 2]``, at the edge for those beyond it."""
    height, width, _ = MINIMAP_SHAPE
    size = np.array([width, height])
    columns_rows = ((points + _MINIMAP_EDGES) / (2 * _MINIMAP_EDGES) * size).astype(np.int64)
    return np.asarray(np.clip(columns_rows, 0, size - 1)[:, ::-1])


class GlobalEncoder:
    """Writes the whole state in the view of every seat's team, for critics of all seats of a team.

    The nine numbers of `GLOBAL_PLAYER` of every own player, then of every opponent; ten numbers of the ball; which team
    has it; the match state; units as in `ludus_football.features`.

    Args:
        num_players: Players of each team.

    Attributes:
        shape: Shape of the state of a seat.
    """

    dtype = np.float32

    def __init__(self, num_players: tuple[int, int]) -> None:
        capacity = layout_capacity(num_players)
        self._views = TeamViews(capacity)
        self._capacity = capacity
        players = 2 * capacity * len(GLOBAL_PLAYER)
        self.shape = (players + 10 + 3 + 3 + len(GameMode),)
        self._states = np.zeros((2, *self.shape), np.float32)
        self._players = self._states[:, :players].reshape(2, 2 * capacity, len(GLOBAL_PLAYER))
        self._rest = self._states[:, players:]

    def encode(self, state: State, out: np.ndarray) -> None:
        """Write the states of all seats.

        Args:
            state: Moment of the match.
            out: ``[S, size] float32``, overwritten.
        """
        views, players, rest = self._views, self._players, self._rest
        views.update(state)
        players[..., :6] = views.players
        players[..., 6] = views.present
        players[..., 7] = views.cards[..., 0]
        players[..., 8] = 0
        if state.owner_player >= 0:
            players[state.owner_team, state.owner_player, 8] = 1
            players[1 - state.owner_team, self._capacity + state.owner_player, 8] = 1
        rest[:, :10], rest[:, 10:13], rest[:, 13:] = views.ball, views.owner, views.match
        out[:] = self._states[state.team]
