"""What agents can lay hands on: the nearest thing of each kind, in the same room and near enough."""

from __future__ import annotations

import numpy as np
from attrs import define

from ludus_chase.config import ChaseConfig
from ludus_chase.house import Plan
from ludus_chase.world import (
    AGENTS,
    CAKES,
    CHEESES,
    CRACK,
    DOWN,
    FLOOR,
    FREE,
    GLOVES,
    HOLES,
    IN_HOLE,
    ITEMS,
    ROCKETS,
    TIED,
    TRAPS,
    World,
)

__all__ = ["FAR", "Reach", "Rooms", "first_claims", "look_around", "rooms_of"]

FAR = np.float32(1e9)
_HANDS, _ARMS = 1.6, 2.5  # cells: picking up; tools, rockets and walls


@define(kw_only=True)
class Rooms:
    """The rooms in which agents ``[B, 5]`` and things ``[B, THINGS]`` are, ``int64``."""

    agents: np.ndarray
    things: np.ndarray


def rooms_of(plan: Plan, world: World) -> Rooms:
    """Return where everything is."""
    return Rooms(agents=plan.room(world.x, world.y), things=plan.room(world.thing_x, world.thing_y))


@define(kw_only=True)
class Reach:
    """What is in reach, by number within its kind, -1 for nothing; ``[B, 5] int64`` unless other axes are given.

    Attributes:
        cheese: On the floor.
        item: Lying about.
        cake: Not yet taken.
        hole: With a cheese in it; where the mouse carries one, a free hole.
        hazard: A trap (0 to 2) or a glove (3 to 5).
        tied: The agent tied to a rocket.
        crack: ``bool``.
        prey: ``[B]``: the mouse (1 to 4) that the cat can hit; likewise `fallen`, which it can catch.
        post: ``[B]``: the free rocket that the cat can tie a mouse to.
    """

    cheese: np.ndarray
    item: np.ndarray
    cake: np.ndarray
    hole: np.ndarray
    hazard: np.ndarray
    tied: np.ndarray
    crack: np.ndarray
    prey: np.ndarray
    fallen: np.ndarray
    post: np.ndarray


def look_around(world: World, rooms: Rooms, *, config: ChaseConfig) -> Reach:
    """Return what everybody can reach."""
    square = _squares(world, rooms)
    lies = square.copy()
    lies[~np.broadcast_to(world.there[:, None, :], lies.shape)] = FAR
    hits, catches = _to_mice(world, rooms)
    floor = np.where((world.cheese == FLOOR)[:, None], square[:, :, CHEESES], FAR)
    return Reach(
        cheese=_nearest(floor, _HANDS),
        item=_nearest(lies[:, :, ITEMS], _HANDS),
        cake=_nearest(lies[:, :, CAKES], _HANDS),
        hole=_nearest(_open_holes(world, square[:, :, HOLES]), _ARMS),
        hazard=_nearest(lies[:, :, TRAPS.start : GLOVES.stop], _ARMS),
        tied=_tied(world, square[:, :, ROCKETS]),
        crack=lies[:, :, CRACK] <= _ARMS**2,
        prey=_nearest(hits, config.hit_reach, first=1),
        fallen=_nearest(catches, _HANDS, first=1),
        post=_nearest(np.where(world.amount[:, ROCKETS] > 0, FAR, square[:, 0, ROCKETS]), _ARMS),
    )


def _squares(world: World, rooms: Rooms) -> np.ndarray:
    """Return ``[B, 5, THINGS] float32``: squared distances, FAR for what is in another room."""
    dx: np.ndarray = world.x[:, :, None] - world.thing_x[:, None]
    dy = world.y[:, :, None] - world.thing_y[:, None]
    dx *= dx
    dy *= dy
    dx += dy
    dx[rooms.agents[:, :, None] != rooms.things[:, None]] = FAR
    return dx


def _to_mice(world: World, rooms: Rooms) -> tuple[np.ndarray, np.ndarray]:
    """Return ``[B, 4] float32`` each: the cat's squared distances to mice to be hit, and to those that are down."""
    dx, dy = world.x[:, 1:] - world.x[:, :1], world.y[:, 1:] - world.y[:, :1]
    square = np.where(rooms.agents[:, 1:] == rooms.agents[:, :1], dx * dx + dy * dy, FAR)
    status = world.status[:, 1:]
    hits = np.where((status == FREE) & (world.safe[:, 1:] == 0), square, FAR)
    return hits, np.where(status == DOWN, square, FAR)


def _open_holes(world: World, square: np.ndarray) -> np.ndarray:
    """Return the squared distances ``[B, 5, 5]`` to holes at which there is something to push."""
    empty = world.hole < 0
    stuck = ~empty & (np.take_along_axis(world.cheese, np.maximum(world.hole, 0), axis=1) == IN_HOLE)
    useful = np.where((world.hold >= 0)[:, :, None], empty[:, None], stuck[:, None])
    return np.where(useful, square, FAR)


def _tied(world: World, square: np.ndarray) -> np.ndarray:
    """Return ``[B, 5] int64``: the agent tied to the nearest rocket in reach that holds one, -1 for none."""
    holder = np.full((len(square), 3), -1)
    rows, agents = np.nonzero(world.status == TIED)
    holder[rows, world.rocket[rows, agents]] = agents
    found = _nearest(np.where((holder >= 0)[:, None], square, FAR), _ARMS)
    return np.where(found < 0, -1, np.take_along_axis(holder, np.maximum(found, 0), axis=1))


def _nearest(square: np.ndarray, reach: float, *, first: int = 0) -> np.ndarray:
    """Return the number, counted from `first`, of the nearest of ``[…, k]`` within reach, -1 for none."""
    return np.where(square.min(axis=-1) <= reach * reach, square.argmin(axis=-1) + first, -1)


def first_claims(rows: np.ndarray, agents: np.ndarray, wanted: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return ``[n] bool``: which of n claims are the first ones, by number of agent, on what they want.

    Args:
        rows: ``[n]``: the matches.
        agents: ``[n]``.
        wanted: ``[n]``: numbers of things.
        shape: How many matches and things there are.
    """
    first = np.full(shape, AGENTS)
    np.minimum.at(first, (rows, wanted), agents)
    chosen: np.ndarray = first[rows, wanted] == agents
    return chosen
