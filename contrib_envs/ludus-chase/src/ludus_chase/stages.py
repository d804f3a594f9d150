"""The stages of a match: preparation, pushing, breaking the wall; and how it ends."""

from __future__ import annotations

import numpy as np

from ludus_chase.blows import Game, power
from ludus_chase.config import ChaseConfig
from ludus_chase.reach import Reach, first_claims
from ludus_chase.start import begin_breaking, time_for
from ludus_chase.world import (
    ABSENT,
    CAKES,
    CRACK,
    ELIMINATED,
    ESCAPED,
    FREE,
    MICE,
    PREPARATION,
    PUSHED,
    PUSHING,
    WRECKED,
    World,
)

__all__ = ["advance_stage", "endings", "gnaw", "take_cake"]

_ESCAPES = 2  # mice that must get away
_CAPTURES = 3  # of four mice, those that must not


def take_cake(game: Game, reach: Reach, who: np.ndarray) -> None:
    """Let scouts ``[B, 5] bool`` take the nearest cake; of several who try at once the first one has it."""
    world = game.world
    rows, mice = np.nonzero(who)
    cake = reach.cake[rows, mice]
    got = first_claims(rows, mice, cake, (len(who), 2))
    rows, mice, cake = rows[got], mice[got], cake[got]
    world.hold[rows, mice] = cake
    world.there[rows, CAKES.start + cake] = False
    game.events.cake[rows, mice] = 1.0


def gnaw(game: Game, reach: Reach, who: np.ndarray) -> None:
    """Let mice ``[B, 5] bool`` at the crack break it, or escape where it is open already."""
    world, events = game.world, game.events
    rows, mice = np.nonzero(who & reach.crack)
    before = world.amount[rows, CRACK]
    through = before <= 0
    world.status[rows[through], mice[through]] = ESCAPED
    rows, mice, before = rows[~through], mice[~through], before[~through]
    bite = np.float32(game.rates.crack) * power(game)[rows, mice]
    total = np.zeros(len(who), np.float32)
    np.add.at(total, rows, bite)
    share = np.minimum(world.amount[:, CRACK], total)
    events.cracked[rows, mice] = bite * (share[rows] / total[rows])
    events.crack -= share
    world.amount[:, CRACK] -= share
    opened = (total > 0) & (world.amount[:, CRACK] <= 1e-5)
    world.amount[opened, CRACK] = 0.0
    events.opened += opened


def advance_stage(game: Game) -> None:
    """Let time pass, end preparations, and let the crack appear where all cheese is pushed."""
    world, rates = game.world, game.rates
    world.ticks += world.going
    world.left -= world.going
    world.played += world.going & (world.stage != PREPARATION)
    over = np.flatnonzero(world.going & (world.stage == PREPARATION) & (world.left <= 0))
    if len(over):
        _end_preparation(game, over)
    pushed = (world.cheese == PUSHED).sum(axis=1) >= game.config.cheeses
    ready = np.flatnonzero(world.going & (world.stage == PUSHING) & pushed)
    if len(ready):
        begin_breaking(world, ready, rates)


def _end_preparation(game: Game, rows: np.ndarray) -> None:
    """Put everybody to the start; cakes taken are levels of the mice, scouts destroyed are levels of the cat."""
    world = game.world
    world.stage[rows] = PUSHING
    world.left[rows] = time_for(world, game.rates.push)[rows]
    cakes = (world.hold[rows, 1:] >= 0).sum(axis=1)
    world.level[rows, 0] += world.wrecks[rows]
    world.level[rows, 1:] += cakes[:, None]
    world.hold[rows] = -1
    world.there[rows, CAKES] = False
    world.seen_there[rows, :, CAKES] = False
    world.status[rows] = np.where(world.status[rows] == WRECKED, FREE, world.status[rows])
    world.bound[rows] = 0
    world.x[rows], world.y[rows] = world.start_x[rows], world.start_y[rows]


def endings(world: World, config: ChaseConfig) -> tuple[np.ndarray, np.ndarray]:
    """Return ``[B] bool``: which matches end now, and ``[B] float32``: the points of the mice in those."""
    status = world.status[:, 1:]
    escaped = (status == ESCAPED).sum(axis=1)
    lost = ((status == ELIMINATED) | (status == ABSENT)).sum(axis=1)
    won, beaten = escaped >= _ESCAPES, lost > MICE - _ESCAPES
    ended = world.going & (won | beaten | (world.left <= 0))
    points = np.where(won, 1.0, np.where(beaten, 0.0, _by_time(world, config, escaped=escaped, lost=lost)))
    return ended, points.astype(np.float32)


def _by_time(world: World, config: ChaseConfig, *, escaped: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Return ``[B] float64``: the points of the mice where time is over.

    By count, what the mice did (of the cheeses and the escapes) is compared with what the cat did (of three captures).
    """
    if config.time_over == "cat":
        return np.zeros(len(world.left))
    if config.time_over == "draw":
        return np.full(len(world.left), 0.5)
    pushed = (world.cheese == PUSHED).sum(axis=1)
    mice = (pushed / config.cheeses + escaped / _ESCAPES) / 2
    points: np.ndarray = 0.5 + 0.5 * np.sign(mice - lost / _CAPTURES)
    return points
