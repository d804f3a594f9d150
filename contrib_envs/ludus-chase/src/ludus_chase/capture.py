"""Captures: hitting, catching and tying mice, and rescues."""

from __future__ import annotations

import numpy as np

from ludus_chase.damage import damage_mice, destroy_scouts, power_factors, release_mice, stun_cat
from ludus_chase.game import Game
from ludus_chase.reach import Reach
from ludus_chase.scenario import COLUMN
from ludus_chase.world import CARRIED, DOWN, ELIMINATED, PREPARATION, ROCKETS, TIED

__all__ = ["advance_clocks", "catch", "drop_mouse", "hit", "hit_mice", "rescue", "tie"]


def hit(game: Game, reach: Reach, selected: np.ndarray) -> None:
    """Apply hits of the cats ``selected [B] bool`` on the nearest mouse; a hit binds the cat."""
    game.world.bound[selected, 0] = game.rates.swing
    matches = np.flatnonzero(selected & (reach.hittable_mouse > 0))
    hit_mice(game, matches, reach.hittable_mouse[matches])


def hit_mice(game: Game, matches: np.ndarray, mice: np.ndarray) -> None:
    """Damage mice ``[n]`` of matches ``[n]`` by a hit of the cat; in the preparation, destroy them."""
    world = game.world
    scouts = world.stage[matches] == PREPARATION
    destroy_scouts(game, matches[scouts], mice[scouts])
    matches, mice = matches[~scouts], mice[~scouts]
    damage = (
        np.float32(game.config.hit_damage)
        * world.handicap[matches, COLUMN["hit_power"]]
        * power_factors(game)[matches, 0]
    )
    damage_mice(game, matches, mice, damage)


def catch(game: Game, reach: Reach, selected: np.ndarray) -> None:
    """Let the cats ``selected [B] bool`` pick up the nearest mouse that is down."""
    world = game.world
    matches = np.flatnonzero(selected & (reach.catchable_mouse > 0))
    mice = reach.catchable_mouse[matches]
    world.hold[matches, 0] = mice
    world.status[matches, mice], world.clock[matches, mice] = CARRIED, game.rates.struggle
    game.events.caught[matches, mice] = 1.0


def tie(game: Game, reach: Reach, selected: np.ndarray) -> None:
    """Let the cats ``selected [B] bool`` tie their mouse to the nearest free rocket and light it."""
    world = game.world
    matches = np.flatnonzero(selected & (world.hold[:, 0] > 0))
    mice, free_rocket = world.hold[matches, 0], reach.free_rocket[matches]
    world.hold[matches, 0] = -1
    fuse = np.ceil(game.rates.rocket * world.handicap[matches, COLUMN["rocket_time"]] - 1e-4)
    world.status[matches, mice], world.clock[matches, mice] = TIED, fuse.astype(np.int32)
    world.rocket[matches, mice], world.rescue[matches, mice] = free_rocket, 0.0
    world.x[matches, mice] = world.thing_x[matches, ROCKETS.start + free_rocket]
    world.y[matches, mice] = world.thing_y[matches, ROCKETS.start + free_rocket]
    world.amount[matches, ROCKETS.start + free_rocket] = 1.0
    game.events.tied[matches] = 1.0


def drop_mouse(game: Game, selected: np.ndarray) -> None:
    """Let the cats ``selected [B] bool`` drop their mouse, which is down again."""
    world = game.world
    matches = np.flatnonzero(selected)
    mice = world.hold[matches, 0]
    world.hold[matches, 0] = -1
    world.status[matches, mice], world.clock[matches, mice] = DOWN, game.rates.down


def rescue(game: Game, reach: Reach, selected: np.ndarray) -> None:
    """Let the mice ``selected [B, 5] bool`` untie the mouse at the rocket in reach; their progress adds up."""
    world = game.world
    matches, mice = np.nonzero(selected)
    tied = reach.tied[matches, mice]
    np.add.at(world.rescue, (matches, tied), np.float32(game.rates.rescue) * power_factors(game)[matches, mice])
    loose = world.rescue[matches, tied] >= 1.0 - 1e-5
    matches, mice, tied = matches[loose], mice[loose], tied[loose]
    game.events.rescued[matches, mice] = 1.0
    _untie(game, matches, tied)
    release_mice(world, matches, tied, health=50.0, safe=2 * game.rates.stumble)


def _untie(game: Game, matches: np.ndarray, mice: np.ndarray) -> None:
    """Detach mice ``[n]`` of matches ``[n]`` from their rockets, which are free again."""
    world = game.world
    world.amount[matches, ROCKETS.start + world.rocket[matches, mice]] = 0.0
    world.rocket[matches, mice] = -1
    world.rescue[matches, mice] = 0.0


def advance_clocks(game: Game) -> None:
    """Advance the clocks of mice that are down, carried or tied."""
    world = game.world
    waiting = (world.status >= DOWN) & (world.status <= TIED) & world.running[:, None]
    matches, mice = np.nonzero(waiting)
    if not len(matches):
        return
    world.clock[matches, mice] -= 1
    status, over = world.status[matches, mice], world.clock[matches, mice] <= 0
    up = over & (status == DOWN)
    release_mice(world, matches[up], mice[up], health=40.0, safe=game.rates.stumble)
    stun_cat(game, matches[over & (status == CARRIED)], game.rates.stumble)
    _advance_fuses(game, matches[status == TIED], mice[status == TIED])


def _advance_fuses(game: Game, matches: np.ndarray, mice: np.ndarray) -> None:
    """Update the fuses of rockets with tied mice ``[n]``, and launch the rockets whose fuse is over."""
    world = game.world
    whole = np.ceil(game.rates.rocket * world.handicap[matches, COLUMN["rocket_time"]] - 1e-4)
    world.amount[matches, ROCKETS.start + world.rocket[matches, mice]] = world.clock[matches, mice] / whole
    gone = world.clock[matches, mice] <= 0
    matches, mice = matches[gone], mice[gone]
    _untie(game, matches, mice)
    world.status[matches, mice] = ELIMINATED
    game.events.eliminated[matches, mice] = 1.0
