"""The cat's traps and gloves: placing, triggering and disarming them."""

from __future__ import annotations

import numpy as np

from ludus_chase.damage import damage_mice, drop_cheese
from ludus_chase.game import Game
from ludus_chase.house import move_points
from ludus_chase.reach import Reach
from ludus_chase.world import CHEESES, FREE, GLOVES, HOLES, ROCKETS, TRAPS

__all__ = ["disarm", "place_hazard", "trigger_hazards"]

_TRAP_REACH, _GLOVE_REACH = 1.0, 1.6  # cells
_PUNCH, _PUNCH_DAMAGE = 4, 20.0  # cells, health
_KEY = 5.0  # cells: key locations are so near to a cheese, hole or rocket


def place_hazard(game: Game, selected: np.ndarray, weapon: int) -> None:
    """Let the cats ``selected [B] bool`` place a trap (weapon 0) or a glove (1); a fourth one replaces the first."""
    world = game.world
    matches = np.flatnonzero(selected)
    thing = (TRAPS.start, GLOVES.start)[weapon] + world.laid[matches, weapon] % 3
    world.laid[matches, weapon] += 1
    world.present[matches, thing] = True
    world.thing_x[matches, thing], world.thing_y[matches, thing] = world.x[matches, 0], world.y[matches, 0]
    world.weapons[matches, weapon] = game.rates.trap
    if weapon == 0:
        game.events.laid[matches] = 1.0


def disarm(game: Game, reach: Reach, selected: np.ndarray) -> None:
    """Let the mice ``selected [B, 5] bool`` remove the nearest trap or glove."""
    world, events = game.world, game.events
    matches, mice = np.nonzero(selected)
    found = reach.hazard[matches, mice]
    thing = TRAPS.start + found
    world.present[matches, thing] = False
    key = _is_key(game, matches, thing)
    events.disarmed_trap[matches, mice] = key & (found < 3)
    events.disarmed_glove[matches, mice] = key & (found >= 3)


def _is_key(game: Game, matches: np.ndarray, thing: np.ndarray) -> np.ndarray:
    """Return ``[n] bool``: the thing lies near a cheese, an open hole or a rocket."""
    world = game.world
    others = slice(CHEESES.start, ROCKETS.stop)
    dx = world.thing_x[matches, others] - world.thing_x[matches, thing][:, None]
    dy = world.thing_y[matches, others] - world.thing_y[matches, thing][:, None]
    open_ = world.present[matches, others].copy()
    open_[:, HOLES] &= world.amount[matches, HOLES] < 1.0
    near: np.ndarray = (open_ & (dx * dx + dy * dy <= _KEY**2)).any(axis=1)
    return near


def trigger_hazards(game: Game) -> None:
    """Apply traps and gloves to mice that come near; each works once."""
    world = game.world
    armed = world.present[:, TRAPS.start : GLOVES.stop] & world.running[:, None]
    matches = np.flatnonzero(armed.any(axis=1))
    if not len(matches):
        return
    for weapon, hazards in enumerate((TRAPS, GLOVES)):
        for thing in range(hazards.start, hazards.stop):
            _trigger_hazard(game, matches, thing, weapon)


def _trigger_hazard(game: Game, matches: np.ndarray, thing: int, weapon: int) -> None:
    """Apply one trap or glove of matches ``[n]`` to the nearest mouse in its reach."""
    world = game.world
    matches = matches[world.present[matches, thing]]
    dx = world.x[matches, 1:] - world.thing_x[matches, thing][:, None]
    dy = world.y[matches, 1:] - world.thing_y[matches, thing][:, None]
    same = game.plan.room(world.x[matches, 1:], world.y[matches, 1:])
    same = same == game.plan.room(world.thing_x[matches, thing], world.thing_y[matches, thing])[:, None]
    able = (world.status[matches, 1:] == FREE) & (world.safe[matches, 1:] == 0) & same
    square = np.where(able, dx * dx + dy * dy, np.inf)
    near = square.min(axis=1, initial=np.inf) <= (_TRAP_REACH, _GLOVE_REACH)[weapon] ** 2
    matches, mice, victims = matches[near], 1 + square[near].argmin(axis=1), square[near].argmin(axis=1)
    world.present[matches, thing] = False
    drop_cheese(world, matches, mice)
    if weapon == 0:
        world.bound[matches, mice] = game.rates.trap_hold
        return
    _punch(game, matches, mice, np.stack([dx[near], dy[near]])[:, np.arange(len(matches)), victims])
    damage_mice(game, matches, mice, np.full(len(matches), _PUNCH_DAMAGE, np.float32))


def _punch(game: Game, matches: np.ndarray, mice: np.ndarray, away: np.ndarray) -> None:
    """Move mice ``[n]`` by four cells in the directions ``away [2, n]``, or north for zero vectors."""
    world = game.world
    far = np.sqrt(away[0] ** 2 + away[1] ** 2)
    still = far < 1e-3
    far = np.where(still, 1.0, far)
    dx, dy = away[0] / far, np.where(still, -1.0, away[1] / far)
    for _ in range(_PUNCH):
        at = world.x[matches, mice], world.y[matches, mice]
        x, y = move_points(game.plan, game.house, matches, *at, dx=dx.astype(np.float32), dy=dy.astype(np.float32))
        world.x[matches, mice], world.y[matches, mice] = x, y
