"""Capture: hitting mice, catching them, tying them to rockets, and rescue."""

from __future__ import annotations

import numpy as np

from ludus_chase.blows import Game, free, hurt, power, stun_cat, wreck
from ludus_chase.reach import Reach
from ludus_chase.scenario import COLUMN
from ludus_chase.world import CARRIED, DOWN, ELIMINATED, PREPARATION, ROCKETS, TIED

__all__ = ["catch", "hit", "let_go", "rescue", "run_clocks", "strike", "tie"]


def hit(game: Game, reach: Reach, who: np.ndarray) -> None:
    """Let cats ``[B] bool`` swing at the nearest mouse; the swing binds them."""
    game.world.bound[who, 0] = game.rates.swing
    rows = np.flatnonzero(who & (reach.prey > 0))
    strike(game, rows, reach.prey[rows])


def strike(game: Game, rows: np.ndarray, mice: np.ndarray) -> None:
    """Hit mice ``[n]`` of matches ``[n]`` with the cat's paw; in the preparation that destroys scouts."""
    world = game.world
    scouts = world.stage[rows] == PREPARATION
    wreck(game, rows[scouts], mice[scouts])
    rows, mice = rows[~scouts], mice[~scouts]
    damage = np.float32(game.config.hit_damage) * world.handicap[rows, COLUMN["hit_power"]] * power(game)[rows, 0]
    hurt(game, rows, mice, damage)


def catch(game: Game, reach: Reach, who: np.ndarray) -> None:
    """Let cats ``[B] bool`` pick up the nearest mouse that is down."""
    world = game.world
    rows = np.flatnonzero(who & (reach.fallen > 0))
    mice = reach.fallen[rows]
    world.hold[rows, 0] = mice
    world.status[rows, mice], world.clock[rows, mice] = CARRIED, game.rates.struggle
    game.events.caught[rows, mice] = 1.0


def tie(game: Game, reach: Reach, who: np.ndarray) -> None:
    """Let cats ``[B] bool`` tie the mouse they carry to the nearest free rocket and light it."""
    world = game.world
    rows = np.flatnonzero(who & (world.hold[:, 0] > 0))
    mice, post = world.hold[rows, 0], reach.post[rows]
    world.hold[rows, 0] = -1
    fuse = np.ceil(game.rates.rocket * world.handicap[rows, COLUMN["rocket_time"]] - 1e-4)
    world.status[rows, mice], world.clock[rows, mice] = TIED, fuse.astype(np.int32)
    world.rocket[rows, mice], world.rescue[rows, mice] = post, 0.0
    world.x[rows, mice] = world.thing_x[rows, ROCKETS.start + post]
    world.y[rows, mice] = world.thing_y[rows, ROCKETS.start + post]
    world.amount[rows, ROCKETS.start + post] = 1.0
    game.events.tied[rows] = 1.0


def let_go(game: Game, who: np.ndarray) -> None:
    """Let cats ``[B] bool`` drop the mouse they carry; it lies down again."""
    world = game.world
    rows = np.flatnonzero(who)
    mice = world.hold[rows, 0]
    world.hold[rows, 0] = -1
    world.status[rows, mice], world.clock[rows, mice] = DOWN, game.rates.down


def rescue(game: Game, reach: Reach, who: np.ndarray) -> None:
    """Let mice ``[B, 5] bool`` untie the mouse at the rocket in reach; several are faster."""
    world = game.world
    rows, mice = np.nonzero(who)
    tied = reach.tied[rows, mice]
    np.add.at(world.rescue, (rows, tied), np.float32(game.rates.rescue) * power(game)[rows, mice])
    loose = world.rescue[rows, tied] >= 1.0 - 1e-5
    rows, mice, tied = rows[loose], mice[loose], tied[loose]
    game.events.rescued[rows, mice] = 1.0
    _untie(game, rows, tied)
    free(world, rows, tied, health=50.0, safe=2 * game.rates.stumble)


def _untie(game: Game, rows: np.ndarray, mice: np.ndarray) -> None:
    """Give rockets free again."""
    world = game.world
    world.amount[rows, ROCKETS.start + world.rocket[rows, mice]] = 0.0
    world.rocket[rows, mice] = -1
    world.rescue[rows, mice] = 0.0


def run_clocks(game: Game) -> None:
    """Let time pass for mice that are down, carried or tied."""
    world = game.world
    waiting = (world.status >= DOWN) & (world.status <= TIED) & world.going[:, None]
    rows, mice = np.nonzero(waiting)
    if not len(rows):
        return
    world.clock[rows, mice] -= 1
    status, over = world.status[rows, mice], world.clock[rows, mice] <= 0
    up = over & (status == DOWN)
    free(world, rows[up], mice[up], health=40.0, safe=game.rates.stumble)
    stun_cat(game, rows[over & (status == CARRIED)], game.rates.stumble)
    _burn(game, rows[status == TIED], mice[status == TIED])


def _burn(game: Game, rows: np.ndarray, mice: np.ndarray) -> None:
    """Show how long fuses are, and let rockets leave whose fuse has burnt down."""
    world = game.world
    whole = np.ceil(game.rates.rocket * world.handicap[rows, COLUMN["rocket_time"]] - 1e-4)
    world.amount[rows, ROCKETS.start + world.rocket[rows, mice]] = world.clock[rows, mice] / whole
    gone = world.clock[rows, mice] <= 0
    rows, mice = rows[gone], mice[gone]
    _untie(game, rows, mice)
    world.status[rows, mice] = ELIMINATED
    game.events.eliminated[rows, mice] = 1.0
