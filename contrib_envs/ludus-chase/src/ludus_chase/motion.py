"""Walking, carrying and abilities."""

from __future__ import annotations

import numpy as np

from ludus_chase.actions import DIRECTION_X, DIRECTION_Y, MOVE_X, MOVE_Y
from ludus_chase.capture import hit_mice
from ludus_chase.game import Game
from ludus_chase.house import move_points
from ludus_chase.scenario import COLUMN
from ludus_chase.world import AGENTS, Stage, Status, Thing

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
    scouting = world.stage == Stage.PREPARATION
    mouse = np.where(scouting, np.float32(rates.scout_speed), np.float32(rates.mouse_speed))
    mouse *= world.handicap[:, COLUMN["mouse_speed"]]
    speed[:, 0] *= np.float32(rates.cat_speed) * world.handicap[:, COLUMN["cat_speed"]]
    speed[:, 0] *= np.where(burdened[:, 0], np.float32(config.catch_slowdown), np.float32(1))
    speed[:, 1:] *= mouse[:, None]
    slow = burdened[:, 1:] & ~scouting[:, None]
    speed[:, 1:] *= np.where(slow, cheese[:, None], np.float32(1))
    return np.minimum(speed, _FASTEST)


def walk(game: Game, action: np.ndarray, selected: np.ndarray) -> None:
    """Move agents ``[B, 5] bool`` by their ``action [B, 5]``, one of the nine moves."""
    world = game.world
    speed = speeds(game)
    matches = np.arange(len(selected))[:, None]
    dx, dy = MOVE_X[action] * speed, MOVE_Y[action] * speed
    x, y = move_points(game.plan, game.house, matches, world.x, world.y, dx=dx, dy=dy)
    np.copyto(world.x, x, where=selected)
    np.copyto(world.y, y, where=selected)


def move_carried(game: Game) -> None:
    """Move carried cheese, cakes and mice to their carriers."""
    world = game.world
    matches, agents = np.nonzero(world.hold >= 0)
    held = world.hold[matches, agents]
    cats = agents == 0
    world.x[matches[cats], held[cats]] = world.x[matches[cats], 0]
    world.y[matches[cats], held[cats]] = world.y[matches[cats], 0]
    matches, agents, held = matches[~cats], agents[~cats], held[~cats]
    things = np.where(world.stage[matches] == Stage.PREPARATION, Thing.CAKES.start, Thing.CHEESES.start) + held
    world.thing_x[matches, things], world.thing_y[matches, things] = world.x[matches, agents], world.y[matches, agents]


def use_ability(game: Game, selected: np.ndarray, direction: np.ndarray) -> None:
    """Let the agents ``selected [B, 5] bool`` use their ability; leaps go in ``direction [B, 5]``.

    The cat pounces. Each mouse has its own ability: the first sprints, the second is safe for a while, the third heals
    all mice near it, the fourth leaps.
    """
    world = game.world
    world.cooldown[selected] = game.rates.ability
    rules = (_pounce, _sprint, _shield, _heal, _blink)
    for agent, rule in enumerate(rules):
        matches = np.flatnonzero(selected[:, agent])
        if len(matches):
            rule(game, matches, direction[matches, agent])


def _pounce(game: Game, matches: np.ndarray, direction: np.ndarray) -> None:
    """Leap up to seven cells, then hit the nearest mouse in reach."""
    _leap(game, matches, 0, direction, _POUNCE)
    world = game.world
    dx, dy = world.x[matches, 1:] - world.x[matches, :1], world.y[matches, 1:] - world.y[matches, :1]
    room = game.plan.room(world.x[matches], world.y[matches])
    able = (world.status[matches, 1:] == Status.FREE) & (world.safe[matches, 1:] == 0) & (room[:, 1:] == room[:, :1])
    square = np.where(able, dx * dx + dy * dy, np.inf)
    near = square.min(axis=1) <= game.config.hit_reach**2
    hit_mice(game, matches[near], 1 + square[near].argmin(axis=1))
    world.bound[matches, 0] = game.rates.swing


def _sprint(game: Game, matches: np.ndarray, direction: np.ndarray) -> None:  # noqa: ARG001 - common signature
    game.world.fast[matches, 1] = game.rates.sprint


def _shield(game: Game, matches: np.ndarray, direction: np.ndarray) -> None:  # noqa: ARG001 - common signature
    game.world.safe[matches, 2] = game.rates.sprint


def _heal(game: Game, matches: np.ndarray, direction: np.ndarray) -> None:  # noqa: ARG001 - common signature
    """Heal all free mice near the third one, and the third one itself."""
    world = game.world
    dx, dy = world.x[matches] - world.x[matches, 3:4], world.y[matches] - world.y[matches, 3:4]
    room = game.plan.room(world.x[matches], world.y[matches])
    near = (dx * dx + dy * dy <= _HEAL_REACH**2) & (room == room[:, 3:4]) & (world.status[matches] == Status.FREE)
    near &= np.arange(AGENTS) > 0
    world.health[matches] = np.where(
        near, np.minimum(world.health[matches] + np.float32(_HEAL), 100), world.health[matches]
    )


def _blink(game: Game, matches: np.ndarray, direction: np.ndarray) -> None:
    _leap(game, matches, 4, direction, _BLINK)


def _leap(game: Game, matches: np.ndarray, agent: int, direction: np.ndarray, cells: int) -> None:
    """Move one agent of matches ``[n]`` by a number of cells, through doors and along walls."""
    world = game.world
    by = {"dx": DIRECTION_X[direction], "dy": DIRECTION_Y[direction]}
    for _ in range(cells):
        x, y = move_points(game.plan, game.house, matches, world.x[matches, agent], world.y[matches, agent], **by)
        world.x[matches, agent], world.y[matches, agent] = x, y
