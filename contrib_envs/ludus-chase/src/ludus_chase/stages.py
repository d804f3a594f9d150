"""Goals of the mice (cakes, cheese, the wall crack), the stages of a match, and its end."""

from __future__ import annotations

import numpy as np

from ludus_chase.capture import power_factors
from ludus_chase.config import ChaseConfig
from ludus_chase.game import Game
from ludus_chase.reach import Reach, first_claims
from ludus_chase.scenario import COLUMN, begin_breaking, scaled_time_limit
from ludus_chase.world import MICE, Cheese, Stage, Status, Thing, World


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
    game.world.cheese[matches, wanted] = Cheese.HELD
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
    before = world.amount[matches, Thing.HOLES.start + hole]
    np.add.at(world.amount, (matches, Thing.HOLES.start + hole), speed)
    world.amount[matches, Thing.HOLES.start + hole] = np.minimum(world.amount[matches, Thing.HOLES.start + hole], 1.0)
    events.pushed[matches, mice] = (world.amount[matches, Thing.HOLES.start + hole] - before) / count
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
    world.cheese[matches, cheese] = Cheese.IN_HOLE
    world.thing_x[matches, Thing.CHEESES.start + cheese] = world.thing_x[matches, Thing.HOLES.start + hole]
    world.thing_y[matches, Thing.CHEESES.start + cheese] = world.thing_y[matches, Thing.HOLES.start + hole]


def _finish(game: Game, matches: np.ndarray, hole: np.ndarray, cheese: np.ndarray) -> None:
    """Remove cheese that has been pushed all the way."""
    world = game.world
    done = (world.amount[matches, Thing.HOLES.start + hole] >= 1.0 - 1e-5) & (
        world.cheese[matches, cheese] == Cheese.IN_HOLE
    )
    matches, hole, cheese = matches[done], hole[done], cheese[done]
    world.cheese[matches, cheese] = Cheese.PUSHED
    world.present[matches, Thing.CHEESES.start + cheese] = False
    world.amount[matches, Thing.HOLES.start + hole] = 1.0
    filled = np.zeros(world.cheese.shape, bool)
    filled[matches, cheese] = True
    game.events.filled += filled.sum(axis=1)


_ESCAPES = 2  # mice that must get away
_CAPTURES = 3  # of four mice, those that must not


def take_cake(game: Game, reach: Reach, selected: np.ndarray) -> None:
    """Let the scouts ``selected [B, 5] bool`` take the nearest cake; the first of several scouts gets it."""
    world = game.world
    matches, mice = np.nonzero(selected)
    cake = reach.cake[matches, mice]
    got = first_claims(matches, mice, cake, (len(selected), 2))
    matches, mice, cake = matches[got], mice[got], cake[got]
    world.hold[matches, mice] = cake
    world.present[matches, Thing.CAKES.start + cake] = False
    game.events.cake[matches, mice] = 1.0


def break_crack(game: Game, reach: Reach, selected: np.ndarray) -> None:
    """Let the mice ``selected [B, 5] bool`` at the crack break it, or escape through an open one."""
    world, events = game.world, game.events
    matches, mice = np.nonzero(selected & reach.crack)
    before = world.amount[matches, Thing.CRACK]
    through = before <= 0
    world.status[matches[through], mice[through]] = Status.ESCAPED
    matches, mice, before = matches[~through], mice[~through], before[~through]
    bite = np.float32(game.rates.crack) * power_factors(game)[matches, mice]
    total = np.zeros(len(selected), np.float32)
    np.add.at(total, matches, bite)
    share = np.minimum(world.amount[:, Thing.CRACK], total)
    events.cracked[matches, mice] = bite * (share[matches] / total[matches])
    events.crack -= share
    world.amount[:, Thing.CRACK] -= share
    opened = (total > 0) & (world.amount[:, Thing.CRACK] <= 1e-5)
    world.amount[opened, Thing.CRACK] = 0.0
    events.opened += opened


def advance_stage(game: Game) -> None:
    """Advance the time, end preparations, and open the last stage where all cheese is pushed."""
    world, rates = game.world, game.rates
    world.ticks += world.running
    world.left -= world.running
    world.played += world.running & (world.stage != Stage.PREPARATION)
    over = np.flatnonzero(world.running & (world.stage == Stage.PREPARATION) & (world.left <= 0))
    if len(over):
        _end_preparation(game, over)
    ready = np.flatnonzero(world.running & (world.stage == Stage.PUSHING) & (world.pushed >= game.config.cheeses))
    if len(ready):
        begin_breaking(world, ready, rates)


def _end_preparation(game: Game, matches: np.ndarray) -> None:
    """Reset positions; each cake taken raises the level of the mice, each destroyed scout that of the cat."""
    world = game.world
    world.stage[matches] = Stage.PUSHING
    world.left[matches] = scaled_time_limit(world, game.rates.push)[matches]
    cakes = (world.hold[matches, 1:] >= 0).sum(axis=1)
    world.level[matches, 0] += world.wrecks[matches]
    world.level[matches, 1:] += cakes[:, None]
    world.hold[matches] = -1
    world.present[matches, Thing.CAKES] = False
    world.seen_present[matches, :, Thing.CAKES] = False
    world.status[matches] = np.where(world.status[matches] == Status.WRECKED, Status.FREE, world.status[matches])
    world.bound[matches] = 0
    world.x[matches], world.y[matches] = world.start_x[matches], world.start_y[matches]


def find_endings(world: World, config: ChaseConfig) -> tuple[np.ndarray, np.ndarray]:
    """Return which matches end, ``[B] bool``, and the points of their mice, ``[B] float32``."""
    status = world.status[:, 1:]
    escaped = (status == Status.ESCAPED).sum(axis=1)
    lost = ((status == Status.ELIMINATED) | (status == Status.ABSENT)).sum(axis=1)
    won, beaten = escaped >= _ESCAPES, lost > MICE - _ESCAPES
    ended = world.running & (won | beaten | (world.left <= 0))
    points = np.where(won, 1.0, np.where(beaten, 0.0, _points_at_time_limit(world, config, escaped=escaped, lost=lost)))
    return ended, points.astype(np.float32)


def _points_at_time_limit(world: World, config: ChaseConfig, *, escaped: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Return ``[B] float64``: the points of the mice at the time limit.

    The option `count` compares the share of cheeses and escapes of the mice with the share of three captures.
    """
    if config.time_over == "cat":
        return np.zeros(len(world.left))
    if config.time_over == "draw":
        return np.full(len(world.left), 0.5)
    mice = (world.pushed / config.cheeses + escaped / _ESCAPES) / 2
    lead = (mice - lost / _CAPTURES).round(9)  # equal shares may differ by rounding
    points: np.ndarray = 0.5 + 0.5 * np.sign(lead)
    return points
