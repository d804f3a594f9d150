"""Damage to mice, captures (hitting, catching and tying mice), and rescues."""

from __future__ import annotations

import numpy as np

from ludus_chase.game import Game
from ludus_chase.reach import Reach
from ludus_chase.scenario import COLUMN
from ludus_chase.world import Cheese, Stage, Status, Thing, World


def power_factors(game: Game) -> np.ndarray:
    """Return ``[B, 5] float32``: 1 at level 1, 5 % more per level, times the boost of the scenario."""
    world = game.world
    strength = 1.0 + np.float32(0.05) * (world.level - 1.0)
    limit = world.handicap[:, COLUMN["boost_s"]] * np.float32(1000 / game.config.tick_ms)
    boosted = (world.stage != Stage.PREPARATION) & (world.played < limit)
    if boosted.any():
        strength[:, 0] *= np.where(boosted, world.handicap[:, COLUMN["cat_boost"]], np.float32(1))
        strength[:, 1:] *= np.where(boosted, world.handicap[:, COLUMN["mouse_boost"]], np.float32(1))[:, None]
    return strength


def damage_mice(game: Game, matches: np.ndarray, mice: np.ndarray, damage: np.ndarray) -> np.ndarray:
    """Take health from mice that are not safe. They are fast and safe for a while; mice without health go down.

    Args:
        game: State to change.
        matches: ``[n] int64``.
        mice: ``[n] int64``, 1 to 4; pairs of match and mouse are unique.
        damage: ``[n] float32``: damage at level 1.

    Returns:
        ``[n] bool``: the mice that lost health.
    """
    world, rates = game.world, game.rates
    hit: np.ndarray = (world.status[matches, mice] == Status.FREE) & (world.safe[matches, mice] == 0)
    at = matches[hit], mice[hit]
    world.health[at] -= damage[hit] / power_factors(game)[at]
    world.safe[at] = world.fast[at] = rates.fright
    game.events.first_damage[at[0][~world.firsts[at[0], 2]]] = 1.0
    world.firsts[at[0], 2] = True
    fell = world.health[at] <= 0
    down = at[0][fell], at[1][fell]
    drop_cheese(world, *down)
    world.health[down] = 0.0
    world.status[down], world.clock[down] = Status.DOWN, rates.down
    world.fast[down] = world.safe[down] = world.bound[down] = 0
    return hit


def drop_cheese(world: World, matches: np.ndarray, mice: np.ndarray) -> None:
    """Drop the cheese that mice ``[n]`` carry at their positions."""
    held = world.hold[matches, mice]
    matches, mice, held = matches[held >= 0], mice[held >= 0], held[held >= 0]
    world.cheese[matches, held] = Cheese.FLOOR
    world.thing_x[matches, Thing.CHEESES.start + held] = world.x[matches, mice]
    world.thing_y[matches, Thing.CHEESES.start + held] = world.y[matches, mice]
    world.hold[matches, mice] = -1


def release_mice(world: World, matches: np.ndarray, mice: np.ndarray, *, health: float, safe: int) -> None:
    """Free mice that were down, carried or tied, with at least the given health, fast and safe for `safe` ticks."""
    world.status[matches, mice] = Status.FREE
    world.clock[matches, mice] = 0
    world.health[matches, mice] = np.maximum(world.health[matches, mice], np.float32(health))
    world.safe[matches, mice] = world.fast[matches, mice] = safe


def stun_cat(game: Game, matches: np.ndarray, ticks: int) -> np.ndarray:
    """Stun cats for `ticks`; mice that they carry are free.

    Returns:
        ``[n] bool``: the cat carried a mouse.
    """
    world = game.world
    world.bound[matches, 0] = np.maximum(world.bound[matches, 0], ticks)
    held = world.hold[matches, 0]
    carried: np.ndarray = held > 0
    release_mice(world, matches[carried], held[carried], health=40.0, safe=game.rates.stumble)
    world.hold[matches, 0] = -1
    return carried


def destroy_scouts(game: Game, matches: np.ndarray, mice: np.ndarray) -> None:
    """Destroy scouts, which drop their cake."""
    world, events = game.world, game.events
    cake = world.hold[matches, mice]
    had = cake >= 0
    at, lost = (matches[had], mice[had]), Thing.CAKES.start + cake[had]
    events.cake[at] = -1.0
    world.present[matches[had], lost] = True
    world.thing_x[matches[had], lost], world.thing_y[matches[had], lost] = world.x[at], world.y[at]
    world.hold[at] = -1
    world.status[matches, mice] = Status.WRECKED
    world.wrecks[matches] += 1
    events.wrecked[matches, mice] = 1.0


def hit(game: Game, reach: Reach, selected: np.ndarray) -> None:
    """Apply hits of the cats ``selected [B] bool`` on the nearest mouse; a hit binds the cat."""
    game.world.bound[selected, 0] = game.rates.swing
    matches = np.flatnonzero(selected & (reach.hittable_mouse > 0))
    hit_mice(game, matches, reach.hittable_mouse[matches])


def hit_mice(game: Game, matches: np.ndarray, mice: np.ndarray) -> None:
    """Damage mice ``[n]`` of matches ``[n]`` by a hit of the cat; in the preparation, destroy them."""
    world = game.world
    scouts = world.stage[matches] == Stage.PREPARATION
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
    world.status[matches, mice], world.clock[matches, mice] = Status.CARRIED, game.rates.struggle
    game.events.caught[matches, mice] = 1.0


def tie(game: Game, reach: Reach, selected: np.ndarray) -> None:
    """Let the cats ``selected [B] bool`` tie their mouse to the nearest free rocket and light it."""
    world = game.world
    matches = np.flatnonzero(selected & (world.hold[:, 0] > 0))
    mice, free_rocket = world.hold[matches, 0], reach.free_rocket[matches]
    world.hold[matches, 0] = -1
    fuse = np.ceil(game.rates.rocket * world.handicap[matches, COLUMN["rocket_time"]] - 1e-4)
    world.status[matches, mice], world.clock[matches, mice] = Status.TIED, fuse.astype(np.int32)
    world.rocket[matches, mice], world.rescue[matches, mice] = free_rocket, 0.0
    world.x[matches, mice] = world.thing_x[matches, Thing.ROCKETS.start + free_rocket]
    world.y[matches, mice] = world.thing_y[matches, Thing.ROCKETS.start + free_rocket]
    world.amount[matches, Thing.ROCKETS.start + free_rocket] = 1.0
    game.events.tied[matches] = 1.0


def drop_mouse(game: Game, selected: np.ndarray) -> None:
    """Let the cats ``selected [B] bool`` drop their mouse, which is down again."""
    world = game.world
    matches = np.flatnonzero(selected)
    mice = world.hold[matches, 0]
    world.hold[matches, 0] = -1
    world.status[matches, mice], world.clock[matches, mice] = Status.DOWN, game.rates.down


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
    world.amount[matches, Thing.ROCKETS.start + world.rocket[matches, mice]] = 0.0
    world.rocket[matches, mice] = -1
    world.rescue[matches, mice] = 0.0


def advance_clocks(game: Game) -> None:
    """Advance the clocks of mice that are down, carried or tied."""
    world = game.world
    waiting = (world.status >= Status.DOWN) & (world.status <= Status.TIED) & world.running[:, None]
    matches, mice = np.nonzero(waiting)
    if not len(matches):
        return
    world.clock[matches, mice] -= 1
    status, over = world.status[matches, mice], world.clock[matches, mice] <= 0
    up = over & (status == Status.DOWN)
    release_mice(world, matches[up], mice[up], health=40.0, safe=game.rates.stumble)
    stun_cat(game, matches[over & (status == Status.CARRIED)], game.rates.stumble)
    _advance_fuses(game, matches[status == Status.TIED], mice[status == Status.TIED])


def _advance_fuses(game: Game, matches: np.ndarray, mice: np.ndarray) -> None:
    """Update the fuses of rockets with tied mice ``[n]``, and launch the rockets whose fuse is over."""
    world = game.world
    whole = np.ceil(game.rates.rocket * world.handicap[matches, COLUMN["rocket_time"]] - 1e-4)
    world.amount[matches, Thing.ROCKETS.start + world.rocket[matches, mice]] = world.clock[matches, mice] / whole
    gone = world.clock[matches, mice] <= 0
    matches, mice = matches[gone], mice[gone]
    _untie(game, matches, mice)
    world.status[matches, mice] = Status.ELIMINATED
    game.events.eliminated[matches, mice] = 1.0
