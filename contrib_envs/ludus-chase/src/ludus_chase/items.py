"""Traps, gloves and items: placing, disarming, picking up, dropping, throwing and consuming them; bombs."""

from __future__ import annotations

import numpy as np

from ludus_chase.actions import DIRECTION_X, DIRECTION_Y
from ludus_chase.capture import damage_mice, drop_cheese, stun_cat
from ludus_chase.game import Game
from ludus_chase.house import MARGIN, move_points
from ludus_chase.reach import Reach, first_claims
from ludus_chase.world import AGENTS, Item, Status, Thing, World

_TRAP_REACH, _GLOVE_REACH = 1.0, 1.6  # cells
_PUNCH, _PUNCH_DAMAGE = 4, 20.0  # cells, health
_KEY = 5.0  # cells: key locations are so near to a cheese, hole or rocket


def place_hazard(game: Game, selected: np.ndarray, weapon: int) -> None:
    """Let the cats ``selected [B] bool`` place a trap (weapon 0) or a glove (1); a fourth one replaces the first."""
    world = game.world
    matches = np.flatnonzero(selected)
    thing = (Thing.TRAPS.start, Thing.GLOVES.start)[weapon] + world.laid[matches, weapon] % 3
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
    thing = Thing.TRAPS.start + found
    world.present[matches, thing] = False
    key = _is_key(game, matches, thing)
    events.disarmed_trap[matches, mice] = key & (found < 3)
    events.disarmed_glove[matches, mice] = key & (found >= 3)


def _is_key(game: Game, matches: np.ndarray, thing: np.ndarray) -> np.ndarray:
    """Return ``[n] bool``: the thing lies near a cheese, an open hole or a rocket."""
    world = game.world
    others = slice(Thing.CHEESES.start, Thing.ROCKETS.stop)
    dx = world.thing_x[matches, others] - world.thing_x[matches, thing][:, None]
    dy = world.thing_y[matches, others] - world.thing_y[matches, thing][:, None]
    open_ = world.present[matches, others].copy()
    open_[:, Thing.HOLES] &= world.amount[matches, Thing.HOLES] < 1.0
    near: np.ndarray = (open_ & (dx * dx + dy * dy <= _KEY**2)).any(axis=1)
    return near


def trigger_hazards(game: Game) -> None:
    """Apply traps and gloves to mice that come near; each works once."""
    world = game.world
    armed = world.present[:, Thing.TRAPS.start : Thing.GLOVES.stop] & world.running[:, None]
    matches = np.flatnonzero(armed.any(axis=1))
    if not len(matches):
        return
    for weapon, hazards in enumerate((Thing.TRAPS, Thing.GLOVES)):
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
    able = (world.status[matches, 1:] == Status.FREE) & (world.safe[matches, 1:] == 0) & same
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


_THROW, _PLATE_REACH, _BLAST = 8.0, 7.0, 3.5  # cells
_BLAST_DAMAGE, _PLATE_DAMAGE, _MILK_HEALTH = 30.0, 20.0, 50.0
_SPREAD = np.float32(0.866)  # cosine of 30 degrees, half the angle in which a plate hits


def held_item_kind(world: World) -> np.ndarray:
    """Return ``[B, 5] int64``: the kind of item that agents hold, 0 for none."""
    kinds = np.take_along_axis(world.kinds, np.maximum(world.item, 0), axis=1)
    return np.where(world.item < 0, 0, kinds)


def grab(game: Game, reach: Reach, selected: np.ndarray) -> None:
    """Let the agents ``selected [B, 5] bool`` take the nearest item; the first of several agents gets it."""
    world = game.world
    matches, agents = np.nonzero(selected)
    wanted = reach.item[matches, agents]
    got = first_claims(matches, agents, wanted, world.kinds.shape)
    world.item[matches[got], agents[got]] = wanted[got]
    world.present[matches[got], Thing.ITEMS.start + wanted[got]] = False


def drop_item(game: Game, selected: np.ndarray) -> None:
    """Let the agents ``selected [B, 5] bool`` put down their items; a burning bomb is lost."""
    world = game.world
    matches, agents = np.nonzero(selected)
    thing = Thing.ITEMS.start + world.item[matches, agents]
    world.present[matches, thing] = world.fuse[matches, agents] == 0
    world.thing_x[matches, thing], world.thing_y[matches, thing] = world.x[matches, agents], world.y[matches, agents]
    world.item[matches, agents] = -1
    world.fuse[matches, agents] = 0


def use(game: Game, selected: np.ndarray, direction: np.ndarray) -> None:
    """Let the agents ``selected [B, 5] bool`` use their items; thrown ones go in ``direction [B, 5]``."""
    kind = held_item_kind(game.world)
    rules = {Item.BOMB: _light_or_throw, Item.PLATE: _throw_plate, Item.MILK: _drink, Item.BOOTS: _wear}
    for number, rule in rules.items():
        matches, agents = np.nonzero(selected & (kind == number))
        if len(matches):
            rule(game, matches, agents, direction[matches, agents])


def _light_or_throw(game: Game, matches: np.ndarray, agents: np.ndarray, direction: np.ndarray) -> None:
    """Light bombs, or throw burning ones, which land 8 cells away or at a wall."""
    world = game.world
    lit = world.fuse[matches, agents] > 0
    world.fuse[matches[~lit], agents[~lit]] = game.rates.bomb_fuse
    matches, agents, direction = matches[lit], agents[lit], direction[lit]
    fuse = world.fuse[matches, agents]
    plan, bomb = game.plan, Thing.BOMBS.start + agents
    room = plan.room(world.x[matches, agents], world.y[matches, agents])
    low_x, low_y = room % plan.columns * plan.width, room // plan.columns * plan.height
    x = world.x[matches, agents] + np.float32(_THROW) * DIRECTION_X[direction]
    y = world.y[matches, agents] + np.float32(_THROW) * DIRECTION_Y[direction]
    world.thing_x[matches, bomb] = np.clip(x, low_x + MARGIN, low_x + plan.width - MARGIN)
    world.thing_y[matches, bomb] = np.clip(y, low_y + MARGIN, low_y + plan.height - MARGIN)
    world.present[matches, bomb], world.amount[matches, bomb] = True, fuse
    game.events.threw_late[matches, agents] = fuse <= game.rates.late_throw
    _consume(world, matches, agents)


def _throw_plate(game: Game, matches: np.ndarray, agents: np.ndarray, direction: np.ndarray) -> None:
    """Throw plates at the nearest opponent in the direction; freeing a carried mouse counts as a rescue."""
    world = game.world
    dx = world.x[matches] - world.x[matches, agents][:, None]  # [n, 5]
    dy = world.y[matches] - world.y[matches, agents][:, None]
    far = np.sqrt(dx * dx + dy * dy)
    ahead = dx * DIRECTION_X[direction][:, None] + dy * DIRECTION_Y[direction][:, None] >= _SPREAD * far
    room = game.plan.room(world.x[matches], world.y[matches])
    near = (far <= _PLATE_REACH) & (room == np.take_along_axis(room, agents[:, None], axis=1))
    opponent = (np.arange(AGENTS) == 0) != (agents == 0)[:, None]
    able = (world.status[matches] == Status.FREE) & (world.safe[matches] == 0)
    far = np.where(ahead & near & opponent & able, far, np.inf)
    hits, target = np.isfinite(far.min(axis=1)), far.argmin(axis=1)
    at_cat, at_mouse = hits & (agents > 0), hits & (agents == 0)
    freed = stun_cat(game, matches[at_cat], game.rates.plate_stun)
    game.events.rescued[matches[at_cat][freed], agents[at_cat][freed]] = 1.0
    struck, victim = matches[at_mouse], target[at_mouse]
    drop_cheese(world, struck, victim)
    world.bound[struck, victim] = game.rates.plate_stun
    damage_mice(game, struck, victim, np.full(len(struck), _PLATE_DAMAGE, np.float32))
    _consume(world, matches, agents)


def _drink(game: Game, matches: np.ndarray, agents: np.ndarray, direction: np.ndarray) -> None:  # noqa: ARG001 - common signature
    """Drink milk: gain 50 health and reset the cooldowns of ability and weapons."""
    world = game.world
    world.health[matches, agents] = np.minimum(world.health[matches, agents] + _MILK_HEALTH, 100.0)
    world.cooldown[matches, agents] = 0
    world.weapons[matches[agents == 0]] = 0
    _consume(world, matches, agents)


def _wear(game: Game, matches: np.ndarray, agents: np.ndarray, direction: np.ndarray) -> None:  # noqa: ARG001 - common signature
    """Wear boots: be fast for five seconds."""
    game.world.fast[matches, agents] = game.rates.boots
    _consume(game.world, matches, agents)


def _consume(world: World, matches: np.ndarray, agents: np.ndarray) -> None:
    world.item[matches, agents] = -1
    world.fuse[matches, agents] = 0


def burn_bombs(game: Game) -> None:
    """Advance the fuses of held and thrown bombs, and explode bombs whose fuse is over."""
    world = game.world
    held = (world.fuse > 0) & world.running[:, None]
    lying = world.present[:, Thing.BOMBS] & world.running[:, None]
    if not (held.any() or lying.any()):
        return
    world.fuse -= held
    world.amount[:, Thing.BOMBS] -= lying
    matches, agents = np.nonzero(held & (world.fuse == 0))
    _explode(game, matches, world.x[matches, agents], world.y[matches, agents])
    _consume(world, matches, agents)
    matches, places = np.nonzero(lying & (world.amount[:, Thing.BOMBS] <= 0))
    things = Thing.BOMBS.start + places
    world.present[matches, things] = False
    _explode(game, matches, world.thing_x[matches, things], world.thing_y[matches, things], throwers=places)


def _explode(
    game: Game, matches: np.ndarray, x: np.ndarray, y: np.ndarray, *, throwers: np.ndarray | None = None
) -> None:
    """Stun cats and damage mice near ``[n]`` points; freeing a carried mouse counts as a rescue by the thrower."""
    world = game.world
    dx, dy = world.x[matches] - x[:, None], world.y[matches] - y[:, None]
    near = (dx * dx + dy * dy <= _BLAST**2) & (
        game.plan.room(world.x[matches], world.y[matches]) == game.plan.room(x, y)[:, None]
    )
    freed = np.zeros(len(matches), bool)
    freed[near[:, 0]] = stun_cat(game, matches[near[:, 0]], game.rates.bomb_stun)
    if throwers is not None:
        by_mouse = freed & (throwers > 0)
        game.events.rescued[matches[by_mouse], throwers[by_mouse]] = 1.0
    struck = np.zeros(world.status.shape, bool)
    blast, mice = np.nonzero(near & (np.arange(AGENTS) > 0))
    struck[matches[blast], mice] = True
    hit, victims = np.nonzero(struck)
    damage_mice(game, hit, victims, np.full(len(hit), _BLAST_DAMAGE, np.float32))
