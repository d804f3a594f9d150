"""Items: picking them up, dropping, throwing and consuming them; bombs."""

from __future__ import annotations

import numpy as np

from ludus_chase.actions import DIRECTION_X, DIRECTION_Y
from ludus_chase.blows import Game, drop_cheese, hurt, stun_cat
from ludus_chase.house import MARGIN
from ludus_chase.reach import Reach, first_claims
from ludus_chase.world import AGENTS, BOMB, BOMBS, BOOTS, FREE, ITEMS, MILK, PLATE, World

__all__ = ["burn_bombs", "drop_item", "grab", "in_hand", "use"]

_THROW, _PLATE_REACH, _BLAST = 8.0, 7.0, 3.5  # cells
_BLAST_DAMAGE, _PLATE_DAMAGE, _MILK_HEALTH = 30.0, 20.0, 50.0
_SPREAD = np.float32(0.866)  # cosine of 30 degrees: a plate flies so wide


def in_hand(world: World) -> np.ndarray:
    """Return ``[B, 5] int64``: the kind of item that agents have, 0 for none."""
    kinds = np.take_along_axis(world.kinds, np.maximum(world.item, 0), axis=1)
    return np.where(world.item < 0, 0, kinds)


def grab(game: Game, reach: Reach, who: np.ndarray) -> None:
    """Let agents ``[B, 5] bool`` take the nearest item; of several who try at once the first one has it."""
    world = game.world
    rows, agents = np.nonzero(who)
    wanted = reach.item[rows, agents]
    got = first_claims(rows, agents, wanted, world.kinds.shape)
    world.item[rows[got], agents[got]] = wanted[got]
    world.there[rows[got], ITEMS.start + wanted[got]] = False


def drop_item(game: Game, who: np.ndarray) -> None:
    """Let agents ``[B, 5] bool`` put down what they have; a bomb that burns is lost."""
    world = game.world
    rows, agents = np.nonzero(who)
    thing = ITEMS.start + world.item[rows, agents]
    world.there[rows, thing] = world.fuse[rows, agents] == 0
    world.thing_x[rows, thing], world.thing_y[rows, thing] = world.x[rows, agents], world.y[rows, agents]
    world.item[rows, agents] = -1
    world.fuse[rows, agents] = 0


def use(game: Game, who: np.ndarray, direction: np.ndarray) -> None:
    """Let agents ``[B, 5] bool`` use what they have, in ``direction [B, 5]`` where it is thrown."""
    kind = in_hand(game.world)
    for number, rule in ((BOMB, _light_or_throw), (PLATE, _throw_plate), (MILK, _drink), (BOOTS, _wear)):
        rows, agents = np.nonzero(who & (kind == number))
        if len(rows):
            rule(game, rows, agents, direction[rows, agents])


def _light_or_throw(game: Game, rows: np.ndarray, agents: np.ndarray, direction: np.ndarray) -> None:
    """Light a bomb, or throw it where it burns already: it comes to rest 8 cells away or at a wall."""
    world = game.world
    lit = world.fuse[rows, agents] > 0
    world.fuse[rows[~lit], agents[~lit]] = game.rates.bomb_fuse
    rows, agents, direction = rows[lit], agents[lit], direction[lit]
    fuse = world.fuse[rows, agents]
    plan, bomb = game.plan, BOMBS.start + agents
    room = plan.room(world.x[rows, agents], world.y[rows, agents])
    low_x, low_y = room % plan.columns * plan.width, room // plan.columns * plan.height
    x = world.x[rows, agents] + np.float32(_THROW) * DIRECTION_X[direction]
    y = world.y[rows, agents] + np.float32(_THROW) * DIRECTION_Y[direction]
    world.thing_x[rows, bomb] = np.clip(x, low_x + MARGIN, low_x + plan.width - MARGIN)
    world.thing_y[rows, bomb] = np.clip(y, low_y + MARGIN, low_y + plan.height - MARGIN)
    world.there[rows, bomb], world.amount[rows, bomb] = True, fuse
    game.events.threw_late[rows, agents] = fuse <= game.rates.late_throw
    _consume(world, rows, agents)


def _throw_plate(game: Game, rows: np.ndarray, agents: np.ndarray, direction: np.ndarray) -> None:
    """Throw a plate at the nearest opponent in that direction; a mouse that frees another by it has rescued it."""
    world = game.world
    dx = world.x[rows] - world.x[rows, agents][:, None]  # [n, 5]
    dy = world.y[rows] - world.y[rows, agents][:, None]
    far = np.sqrt(dx * dx + dy * dy)
    ahead = dx * DIRECTION_X[direction][:, None] + dy * DIRECTION_Y[direction][:, None] >= _SPREAD * far
    room = game.plan.room(world.x[rows], world.y[rows])
    near = (far <= _PLATE_REACH) & (room == np.take_along_axis(room, agents[:, None], axis=1))
    opponent = (np.arange(AGENTS) == 0) != (agents == 0)[:, None]
    able = (world.status[rows] == FREE) & (world.safe[rows] == 0)
    far = np.where(ahead & near & opponent & able, far, np.inf)
    hits, target = np.isfinite(far.min(axis=1)), far.argmin(axis=1)
    at_cat, at_mouse = hits & (agents > 0), hits & (agents == 0)
    freed = stun_cat(game, rows[at_cat], game.rates.plate_stun)
    game.events.rescued[rows[at_cat][freed], agents[at_cat][freed]] = 1.0
    struck, victim = rows[at_mouse], target[at_mouse]
    drop_cheese(world, struck, victim)
    world.bound[struck, victim] = game.rates.plate_stun
    hurt(game, struck, victim, np.full(len(struck), _PLATE_DAMAGE, np.float32))
    _consume(world, rows, agents)


def _drink(game: Game, rows: np.ndarray, agents: np.ndarray, direction: np.ndarray) -> None:  # noqa: ARG001 - as all
    """Drink milk: 50 health, and the ability and weapons are ready."""
    world = game.world
    world.health[rows, agents] = np.minimum(world.health[rows, agents] + _MILK_HEALTH, 100.0)
    world.cooldown[rows, agents] = 0
    world.weapons[rows[agents == 0]] = 0
    _consume(world, rows, agents)


def _wear(game: Game, rows: np.ndarray, agents: np.ndarray, direction: np.ndarray) -> None:  # noqa: ARG001 - as all
    """Be fast for five seconds."""
    game.world.fast[rows, agents] = game.rates.boots
    _consume(game.world, rows, agents)


def _consume(world: World, rows: np.ndarray, agents: np.ndarray) -> None:
    world.item[rows, agents] = -1
    world.fuse[rows, agents] = 0


def burn_bombs(game: Game) -> None:
    """Let the fuses of bombs burn, in hands and thrown, and explode those that are at their end."""
    world = game.world
    held = (world.fuse > 0) & world.going[:, None]
    lying = world.there[:, BOMBS] & world.going[:, None]
    if not (held.any() or lying.any()):
        return
    world.fuse -= held
    world.amount[:, BOMBS] -= lying
    rows, agents = np.nonzero(held & (world.fuse == 0))
    _explode(game, rows, world.x[rows, agents], world.y[rows, agents])
    _consume(world, rows, agents)
    rows, places = np.nonzero(lying & (world.amount[:, BOMBS] <= 0))
    things = BOMBS.start + places
    world.there[rows, things] = False
    _explode(game, rows, world.thing_x[rows, things], world.thing_y[rows, things], throwers=places)


def _explode(game: Game, rows: np.ndarray, x: np.ndarray, y: np.ndarray, *, throwers: np.ndarray | None = None) -> None:
    """Stun the cat and hurt the mice near ``[n]`` places; a mouse that frees another by a throw has rescued it."""
    world = game.world
    dx, dy = world.x[rows] - x[:, None], world.y[rows] - y[:, None]
    near = (dx * dx + dy * dy <= _BLAST**2) & (
        game.plan.room(world.x[rows], world.y[rows]) == game.plan.room(x, y)[:, None]
    )
    freed = np.zeros(len(rows), bool)
    freed[near[:, 0]] = stun_cat(game, rows[near[:, 0]], game.rates.bomb_stun)
    if throwers is not None:
        by_mouse = freed & (throwers > 0)
        game.events.rescued[rows[by_mouse], throwers[by_mouse]] = 1.0
    struck = np.zeros(world.status.shape, bool)
    blast, mice = np.nonzero(near & (np.arange(AGENTS) > 0))
    struck[rows[blast], mice] = True
    hit, victims = np.nonzero(struck)
    hurt(game, hit, victims, np.full(len(hit), _BLAST_DAMAGE, np.float32))
