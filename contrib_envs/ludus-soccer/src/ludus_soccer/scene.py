"""A match seen from above, in metres."""

from __future__ import annotations

import numpy as np
from attrs import frozen
from ludus.rendering import Box, Circle, Label, Line, Scene

_COLORS = ("#3ec1d3", "#f0c000")  # by team
_GRASS, _MARKING, _BALL = "#2f6b3a", "#8fb996", "#ffffff"
_BORDER = 2.0  # metres around the field
_BODY, _BALL_RADIUS = 1.0, 0.5
_HEADING = 1.8  # length of the line that shows where a player looks


@frozen
class Placement:
    """Positions on the field; its centre is the origin, the home team attacks towards positive x.

    Attributes:
        half_size: ``[2] float64``: half the length and width of the field.
        goals: ``[2, 2, 2] float64``: corners (lower, upper) of the ground of each team's goal.
        ball: ``[2] float64``.
        players: ``[players, 2] float64``, home team first.
        headings: ``[players, 2] float64``: unit vectors.
    """

    half_size: np.ndarray
    goals: np.ndarray
    ball: np.ndarray
    players: np.ndarray
    headings: np.ndarray


def draw_scene(placement: Placement, teams: np.ndarray, goals: np.ndarray) -> Scene:
    """Return the scene; the home team plays from left to right.

    Args:
        placement: Positions.
        teams: ``[players] int64``: team of each player.
        goals: ``[2] float64``: goals that each team has scored.
    """
    half_x, half_y = placement.half_size
    middle = placement.half_size + _BORDER

    def point(position: np.ndarray) -> tuple[float, float]:
        return float(middle[0] + position[0]), float(middle[1] - position[1])

    nets = [
        Box(*point(np.array([lower[0], upper[1]])), upper[0] - lower[0], upper[1] - lower[1], _COLORS[team])
        for team, (lower, upper) in enumerate(placement.goals)
    ]
    bodies: list[Circle | Line] = []
    for position, heading, team in zip(placement.players, placement.headings, teams, strict=True):
        color = _COLORS[team]
        bodies += [
            Circle(*point(position), _BODY, color),
            Line(*point(position), *point(position + _HEADING * heading), color, width=0.4),
        ]
    return Scene(
        width=2 * middle[0],
        height=2 * middle[1],
        background=_GRASS,
        shapes=[
            *nets,
            *_outline(half_x, half_y, middle),
            *bodies,
            Circle(*point(placement.ball), _BALL_RADIUS, _BALL),
            Label(float(middle[0]), 2.5, f"{goals[0]:.0f} : {goals[1]:.0f}", 3.0),
        ],
    )


def _outline(half_x: float, half_y: float, middle: np.ndarray) -> list[Line]:
    """Return the lines around the field and through its middle."""
    left, right = middle[0] - half_x, middle[0] + half_x
    top, bottom = middle[1] - half_y, middle[1] + half_y
    ends = (
        (left, top, right, top),
        (left, bottom, right, bottom),
        (left, top, left, bottom),
        (right, top, right, bottom),
        (middle[0], top, middle[0], bottom),
    )
    return [Line(*one, _MARKING, width=0.3) for one in ends]
