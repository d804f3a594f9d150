"""Specific scenarios: frequent and decisive situations with random positions [DIS §3.2.4, figure 5].

The paper names the situations and shows the areas of one of them; all numbers are chosen here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from attrs import evolve, frozen

from ludus_football.formations import MatchSetup, Team, exchange_line_ups
from ludus_football.state import GameMode

#: Most ticks of a match in a specific scenario.
DRILL_TICKS = 512


@frozen
class Area:
    """A rectangle of the field, in the view of the attacking team.

    Args:
        x: Lowest and highest x.
        y: Lowest and highest y.
    """

    x: tuple[float, float]
    y: tuple[float, float] = (-0.4, 0.4)

    def draw(self, rng: np.random.Generator) -> tuple[float, float]:
        """Return a random point."""
        return float(rng.uniform(*self.x)), float(rng.uniform(*self.y))


@frozen(kw_only=True)
class Drill:
    """A specific scenario; the left team attacks, unless the teams are exchanged.

    Attributes:
        setup: Players and rules.
        mode: Set piece with which it starts.
        attacker: Team that attacks, and takes the set piece.
    """

    setup: MatchSetup
    mode: GameMode
    attacker: int


_FIELD = Area((-0.9, 0.9))
#: Defenders start at least so far from the ball.
_LEAST_DISTANCE = 0.1


def make_drill(name: str, setup: MatchSetup, attacker: int, rng: np.random.Generator) -> Drill:
    """Return the start of a specific scenario.

    Args:
        name: One of `DRILLS`.
        setup: The match that it is a part of.
        attacker: Team that attacks.
        rng: Draws the positions.
    """
    drawn, mode = DRILLS[name](setup, rng)
    return Drill(setup=exchange_line_ups(drawn) if attacker else drawn, mode=mode, attacker=attacker)


def _place(team: Team, points: Sequence[tuple[float, float]]) -> Team:
    """Return a team with its field players at the given points, in an order of theirs, in its own view."""
    return (team[0], *(evolve(place, x=x, y=y) for place, (x, y) in zip(team[1:], points, strict=True)))


def _draw(rng: np.random.Generator, *areas: Area) -> list[tuple[float, float]]:
    return [area.draw(rng) for area in areas]


def _draw_defenders(rng: np.random.Generator, ball: tuple[float, float], *areas: Area) -> list[tuple[float, float]]:
    """Return a random point in each area that is not next to the ball; every area is larger than that."""
    points = []
    for area in areas:
        point = area.draw(rng)
        while np.hypot(point[0] - ball[0], point[1] - ball[1]) < _LEAST_DISTANCE:
            point = area.draw(rng)
        points.append(point)
    return points


def _shuffled(rng: np.random.Generator, points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points in random order, so that any player may get the first one."""
    return [points[index] for index in rng.permutation(len(points))]


def _turned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return points in the view of the other team."""
    return [(-x, -y) for x, y in points]


def _arrange(
    setup: MatchSetup,
    rng: np.random.Generator,
    *,
    ball: tuple[float, float],
    attackers: list[tuple[float, float]],
    defenders: list[tuple[float, float]],
) -> MatchSetup:
    """Return the match with its field players at points in the view of the attacking team."""
    left = _place(setup.left, _shuffled(rng, attackers))
    right = _place(setup.right, _shuffled(rng, _turned(defenders)))
    return evolve(setup, left=left, right=right, ball=ball)


def _others(team: Team, placed: int) -> int:
    """Return how many field players of a team are left."""
    return len(team) - 1 - placed


def _kickoff(setup: MatchSetup, rng: np.random.Generator) -> tuple[MatchSetup, GameMode]:
    """Kick-off: two players are at the ball, the others anywhere in their halves."""
    own, theirs = Area((-0.9, -0.05)), Area((0.2, 0.9))
    attackers = [(0.0, 0.02), (0.0, -0.02), *_draw(rng, *[own] * _others(setup.left, 2))]
    defenders = _draw_defenders(rng, (0.0, 0.0), *[theirs] * _others(setup.right, 0))
    return _arrange(setup, rng, ball=(0.0, 0.0), attackers=attackers, defenders=defenders), GameMode.KICK_OFF


def _anywhere(setup: MatchSetup, rng: np.random.Generator, ball: tuple[float, float]) -> MatchSetup:
    """Return the match with the ball at a point; the engine moves the players of a set piece from random places."""
    attackers = _draw(rng, *[_FIELD] * _others(setup.left, 0))
    defenders = _draw_defenders(rng, ball, *[_FIELD] * _others(setup.right, 0))
    return _arrange(setup, rng, ball=ball, attackers=attackers, defenders=defenders)


def _corner(setup: MatchSetup, rng: np.random.Generator) -> tuple[MatchSetup, GameMode]:
    return _anywhere(setup, rng, (1.0, float(rng.choice([-0.42, 0.42])))), GameMode.CORNER


def _freekick(setup: MatchSetup, rng: np.random.Generator) -> tuple[MatchSetup, GameMode]:
    """Free kick between the middle of the opponents' half and their penalty area."""
    return _anywhere(setup, rng, Area((0.4, 0.68), (-0.3, 0.3)).draw(rng)), GameMode.FREE_KICK


def _behind(ball: tuple[float, float], rng: np.random.Generator) -> tuple[float, float]:
    """Return a point just behind the ball."""
    return ball[0] - float(rng.uniform(0.01, 0.03)), ball[1] + float(rng.uniform(-0.01, 0.01))


def _penalty_area(setup: MatchSetup, rng: np.random.Generator) -> tuple[MatchSetup, GameMode]:
    """Attack in the penalty area: a player has the ball there, and most players are near."""
    ball = Area((0.72, 0.9), (-0.22, 0.22)).draw(rng)
    attackers = [_behind(ball, rng), *_draw(rng, *[Area((0.4, 0.9))] * _others(setup.left, 1))]
    defenders = _draw_defenders(rng, ball, *[Area((0.5, 0.95))] * _others(setup.right, 0))
    return _arrange(setup, rng, ball=ball, attackers=attackers, defenders=defenders), GameMode.KICK_OFF


def _solo(setup: MatchSetup, rng: np.random.Generator) -> tuple[MatchSetup, GameMode]:
    """One against one: a defender between the attacker with the ball and the goal, others anywhere [DIS figure 5]."""
    ball = Area((0.15, 0.45), (-0.2, 0.2)).draw(rng)
    attackers = [_behind(ball, rng), *_draw(rng, *[_FIELD] * _others(setup.left, 1))]
    between, others = Area((0.55, 0.75), (-0.2, 0.2)), [_FIELD] * _others(setup.right, 1)
    defenders = _draw_defenders(rng, ball, between, *others)
    return _arrange(setup, rng, ball=ball, attackers=attackers, defenders=defenders), GameMode.KICK_OFF


#: Specific scenarios by name.
DRILLS: Mapping[str, Callable[[MatchSetup, np.random.Generator], tuple[MatchSetup, GameMode]]] = {
    "kickoff": _kickoff,
    "corner": _corner,
    "freekick": _freekick,
    "penalty-area": _penalty_area,
    "solo": _solo,
}
