"""Cheese: lifting, dropping, and pushing it through holes."""

from __future__ import annotations

import numpy as np

from ludus_chase.blows import Game, power
from ludus_chase.reach import Reach, first_claims
from ludus_chase.scenario import COLUMN
from ludus_chase.world import CHEESES, HELD, HOLES, IN_HOLE, PUSHED

__all__ = ["lift", "push"]


def lift(game: Game, reach: Reach, who: np.ndarray) -> None:
    """Lift cheese from the floor; of several who try at once the first one has it.

    Args:
        game: The game.
        reach: What was in reach.
        who: ``[B, 5] bool``.
    """
    rows, mice = np.nonzero(who)
    wanted = reach.cheese[rows, mice]
    got = first_claims(rows, mice, wanted, (len(who), 5))
    rows, mice, wanted = rows[got], mice[got], wanted[got]
    game.world.hold[rows, mice] = wanted
    game.world.cheese[rows, wanted] = HELD
    game.events.lifted[rows, mice] = ~game.world.lifted[rows, mice, wanted]
    game.world.lifted[rows, mice, wanted] = True


def push(game: Game, reach: Reach, who: np.ndarray) -> None:
    """Put cheese that is carried into free holes, and push what is in a hole: the more mice, the faster each of them.

    Args:
        game: The game.
        reach: What was in reach.
        who: ``[B, 5] bool``.
    """
    world, events = game.world, game.events
    rows, mice = np.nonzero(who)
    hole = reach.hole[rows, mice]
    _insert(game, rows, mice, hole)
    cheese = world.hole[rows, hole]
    pushing = (world.hold[rows, mice] < 0) & (cheese >= 0)
    rows, mice, hole, cheese = rows[pushing], mice[pushing], hole[pushing], cheese[pushing]
    helpers = np.zeros((len(who), 5), np.float32)
    np.add.at(helpers, (rows, hole), 1.0)
    count = helpers[rows, hole]
    speed = np.float32(game.rates.cheese) * (1.0 + np.float32(game.config.push_bonus) * (count - 1.0))
    speed *= world.handicap[rows, COLUMN["cheese_speed"]] * power(game)[rows, mice]
    before = world.amount[rows, HOLES.start + hole]
    np.add.at(world.amount, (rows, HOLES.start + hole), speed)
    world.amount[rows, HOLES.start + hole] = np.minimum(world.amount[rows, HOLES.start + hole], 1.0)
    events.pushed[rows, mice] = (world.amount[rows, HOLES.start + hole] - before) / count
    _finish(game, rows, hole, cheese)


def _insert(game: Game, rows: np.ndarray, mice: np.ndarray, hole: np.ndarray) -> None:
    """Put the cheese of who carries one into the hole, the first one's where there are several."""
    world = game.world
    carries = world.hold[rows, mice] >= 0
    rows, mice, hole = rows[carries], mice[carries], hole[carries]
    put = first_claims(rows, mice, hole, world.hole.shape)
    rows, mice, hole = rows[put], mice[put], hole[put]
    cheese = world.hold[rows, mice]
    world.hole[rows, hole] = cheese
    world.hold[rows, mice] = -1
    world.cheese[rows, cheese] = IN_HOLE
    world.thing_x[rows, CHEESES.start + cheese] = world.thing_x[rows, HOLES.start + hole]
    world.thing_y[rows, CHEESES.start + cheese] = world.thing_y[rows, HOLES.start + hole]


def _finish(game: Game, rows: np.ndarray, hole: np.ndarray, cheese: np.ndarray) -> None:
    """Let cheese disappear that has been pushed all the way."""
    world = game.world
    done = (world.amount[rows, HOLES.start + hole] >= 1.0 - 1e-5) & (world.cheese[rows, cheese] == IN_HOLE)
    rows, hole, cheese = rows[done], hole[done], cheese[done]
    world.cheese[rows, cheese] = PUSHED
    world.there[rows, CHEESES.start + cheese] = False
    world.amount[rows, HOLES.start + hole] = 1.0
    filled = np.zeros(world.cheese.shape, bool)
    filled[rows, cheese] = True
    game.events.filled += filled.sum(axis=1)
