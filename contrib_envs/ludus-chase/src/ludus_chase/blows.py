"""Hurting, stunning and freeing agents: what hits, bombs, plates, traps and gloves have in common."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from ludus_chase.config import ChaseConfig
from ludus_chase.events import Events
from ludus_chase.house import House, Plan
from ludus_chase.scenario import COLUMN
from ludus_chase.tuning import Rates
from ludus_chase.world import CAKES, CHEESES, DOWN, FLOOR, FREE, PREPARATION, WRECKED, World

__all__ = ["Game", "drop_cheese", "free", "hurt", "power", "stun_cat", "wreck"]


@frozen(kw_only=True)
class Game:
    """Everything that rules read and change.

    Args:
        config: The options.
        rates: The same in ticks.
        plan: Of the houses.
        house: The houses.
        world: The matches.
        events: What happens on this tick.
    """

    config: ChaseConfig
    rates: Rates
    plan: Plan
    house: House
    world: World
    events: Events


def power(game: Game) -> np.ndarray:
    """Return ``[B, 5] float32``: 1 at level 1, 5 % more per level, times the boost while it lasts."""
    world = game.world
    strength = 1.0 + np.float32(0.05) * (world.level - 1.0)
    limit = world.handicap[:, COLUMN["boost_s"]] * np.float32(1000 / game.config.tick_ms)
    boosted = (world.stage != PREPARATION) & (world.played < limit)
    if boosted.any():
        strength[:, 0] *= np.where(boosted, world.handicap[:, COLUMN["cat_boost"]], np.float32(1))
        strength[:, 1:] *= np.where(boosted, world.handicap[:, COLUMN["mouse_boost"]], np.float32(1))[:, None]
    return strength


def hurt(game: Game, rows: np.ndarray, mice: np.ndarray, damage: np.ndarray) -> np.ndarray:
    """Take health from mice unless they are safe; who has none left goes down. Who is hurt flees for a while.

    Args:
        game: The game.
        rows: ``[n]``: the matches.
        mice: ``[n]``: the mice, 1 to 4; each only once.
        damage: ``[n]``: at level 1.

    Returns:
        ``[n] bool``: who was hurt.
    """
    world, rates = game.world, game.rates
    hit: np.ndarray = (world.status[rows, mice] == FREE) & (world.safe[rows, mice] == 0)
    at = rows[hit], mice[hit]
    world.health[at] -= damage[hit] / power(game)[at]
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


def drop_cheese(world: World, rows: np.ndarray, mice: np.ndarray) -> None:
    """Let the mice drop the cheese that they carry, where they are."""
    held = world.hold[rows, mice]
    rows, mice, held = rows[held >= 0], mice[held >= 0], held[held >= 0]
    world.cheese[rows, held] = FLOOR
    world.thing_x[rows, CHEESES.start + held] = world.x[rows, mice]
    world.thing_y[rows, CHEESES.start + held] = world.y[rows, mice]
    world.hold[rows, mice] = -1


def free(world: World, rows: np.ndarray, mice: np.ndarray, *, health: float, safe: int) -> None:
    """Let mice that were down, carried or tied take part again, with at least so much health."""
    world.status[rows, mice] = FREE
    world.clock[rows, mice] = 0
    world.health[rows, mice] = np.maximum(world.health[rows, mice], np.float32(health))
    world.safe[rows, mice] = world.fast[rows, mice] = safe


def stun_cat(game: Game, rows: np.ndarray, ticks: int) -> np.ndarray:
    """Bind the cat for so long; a mouse that it carries is free.

    Returns:
        ``[n] bool``: where it carried one.
    """
    world = game.world
    world.bound[rows, 0] = np.maximum(world.bound[rows, 0], ticks)
    held = world.hold[rows, 0]
    carried: np.ndarray = held > 0
    free(world, rows[carried], held[carried], health=40.0, safe=game.rates.stumble)
    world.hold[rows, 0] = -1
    return carried


def wreck(game: Game, rows: np.ndarray, mice: np.ndarray) -> None:
    """Destroy scouts; a cake that they had lies where they were."""
    world, events = game.world, game.events
    cake = world.hold[rows, mice]
    had = cake >= 0
    at, lost = (rows[had], mice[had]), CAKES.start + cake[had]
    events.cake[at] = -1.0
    world.there[rows[had], lost] = True
    world.thing_x[rows[had], lost], world.thing_y[rows[had], lost] = world.x[at], world.y[at]
    world.hold[at] = -1
    world.status[rows, mice] = WRECKED
    world.wrecks[rows] += 1
    events.wrecked[rows, mice] = 1.0
