"""A state in the views of both teams, from which the observations of all seats are taken."""

from __future__ import annotations

import numpy as np

from ludus_football.state import LEFT, METRES, NOBODY, RIGHT, State

_BALL_SCALE = np.array([1, 1, 1 / 5, *(METRES / 2), 1 / 2, 1 / 2, 100, 100, 100], np.float32)
_BALL_TURN = np.array([-1, -1, 1, -1, -1, 1, 1, -1, -1, 1], np.float32)
_GOALS_SCALE = 5.0


class TeamViews:
    """A state as both teams see it.

    Axis 0 of all arrays is the team that sees, 0 left and 1 right. Players are those of this team, 0 to P - 1, then
    its opponents.

    Args:
        capacity: P, at least the players of a team.

    Attributes:
        players: ``[2, 2P, 6] float32``: x, y, movement along x and y in metres, speed, tiredness.
        present: ``[2, 2P] bool``: the player exists and was not sent off.
        offside: ``[2, 2P] bool``: the player is in an offside position.
        cards: ``[2, 2P, 2] bool``: it has a yellow card, it was sent off.
        ball: ``[2, 10] float32``: the first ten numbers of the group ``ball``.
        owner: ``[2, 3] bool``: no player, the own team, the opponents have the ball.
        match: ``[2, 10] float32``: the group ``match state``.
    """

    def __init__(self, capacity: int) -> None:
        count = 2 * capacity
        self._capacity = capacity
        self.players = np.zeros((2, count, 6), np.float32)
        self.present = np.zeros((2, count), bool)
        self.offside = np.zeros((2, count), bool)
        self.cards = np.zeros((2, count, 2), bool)
        self.ball = np.zeros((2, 10), np.float32)
        self.owner = np.zeros((2, 3), bool)
        self.match = np.zeros((2, 10), np.float32)
        self._player_halves = self._by_team(self.players)
        self._present_halves = self._by_team(self.present)
        self._offside_halves = self._by_team(self.offside)
        self._card_halves = self._by_team(self.cards)

    def _by_team(self, array: np.ndarray) -> np.ndarray:
        """Return a view ``[2, 2, P, …]`` whose axis 1 is own players and opponents."""
        return array.reshape(2, 2, self._capacity, *array.shape[2:])

    def update(self, state: State) -> None:
        """Read a state."""
        self._read_players(state)
        self._read_ball(state)
        self._find_offside()
        self._read_match(state)

    def _read_players(self, state: State) -> None:
        count = state.position.shape[1]
        left = self._player_halves[LEFT, :, :count]
        left[..., 0:2] = state.position
        np.multiply(state.direction, METRES, out=left[..., 2:4])
        np.hypot(left[..., 2], left[..., 3], out=left[..., 4])
        left[..., 5] = state.tired
        left *= state.active[..., None]
        right = self._player_halves[RIGHT, :, :count]
        right[:] = left[::-1]
        np.negative(right[..., :4], out=right[..., :4])
        present, cards = self._present_halves[..., :count], self._card_halves[:, :, :count]
        present[LEFT] = state.active
        cards[LEFT, :, :, 0] = state.yellow
        np.less(np.arange(count), np.array(state.num_players)[:, None], out=cards[LEFT, :, :, 1])
        cards[LEFT, :, :, 1] &= ~state.active
        present[RIGHT], cards[RIGHT] = present[LEFT, ::-1], cards[LEFT, ::-1]

    def _read_ball(self, state: State) -> None:
        ball = self.ball[LEFT]
        ball[0:3], ball[3:6], ball[7:10] = state.ball, state.ball_direction, state.ball_rotation
        ball *= _BALL_SCALE
        ball[6] = np.sqrt(ball[3:6] @ ball[3:6])
        np.multiply(ball, _BALL_TURN, out=self.ball[RIGHT])
        self.owner[:] = False
        if state.owner_team == NOBODY:
            self.owner[:, 0] = True
        else:
            self.owner[state.owner_team, 1] = self.owner[1 - state.owner_team, 2] = True

    def _find_offside(self) -> None:
        """Find players in the opponents' half, nearer to its goal line than the ball and the last opponent but one."""
        x = self._player_halves[..., 0]
        opponents = np.where(self._present_halves[:, 1], x[:, 1], -np.inf)
        line = np.sort(opponents, axis=1)[:, -2]
        line[np.isneginf(line)] = np.inf  # the rule needs two opponents
        line = np.maximum(np.maximum(line, 0), self.ball[:, 0])
        own = self._offside_halves[:, 0]
        np.greater(x[:, 0], line[:, None], out=own)
        own &= self._present_halves[:, 0]
        self._offside_halves[:, 1] = own[::-1]

    def _read_match(self, state: State) -> None:
        match = self.match
        match[:] = 0
        match[:, 0] = state.steps_left / max(1, state.game_duration)
        match[:, 1] = state.score
        match[:, 2] = state.score[::-1]
        match[:, 1:3] /= _GOALS_SCALE
        match[:, 3 + state.mode] = 1
