"""What a match begins with: who and what is where, by the seed and the scenario."""

from __future__ import annotations

import numpy as np

from ludus_chase.config import ChaseConfig
from ludus_chase.house import HEIGHT, MARGIN, WIDTH, Plan
from ludus_chase.lots import fractions, orders
from ludus_chase.scenario import COLUMN
from ludus_chase.tuning import Rates
from ludus_chase.world import (
    ABSENT,
    AGENTS,
    BREAKING,
    CAKES,
    CHEESES,
    CRACK,
    ELIMINATED,
    FREE,
    HOLES,
    ITEM_KINDS,
    ITEMS,
    PREPARATION,
    PUSHED,
    PUSHING,
    ROCKETS,
    THINGS,
    World,
)

__all__ = ["FIRST_FREE_LOT", "begin_breaking", "new_world"]

_CLEAR = 2.5  # things lie so far from the walls of their rooms
_ORDERS = (CHEESES, HOLES, ROCKETS, ITEMS, CAKES)
#: The random numbers from this one on are not used here.
FIRST_FREE_LOT = 2048


def new_world(plan: Plan, seeds: np.ndarray, handicap: np.ndarray, *, config: ChaseConfig, rates: Rates) -> World:
    """Return the start of matches.

    Args:
        plan: Of their houses.
        seeds: ``[n] uint64``.
        handicap: ``[n, 16] float32``.
        config: The options.
        rates: The same in ticks.
    """
    world = World.blank(len(seeds))
    world.handicap[:] = handicap
    _place_agents(plan, seeds, world)
    _place_things(plan, seeds, world)
    world.health[:] = 100.0
    world.health[:, 1:] *= handicap[:, COLUMN["health"], None]
    world.level[:, 0] = handicap[:, COLUMN["cat_level"]]
    world.level[:, 1:] = handicap[:, COLUMN["mouse_level"], None]
    for array in (world.hold, world.item, world.rocket, world.hole):
        array[:] = -1
    world.going[:] = True
    world.met_age[:] = 1_000_000
    _begin_stage(world, rates)
    _push_at_start(world, config)
    begin_breaking(world, np.flatnonzero(_pushed(world) >= config.cheeses), rates)
    return world


def _place_agents(plan: Plan, seeds: np.ndarray, world: World) -> None:
    """Put the cat and the mice into rooms of their own where there are enough, and take absent mice out."""
    order = orders(seeds, 0, plan.rooms)
    rooms = order[:, np.arange(AGENTS) % plan.rooms]
    world.start_x[:], world.start_y[:] = _within(plan, rooms, fractions(seeds, 32, 2 * AGENTS))
    world.x[:], world.y[:] = world.start_x, world.start_y
    world.history[..., 0], world.history[..., 1] = world.x[:, :, None], world.y[:, :, None]
    present = world.handicap[:, COLUMN["mice"], None]
    left = present - world.handicap[:, COLUMN["eliminated"], None]
    number = np.arange(1, AGENTS)
    out = np.where(number > present, ABSENT, ELIMINATED)
    world.status[:, 1:] = np.where(number > left, out, FREE)


def _place_things(plan: Plan, seeds: np.ndarray, world: World) -> None:
    """Put things of one kind into different rooms where there are enough, and the crack into an outer wall."""
    rooms = np.zeros((len(seeds), THINGS), np.int64)
    for lot, kind in enumerate(_ORDERS):
        order = orders(seeds, 64 + 32 * lot, plan.rooms)
        rooms[:, kind] = order[:, np.arange(kind.stop - kind.start) % plan.rooms]
        world.there[:, kind] = True
    world.thing_x[:], world.thing_y[:] = _within(plan, rooms, fractions(seeds, 512, 2 * THINGS))
    world.kinds[:] = 1 + (fractions(seeds, 768, 6) * len(ITEM_KINDS)).astype(np.int64)
    along, side = fractions(seeds, 832, 2).T
    level, near = np.floor(side * 4) < 2, np.floor(side * 4) % 2 == 0  # a wall that runs from west to east, in front
    world.thing_x[:, CRACK] = np.where(level, 2 + along * (WIDTH - 4), np.where(near, MARGIN, WIDTH - MARGIN))
    world.thing_y[:, CRACK] = np.where(level, np.where(near, MARGIN, HEIGHT - MARGIN), 2 + along * (HEIGHT - 4))
    world.amount[:, CRACK] = 1.0


def _within(plan: Plan, rooms: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return points in ``rooms [n, k]`` from numbers ``[n, 2k]`` in [0, 1)."""
    across, down = np.split(drawn, 2, axis=1)
    x = rooms % plan.columns * plan.width + _CLEAR + across * (plan.width - 2 * _CLEAR)
    y = rooms // plan.columns * plan.height + _CLEAR + down * (plan.height - 2 * _CLEAR)
    return x.astype(np.float32), y.astype(np.float32)


def _begin_stage(world: World, rates: Rates) -> None:
    prepares = (world.handicap[:, COLUMN["preparation"]] > 0) & (rates.preparation > 0)
    world.stage[:] = np.where(prepares, PREPARATION, PUSHING)
    world.left[:] = np.where(prepares, rates.preparation, time_for(world, rates.push))


def time_for(world: World, ticks: int) -> np.ndarray:
    """Return ``[n] int32``: a time limit as the scenarios have it."""
    limit: np.ndarray = np.ceil(world.handicap[:, COLUMN["time"]] * ticks - 1e-4).astype(np.int32)
    return limit


def _push_at_start(world: World, config: ChaseConfig) -> None:
    """Push as many cheeses as the scenario says through as many holes."""
    count = np.minimum(world.handicap[:, COLUMN["pushed"]], config.cheeses)
    done = np.arange(5) < count[:, None]
    world.cheese[done] = PUSHED
    world.hole[:] = np.where(done, np.arange(5), -1)
    world.there[:, CHEESES] = ~done
    world.amount[:, HOLES] = done


def _pushed(world: World) -> np.ndarray:
    counted: np.ndarray = (world.cheese == PUSHED).sum(axis=1)
    return counted


def begin_breaking(world: World, rows: np.ndarray, rates: Rates) -> None:
    """Let the crack appear in matches ``[n] int64`` whose cheeses are all pushed; everybody learns where it is."""
    world.stage[rows] = BREAKING
    world.left[rows] = time_for(world, rates.escape)[rows]
    world.there[rows, CRACK] = True
    world.known[rows, :, CRACK] = world.seen_there[rows, :, CRACK] = True
    world.seen_amount[rows, :, CRACK] = 1.0
    world.seen_x[rows, :, CRACK] = world.thing_x[rows, CRACK][:, None]
    world.seen_y[rows, :, CRACK] = world.thing_y[rows, CRACK][:, None]
