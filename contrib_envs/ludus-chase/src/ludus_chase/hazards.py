"""The cat's traps and gloves: laying them, walking into them, and disarming them."""

from __future__ import annotations

import numpy as np

from ludus_chase.blows import Game, drop_cheese, hurt
from ludus_chase.house import slide
from ludus_chase.reach import Reach
from ludus_chase.world import CHEESES, FREE, GLOVES, HOLES, ROCKETS, TRAPS

__all__ = ["disarm", "lay", "spring"]

_TRAP_REACH, _GLOVE_REACH = 1.0, 1.6  # cells
_PUNCH, _PUNCH_DAMAGE = 4, 20.0  # cells one flies, and health
_KEY = 5.0  # what lies so near to a cheese, hole or rocket lies at a key location


def lay(game: Game, who: np.ndarray, weapon: int) -> None:
    """Let cats ``[B] bool`` lay a trap (weapon 0) or a glove (1) where they are; the fourth replaces the first."""
    world = game.world
    rows = np.flatnonzero(who)
    thing = (TRAPS.start, GLOVES.start)[weapon] + world.laid[rows, weapon] % 3
    world.laid[rows, weapon] += 1
    world.there[rows, thing] = True
    world.thing_x[rows, thing], world.thing_y[rows, thing] = world.x[rows, 0], world.y[rows, 0]
    world.weapons[rows, weapon] = game.rates.trap
    if weapon == 0:
        game.events.laid[rows] = 1.0


def disarm(game: Game, reach: Reach, who: np.ndarray) -> None:
    """Let mice ``[B, 5] bool`` take away the nearest trap or glove."""
    world, events = game.world, game.events
    rows, mice = np.nonzero(who)
    found = reach.hazard[rows, mice]
    thing = TRAPS.start + found
    world.there[rows, thing] = False
    key = _is_key(game, rows, thing)
    events.disarmed_trap[rows, mice] = key & (found < 3)
    events.disarmed_glove[rows, mice] = key & (found >= 3)


def _is_key(game: Game, rows: np.ndarray, thing: np.ndarray) -> np.ndarray:
    """Return ``[n] bool``: whether things lie near a cheese, a hole or a rocket."""
    world = game.world
    others = slice(CHEESES.start, ROCKETS.stop)
    dx = world.thing_x[rows, others] - world.thing_x[rows, thing][:, None]
    dy = world.thing_y[rows, others] - world.thing_y[rows, thing][:, None]
    open_ = world.there[rows, others].copy()
    open_[:, HOLES] &= world.amount[rows, HOLES] < 1.0
    near: np.ndarray = (open_ & (dx * dx + dy * dy <= _KEY**2)).any(axis=1)
    return near


def spring(game: Game) -> None:
    """Let traps hold, and gloves punch, mice that come near; each works once."""
    world = game.world
    armed = world.there[:, TRAPS.start : GLOVES.stop] & world.going[:, None]
    rows = np.flatnonzero(armed.any(axis=1))
    if not len(rows):
        return
    for weapon, hazards in enumerate((TRAPS, GLOVES)):
        for thing in range(hazards.start, hazards.stop):
            _spring_one(game, rows, thing, weapon)


def _spring_one(game: Game, rows: np.ndarray, thing: int, weapon: int) -> None:
    """Let one trap or glove of matches ``[n]`` work on the nearest mouse in its reach."""
    world = game.world
    rows = rows[world.there[rows, thing]]
    dx = world.x[rows, 1:] - world.thing_x[rows, thing][:, None]
    dy = world.y[rows, 1:] - world.thing_y[rows, thing][:, None]
    same = game.plan.room(world.x[rows, 1:], world.y[rows, 1:])
    same = same == game.plan.room(world.thing_x[rows, thing], world.thing_y[rows, thing])[:, None]
    able = (world.status[rows, 1:] == FREE) & (world.safe[rows, 1:] == 0) & same
    square = np.where(able, dx * dx + dy * dy, np.inf)
    near = square.min(axis=1, initial=np.inf) <= (_TRAP_REACH, _GLOVE_REACH)[weapon] ** 2
    rows, mice, victims = rows[near], 1 + square[near].argmin(axis=1), square[near].argmin(axis=1)
    world.there[rows, thing] = False
    drop_cheese(world, rows, mice)
    if weapon == 0:
        world.bound[rows, mice] = game.rates.trap_hold
        return
    _punch(game, rows, mice, np.stack([dx[near], dy[near]])[:, np.arange(len(rows)), victims])
    hurt(game, rows, mice, np.full(len(rows), _PUNCH_DAMAGE, np.float32))


def _punch(game: Game, rows: np.ndarray, mice: np.ndarray, away: np.ndarray) -> None:
    """Move mice ``[n]`` by four cells in the directions ``away [2, n]``, north where there is none."""
    world = game.world
    far = np.sqrt(away[0] ** 2 + away[1] ** 2)
    still = far < 1e-3
    far = np.where(still, 1.0, far)
    dx, dy = away[0] / far, np.where(still, -1.0, away[1] / far)
    for _ in range(_PUNCH):
        at = world.x[rows, mice], world.y[rows, mice]
        x, y = slide(game.plan, game.house, rows, *at, dx=dx.astype(np.float32), dy=dy.astype(np.float32))
        world.x[rows, mice], world.y[rows, mice] = x, y
