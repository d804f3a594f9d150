"""One moment of a match of football, as arrays in the coordinates of the left team.

The field has x in [-1, 1], from the left team's goal to the right team's, and y in [-0.42, 0.42], from top to bottom.
Directions are distances per step. `State.mirrored` turns the field by 180 degrees and exchanges the teams.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from attrs import define, evolve

#: Number of players of a team in the largest match.
MAX_PLAYERS = 11
LEFT, RIGHT, NOBODY = 0, 1, -1
#: Coordinates of the lines: the goal lines are at x = ±1, the touchlines at y = ±`FIELD_Y`.
FIELD_Y = 0.42
GOAL_Y = 0.044
#: Length in metres of a unit of x and y. Heights are in metres.
METRES = np.array([54.4, 83.6], np.float32)
#: Penalty areas reach 16.5 m from the goal line and 20.16 m to both sides.
PENALTY_X = 16.5 / 54.4
PENALTY_Y = 20.16 / 83.6
#: Number of directions among the 10 sticky actions, which come first.
NUM_DIRECTIONS = 8
SPRINT, DRIBBLE = 8, 9
#: Where a sticky action is after a turn by 180 degrees.
TURNED_STICKY = np.array([4, 5, 6, 7, 0, 1, 2, 3, SPRINT, DRIBBLE])


class GameMode(IntEnum):
    """Kinds of play, by the numbers of the engine."""

    NORMAL = 0
    KICK_OFF = 1
    GOAL_KICK = 2
    FREE_KICK = 3
    CORNER = 4
    THROW_IN = 5
    PENALTY = 6


@define(kw_only=True, eq=False)
class State:
    """One moment of a match, in the coordinates of the left team.

    N is the number of players of the larger team, S the number of seats. Axis 0 of arrays ``[2, …]`` is the team: 0
    left, 1 right. Entries of players that a smaller team does not have are 0.

    Attributes:
        ball: ``[3] float32``: x, y and height of the ball.
        ball_direction: ``[3] float32``: movement per step.
        ball_rotation: ``[3] float32``: rotation per step.
        owner_team: Team that has the ball; -1: none.
        owner_player: Player of that team; -1: none.
        position: ``[2, N, 2] float32``.
        direction: ``[2, N, 2] float32``: movement per step.
        tired: ``[2, N] float32``, in [0, 1].
        active: ``[2, N] bool``: the player exists and was not sent off.
        yellow: ``[2, N] bool``: the player has a yellow card.
        role: ``[2, N] int64``: the engine's number of the role, 0 (goalkeeper) to 9 (centre forward).
        num_players: Players of each team at the start of the match.
        controlled: ``[S] int64``: player that a seat controls; -1: none.
        team: ``[S] int64``: team of a seat.
        sticky: ``[S, 10] bool``: actions that hold on: left, top left, … clockwise to bottom left, sprint, dribble.
        score: Goals of each team.
        mode: A number of `GameMode`.
        steps_left: Steps until the match ends.
        game_duration: Steps of a whole match.
    """

    ball: np.ndarray
    ball_direction: np.ndarray
    ball_rotation: np.ndarray
    owner_team: int = NOBODY
    owner_player: int = NOBODY
    position: np.ndarray
    direction: np.ndarray
    tired: np.ndarray
    active: np.ndarray
    yellow: np.ndarray
    role: np.ndarray
    num_players: tuple[int, int]
    controlled: np.ndarray
    team: np.ndarray
    sticky: np.ndarray
    score: tuple[int, int] = (0, 0)
    mode: int = GameMode.NORMAL
    steps_left: int = 3000
    game_duration: int = 3000

    @classmethod
    def empty(cls, num_players: tuple[int, int], num_seats: tuple[int, int]) -> State:
        """Return a state with all players in the middle of the field; seats control the last players of their team.

        Args:
            num_players: Players of each team.
            num_seats: Seats of each team.
        """
        count = max(num_players)
        controlled = [np.arange(size - seats, size) for size, seats in zip(num_players, num_seats, strict=True)]
        return cls(
            ball=np.zeros(3, np.float32),
            ball_direction=np.zeros(3, np.float32),
            ball_rotation=np.zeros(3, np.float32),
            position=np.zeros((2, count, 2), np.float32),
            direction=np.zeros((2, count, 2), np.float32),
            tired=np.zeros((2, count), np.float32),
            active=np.arange(count) < np.array(num_players)[:, None],
            yellow=np.zeros((2, count), bool),
            role=np.zeros((2, count), np.int64),
            num_players=num_players,
            controlled=np.concatenate(controlled),
            team=np.repeat([LEFT, RIGHT], num_seats),
            sticky=np.zeros((sum(num_seats), NUM_DIRECTIONS + 2), bool),
        )

    def mirrored(self) -> State:
        """Return the same moment with the field turned by 180 degrees and the teams exchanged.

        Seats keep their order, so those of the new right team come first.
        """
        turn = np.array([-1.0, -1.0, 1.0], np.float32)
        return evolve(
            self,
            ball=self.ball * turn,
            ball_direction=self.ball_direction * turn,
            ball_rotation=self.ball_rotation * turn,
            owner_team=self.owner_team if self.owner_team == NOBODY else 1 - self.owner_team,
            position=-self.position[::-1],
            direction=-self.direction[::-1],
            tired=self.tired[::-1],
            active=self.active[::-1],
            yellow=self.yellow[::-1],
            role=self.role[::-1],
            num_players=self.num_players[::-1],
            team=1 - self.team,
            sticky=self.sticky[:, TURNED_STICKY],
            score=self.score[::-1],
        )
