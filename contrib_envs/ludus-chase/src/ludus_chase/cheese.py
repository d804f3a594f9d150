"""Cheese: lifting it and pushing it through holes."""

from __future__ import annotations

import numpy as np

from ludus_chase.damage import power_factors
from ludus_chase.game import Game
from ludus_chase.reach import Reach, first_claims
from ludus_chase.scenario import COLUMN
from ludus_chase.world import CHEESES, HELD, HOLES, IN_HOLE, PUSHED

__all__ = ["lift", "push"]


def lift(game: Game, reach: Reach, selected: np.ndarray) -> None:
    """Lift cheese from the floor; the first of several mice gets it.

    Args:
        game: State to change.
        reach: Targets in reach.
        selected: ``[B, 5] bool``: mice that act.
    """
    matches, mice = np.nonzero(selected)
    wanted = reach.cheese[matches, mice]
    got = first_claims(matches, mice, wanted, (len(selected), 5))
    matches, mice, wanted = matches[got], mice[got], wanted[got]
    game.world.hold[matches, mice] = wanted
    game.world.cheese[matches, wanted] = HELD
    game.events.lifted[matches, mice] = ~game.world.lifted[matches, mice, wanted]
    game.world.lifted[matches, mice, wanted] = True


def push(game: Game, reach: Reach, selected: np.ndarray) -> None:
    """Put carried cheese into free holes, and push cheese in holes; each further mouse makes all of them faster.

    Args:
        game: State to change.
        reach: Targets in reach.
        selected: ``[B, 5] bool``: mice that act.
    """
    world, events = game.world, game.events
    matches, mice = np.nonzero(selected)
    hole = reach.hole[matches, mice]
    _insert(game, matches, mice, hole)
    cheese = world.hole[matches, hole]
    pushing = (world.hold[matches, mice] < 0) & (cheese >= 0)
    matches, mice, hole, cheese = matches[pushing], mice[pushing], hole[pushing], cheese[pushing]
    helpers = np.zeros((len(selected), 5), np.float32)
    np.add.at(helpers, (matches, hole), 1.0)
    count = helpers[matches, hole]
    speed = np.float32(game.rates.cheese) * (1.0 + np.float32(game.config.push_bonus) * (count - 1.0))
    speed *= world.handicap[matches, COLUMN["cheese_speed"]] * power_factors(game)[matches, mice]
    before = world.amount[matches, HOLES.start + hole]
    np.add.at(world.amount, (matches, HOLES.start + hole), speed)
    world.amount[matches, HOLES.start + hole] = np.minimum(world.amount[matches, HOLES.start + hole], 1.0)
    events.pushed[matches, mice] = (world.amount[matches, HOLES.start + hole] - before) / count
    _finish(game, matches, hole, cheese)


def _insert(game: Game, matches: np.ndarray, mice: np.ndarray, hole: np.ndarray) -> None:
    """Put carried cheese into holes; the first of several mice uses the hole."""
    world = game.world
    carries = world.hold[matches, mice] >= 0
    matches, mice, hole = matches[carries], mice[carries], hole[carries]
    put = first_claims(matches, mice, hole, world.hole.shape)
    matches, mice, hole = matches[put], mice[put], hole[put]
    cheese = world.hold[matches, mice]
    world.hole[matches, hole] = cheese
    world.hold[matches, mice] = -1
    world.cheese[matches, cheese] = IN_HOLE
    world.thing_x[matches, CHEESES.start + cheese] = world.thing_x[matches, HOLES.start + hole]
    world.thing_y[matches, CHEESES.start + cheese] = world.thing_y[matches, HOLES.start + hole]


def _finish(game: Game, matches: np.ndarray, hole: np.ndarray, cheese: np.ndarray) -> None:
    """Remove cheese that has been pushed all the way."""
    world = game.world
    done = (world.amount[matches, HOLES.start + hole] >= 1.0 - 1e-5) & (world.cheese[matches, cheese] == IN_HOLE)
    matches, hole, cheese = matches[done], hole[done], cheese[done]
    world.cheese[matches, cheese] = PUSHED
    world.present[matches, CHEESES.start + cheese] = False
    world.amount[matches, HOLES.start + hole] = 1.0
    filled = np.zeros(world.cheese.shape, bool)
    filled[matches, cheese] = True
    game.events.filled += filled.sum(axis=1)
