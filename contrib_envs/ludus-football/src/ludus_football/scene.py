"""A match seen from above, in metres; the left team plays from left to right."""

from __future__ import annotations

import numpy as np
from ludus.rendering import Box, Circle, Label, Line, Scene, Shape

from ludus_football.state import FIELD_Y, GOAL_Y, PENALTY_X, PENALTY_Y, GameMode, State

#: Metres of a unit of x and y.
_SCALE = np.array([54.4, 83.6])
_BORDER_M = 5.0
_COLORS = ("#3ec1d3", "#f0c000")  # by team
_GRASS, _MARKING, _BALL, _CARD = "#2f6b3a", "#8fb996", "#ffffff", "#e03030"
_PLAYER_M, _BALL_M, _RING_M = 1.3, 0.8, 1.8
_HEADING_TICKS = 8.0  # the line of a player ends where it is after these ticks
_SIZE = 2 * (np.array([1.0, FIELD_Y]) * _SCALE + _BORDER_M)


def draw_scene(state: State, names: tuple[str, str] = ("", "")) -> Scene:
    """Return the scene. Players of seats have a ring, and those with a yellow card a red spot.

    Args:
        state: A moment of the match.
        names: Names of the built-in bots that play whole teams; empty: participants.
    """
    shapes: list[Shape] = [*_field(), *_players(state)]
    shapes.append(Circle(*_point(state.ball[:2]), _BALL_M * (1.0 + 0.15 * float(max(state.ball[2], 0.0))), _BALL))
    score = f"{names[0]} {state.score[0]} : {state.score[1]} {names[1]}".strip()
    shapes.append(Label(float(_SIZE[0]) / 2, 2.0, score, 3.0))
    mode = "" if state.mode == GameMode.NORMAL else GameMode(state.mode).name.lower().replace("_", " ")
    return Scene(
        width=_SIZE[0],
        height=_SIZE[1],
        background=_GRASS,
        shapes=shapes,
        caption=f"{state.steps_left / 10:.0f} s left" + (f", {mode}" if mode else ""),
    )


def _point(position: np.ndarray) -> tuple[float, float]:
    """Return the place of a point of the field in the scene; both have y pointing down."""
    x, y = position * _SCALE + _SIZE / 2
    return float(x), float(y)


def _players(state: State) -> list[Shape]:
    controlled = set(zip(state.team.tolist(), state.controlled.tolist(), strict=True))
    shapes: list[Shape] = []
    for team, player in np.argwhere(state.active).tolist():
        position, color = state.position[team, player], _COLORS[team]
        if (team, player) in controlled:
            shapes.append(Circle(*_point(position), _RING_M, "#ffffff"))
        shapes.append(Circle(*_point(position), _PLAYER_M, color))
        ahead = position + _HEADING_TICKS * state.direction[team, player]
        shapes.append(Line(*_point(position), *_point(ahead), color, width=0.4))
        if state.yellow[team, player]:
            shapes.append(Circle(*_point(position), 0.5 * _PLAYER_M, _CARD))
    return shapes


def _field() -> list[Shape]:
    """Return the markings of the field and both goals."""
    deep = 1.0 - PENALTY_X
    corners = [((-1.0, -FIELD_Y), (1.0, FIELD_Y)), ((0.0, -FIELD_Y), (0.0, FIELD_Y))]
    corners += [((-1.0, -PENALTY_Y), (-deep, PENALTY_Y)), ((deep, -PENALTY_Y), (1.0, PENALTY_Y))]
    lines = [line for low, high in corners for line in _rectangle(*low, *high)]
    left, right = _point(np.array([-1.0, -GOAL_Y])), _point(np.array([1.0, -GOAL_Y]))
    height = float(2 * GOAL_Y * _SCALE[1])
    return [*lines, Box(left[0] - 2.0, left[1], 2.0, height, _COLORS[0]), Box(*right, 2.0, height, _COLORS[1])]


def _rectangle(left: float, top: float, right: float, bottom: float) -> list[Line]:
    points = [(left, top), (right, top), (right, bottom), (left, bottom)]
    ends = [_point(np.array(point)) for point in points]
    return [Line(*ends[index - 1], *ends[index], _MARKING, width=0.3) for index in range(len(ends))]
