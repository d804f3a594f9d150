"""Walking, what is carried along, and abilities."""

from __future__ import annotations

import numpy as np

from ludus_chase.actions import DIRECTION_X, DIRECTION_Y, MOVE_X, MOVE_Y
from ludus_chase.blows import Game
from ludus_chase.capture import strike
from ludus_chase.house import slide
from ludus_chase.scenario import COLUMN
from ludus_chase.world import AGENTS, CAKES, CHEESES, FREE, PREPARATION

__all__ = ["follow", "speeds", "use_ability", "walk"]

_FASTEST = np.float32(8.0)  # cells per tick, less than the width of any room
_POUNCE, _BLINK, _HEAL_REACH, _HEAL = 7, 6, 6.0, 25.0  # cells, cells, cells, health


def speeds(game: Game) -> np.ndarray:
    """Return ``[B, 5] float32``: cells per tick."""
    world, rates, config = game.world, game.rates, game.config
    speed = (1.0 + np.float32(0.01) * (world.level - 1.0)) * np.where(
        world.fast > 0, np.float32(config.boots_factor), np.float32(1)
    )
    burdened = world.hold >= 0
    cheese = np.minimum(np.float32(config.cheese_slowdown) * world.handicap[:, COLUMN["cheese_speed"]], 1)
    scouting = world.stage == PREPARATION
    mouse = np.where(scouting, np.float32(rates.scout_speed), np.float32(rates.mouse_speed))
    mouse *= world.handicap[:, COLUMN["mouse_speed"]]
    speed[:, 0] *= np.float32(rates.cat_speed) * world.handicap[:, COLUMN["cat_speed"]]
    speed[:, 0] *= np.where(burdened[:, 0], np.float32(config.catch_slowdown), np.float32(1))
    speed[:, 1:] *= mouse[:, None]
    slow = burdened[:, 1:] & ~scouting[:, None]
    speed[:, 1:] *= np.where(slow, cheese[:, None], np.float32(1))
    return np.minimum(speed, _FASTEST)


def walk(game: Game, action: np.ndarray, who: np.ndarray) -> None:
    """Move agents ``[B, 5] bool`` by their ``action [B, 5]``, one of the nine moves."""
    world = game.world
    speed = speeds(game)
    rows = np.arange(len(who))[:, None]
    dx, dy = MOVE_X[action] * speed, MOVE_Y[action] * speed
    x, y = slide(game.plan, game.house, rows, world.x, world.y, dx=dx, dy=dy)
    np.copyto(world.x, x, where=who)
    np.copyto(world.y, y, where=who)


def follow(game: Game) -> None:
    """Let what is carried be where its carrier is: cheese, cakes and mice."""
    world = game.world
    rows, agents = np.nonzero(world.hold >= 0)
    held = world.hold[rows, agents]
    cats = agents == 0
    world.x[rows[cats], held[cats]] = world.x[rows[cats], 0]
    world.y[rows[cats], held[cats]] = world.y[rows[cats], 0]
    rows, agents, held = rows[~cats], agents[~cats], held[~cats]
    things = np.where(world.stage[rows] == PREPARATION, CAKES.start, CHEESES.start) + held
    world.thing_x[rows, things], world.thing_y[rows, things] = world.x[rows, agents], world.y[rows, agents]


def use_ability(game: Game, who: np.ndarray, direction: np.ndarray) -> None:
    """Let agents ``[B, 5] bool`` use their ability, in ``direction [B, 5]`` where it leads somewhere.

    The cat pounces. The mice differ: the first sprints, the second cannot be hurt for a while, the third heals all
    near it, the fourth leaps.
    """
    world = game.world
    world.cooldown[who] = game.rates.ability
    rules = (_pounce, _sprint, _shield, _heal, _blink)
    for agent, rule in enumerate(rules):
        rows = np.flatnonzero(who[:, agent])
        if len(rows):
            rule(game, rows, direction[rows, agent])


def _pounce(game: Game, rows: np.ndarray, direction: np.ndarray) -> None:
    """Leap up to seven cells and hit the mouse that is nearest then."""
    _leap(game, rows, 0, direction, _POUNCE)
    world = game.world
    dx, dy = world.x[rows, 1:] - world.x[rows, :1], world.y[rows, 1:] - world.y[rows, :1]
    room = game.plan.room(world.x[rows], world.y[rows])
    able = (world.status[rows, 1:] == FREE) & (world.safe[rows, 1:] == 0) & (room[:, 1:] == room[:, :1])
    square = np.where(able, dx * dx + dy * dy, np.inf)
    near = square.min(axis=1) <= game.config.hit_reach**2
    strike(game, rows[near], 1 + square[near].argmin(axis=1))
    world.bound[rows, 0] = game.rates.swing


def _sprint(game: Game, rows: np.ndarray, direction: np.ndarray) -> None:  # noqa: ARG001 - as all
    game.world.fast[rows, 1] = game.rates.sprint


def _shield(game: Game, rows: np.ndarray, direction: np.ndarray) -> None:  # noqa: ARG001 - as all
    game.world.safe[rows, 2] = game.rates.sprint


def _heal(game: Game, rows: np.ndarray, direction: np.ndarray) -> None:  # noqa: ARG001 - as all
    """Give health to all free mice near the third one, itself too."""
    world = game.world
    dx, dy = world.x[rows] - world.x[rows, 3:4], world.y[rows] - world.y[rows, 3:4]
    room = game.plan.room(world.x[rows], world.y[rows])
    near = (dx * dx + dy * dy <= _HEAL_REACH**2) & (room == room[:, 3:4]) & (world.status[rows] == FREE)
    near &= np.arange(AGENTS) > 0
    world.health[rows] = np.where(near, np.minimum(world.health[rows] + np.float32(_HEAL), 100), world.health[rows])


def _blink(game: Game, rows: np.ndarray, direction: np.ndarray) -> None:
    _leap(game, rows, 4, direction, _BLINK)


def _leap(game: Game, rows: np.ndarray, agent: int, direction: np.ndarray, cells: int) -> None:
    """Move one agent of matches ``[n]`` by so many cells, through doors and along walls."""
    world = game.world
    by = {"dx": DIRECTION_X[direction], "dy": DIRECTION_Y[direction]}
    for _ in range(cells):
        x, y = slide(game.plan, game.house, rows, world.x[rows, agent], world.y[rows, agent], **by)
        world.x[rows, agent], world.y[rows, agent] = x, y
