"""Damage, stuns and releases: effects that hits, bombs, plates, traps and gloves share."""

from __future__ import annotations

import numpy as np

from ludus_chase.game import Game
from ludus_chase.scenario import COLUMN
from ludus_chase.world import CAKES, CHEESES, DOWN, FLOOR, FREE, PREPARATION, WRECKED, World

__all__ = ["damage_mice", "destroy_scouts", "drop_cheese", "power_factors", "release_mice", "stun_cat"]


def power_factors(game: Game) -> np.ndarray:
    """Return ``[B, 5] float32``: 1 at level 1, 5 % more per level, times the boost of the scenario."""
    world = game.world
    strength = 1.0 + np.float32(0.05) * (world.level - 1.0)
    limit = world.handicap[:, COLUMN["boost_s"]] * np.float32(1000 / game.config.tick_ms)
    boosted = (world.stage != PREPARATION) & (world.played < limit)
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
    hit: np.ndarray = (world.status[matches, mice] == FREE) & (world.safe[matches, mice] == 0)
    at = matches[hit], mice[hit]
    world.health[at] -= damage[hit] / power_factors(game)[at]
    world.safe[at] = world.fast[at] = rates.fright
    game.events.first_damage[at[0][~world.firsts[at[0], 2]]] = 1.0
    world.firsts[at[0], 2] = True
    fell = world.health[at] <= 0
    down = at[0][fell], at[1][fell]
    drop_cheese(world, *down)
    world.health[down] = 0.0
    world.status[down], world.clock[down] = DOWN, rates.down
    world.fast[down] = world.safe[down] = world.bound[down] = 0
    return hit


def drop_cheese(world: World, matches: np.ndarray, mice: np.ndarray) -> None:
    """Drop the cheese that mice ``[n]`` carry at their positions."""
    held = world.hold[matches, mice]
    matches, mice, held = matches[held >= 0], mice[held >= 0], held[held >= 0]
    world.cheese[matches, held] = FLOOR
    world.thing_x[matches, CHEESES.start + held] = world.x[matches, mice]
    world.thing_y[matches, CHEESES.start + held] = world.y[matches, mice]
    world.hold[matches, mice] = -1


def release_mice(world: World, matches: np.ndarray, mice: np.ndarray, *, health: float, safe: int) -> None:
    """Free mice that were down, carried or tied, with at least the given health, fast and safe for `safe` ticks."""
    world.status[matches, mice] = FREE
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
    at, lost = (matches[had], mice[had]), CAKES.start + cake[had]
    events.cake[at] = -1.0
    world.present[matches[had], lost] = True
    world.thing_x[matches[had], lost], world.thing_y[matches[had], lost] = world.x[at], world.y[at]
    world.hold[at] = -1
    world.status[matches, mice] = WRECKED
    world.wrecks[matches] += 1
    events.wrecked[matches, mice] = 1.0
