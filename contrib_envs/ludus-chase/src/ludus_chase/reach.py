"""Targets in reach of agents, the nearest one of each kind in the same room, and the action masks that follow."""

from __future__ import annotations

import numpy as np
from attrs import define

from ludus_chase.actions import CAT, DIRECTIONS, MOUSE, MOVES
from ludus_chase.config import ChaseConfig
from ludus_chase.house import FloorPlan
from ludus_chase.world import AGENTS, Cheese, Stage, Status, Thing, World

FAR = np.float32(1e9)
_HANDS, _ARMS = 1.6, 2.5  # cells: picking up; tools, rockets and walls


@define(kw_only=True)
class Rooms:
    """Rooms of agents ``[B, 5]`` and things ``[B, THINGS]``, ``int64``."""

    agents: np.ndarray
    things: np.ndarray


def locate_rooms(plan: FloorPlan, world: World) -> Rooms:
    """Return the rooms of all agents and things."""
    return Rooms(agents=plan.room(world.x, world.y), things=plan.room(world.thing_x, world.thing_y))


@define(kw_only=True)
class Reach:
    """Targets in reach, by index within their kind, -1 for none; ``[B, 5] int64`` unless other shapes are given.

    Attributes:
        cheese: Cheese on the floor.
        item: Item on the floor.
        cake: Cake on the floor.
        hole: Hole with cheese; for a mouse with cheese, a free hole.
        hazard: Trap (0 to 2) or glove (3 to 5).
        tied: Agent tied to a rocket.
        crack: ``[B, 5] bool``: the crack is in reach.
        hittable_mouse: ``[B]``: mouse (1 to 4) that the cat can hit.
        catchable_mouse: ``[B]``: mouse (1 to 4) that the cat can catch.
    """

    cheese: np.ndarray
    item: np.ndarray
    cake: np.ndarray
    hole: np.ndarray
    hazard: np.ndarray
    tied: np.ndarray
    crack: np.ndarray
    hittable_mouse: np.ndarray
    catchable_mouse: np.ndarray
    free_rocket: np.ndarray


def compute_reach(world: World, rooms: Rooms, *, config: ChaseConfig) -> Reach:
    """Return the targets in reach of all agents."""
    square = _squares(world, rooms)
    lies = square.copy()
    lies[~np.broadcast_to(world.present[:, None, :], lies.shape)] = FAR
    hits, catches = _to_mice(world, rooms)
    floor = np.where((world.cheese == Cheese.FLOOR)[:, None], square[:, :, Thing.CHEESES], FAR)
    return Reach(
        cheese=_nearest(floor, _HANDS),
        item=_nearest(lies[:, :, Thing.ITEMS], _HANDS),
        cake=_nearest(lies[:, :, Thing.CAKES], _HANDS),
        hole=_nearest(_open_holes(world, square[:, :, Thing.HOLES]), _ARMS),
        hazard=_nearest(lies[:, :, Thing.TRAPS.start : Thing.GLOVES.stop], _ARMS),
        tied=_tied(world, square[:, :, Thing.ROCKETS]),
        crack=lies[:, :, Thing.CRACK] <= _ARMS**2,
        hittable_mouse=_nearest(hits, config.hit_reach, first=1),
        catchable_mouse=_nearest(catches, _HANDS, first=1),
        free_rocket=_nearest(np.where(world.amount[:, Thing.ROCKETS] > 0, FAR, square[:, 0, Thing.ROCKETS]), _ARMS),
    )


def _squares(world: World, rooms: Rooms) -> np.ndarray:
    """Return ``[B, 5, THINGS] float32``: squared distances, FAR for things in another room."""
    dx: np.ndarray = world.x[:, :, None] - world.thing_x[:, None]
    dy = world.y[:, :, None] - world.thing_y[:, None]
    dx *= dx
    dy *= dy
    dx += dy
    dx[rooms.agents[:, :, None] != rooms.things[:, None]] = FAR
    return dx


def _to_mice(world: World, rooms: Rooms) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances from the cat to mice that it can hit and to mice that are down, ``[B, 4] float32``."""
    dx, dy = world.x[:, 1:] - world.x[:, :1], world.y[:, 1:] - world.y[:, :1]
    square = np.where(rooms.agents[:, 1:] == rooms.agents[:, :1], dx * dx + dy * dy, FAR)
    status = world.status[:, 1:]
    hits = np.where((status == Status.FREE) & (world.safe[:, 1:] == 0), square, FAR)
    return hits, np.where(status == Status.DOWN, square, FAR)


def _open_holes(world: World, square: np.ndarray) -> np.ndarray:
    """Return the squared distances ``[B, 5, 5]`` to holes that agents can push cheese into or through."""
    empty = world.hole < 0
    stuck = ~empty & (np.take_along_axis(world.cheese, np.maximum(world.hole, 0), axis=1) == Cheese.IN_HOLE)
    useful = np.where((world.hold >= 0)[:, :, None], empty[:, None], stuck[:, None])
    return np.where(useful, square, FAR)


def _tied(world: World, square: np.ndarray) -> np.ndarray:
    """Return ``[B, 5] int64``: the agent tied to the nearest such rocket in reach, -1 for none."""
    holder = np.full((len(square), 3), -1)
    matches, agents = np.nonzero(world.status == Status.TIED)
    holder[matches, world.rocket[matches, agents]] = agents
    found = _nearest(np.where((holder >= 0)[:, None], square, FAR), _ARMS)
    return np.where(found < 0, -1, np.take_along_axis(holder, np.maximum(found, 0), axis=1))


def _nearest(square: np.ndarray, reach: float, *, first: int = 0) -> np.ndarray:
    """Return the index plus `first` of the nearest of ``square […, k]`` within reach, -1 for none."""
    return np.where(square.min(axis=-1) <= reach * reach, square.argmin(axis=-1) + first, -1)


def first_claims(matches: np.ndarray, agents: np.ndarray, wanted: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return ``[n] bool``: for each thing, the claim of the agent with the lowest index.

    Args:
        matches: ``[n] int64``.
        agents: ``[n] int64``.
        wanted: ``[n] int64``: things that agents claim.
        shape: Numbers of matches and things.
    """
    first = np.full(shape, AGENTS)
    np.minimum.at(first, (matches, wanted), agents)
    chosen: np.ndarray = first[matches, wanted] == agents
    return chosen


_ACTIONS = len(MOUSE)


def update_masks(world: World, reach: Reach, *, cat: np.ndarray, mouse: np.ndarray) -> None:
    """Write the masks of actions (the first 18 entries) and of directions, which are always legal.

    Args:
        world: State of the matches.
        reach: Targets in reach.
        cat: ``[B, 1, 34] bool``.
        mouse: ``[B, 4, 34] bool``.
    """
    _update_cat(world, reach, cat[:, 0])
    _update_mice(world, reach, mouse)
    for mask in (cat, mouse):
        mask[:, :, : len(MOVES)] = True
        mask[:, :, _ACTIONS : _ACTIONS + len(DIRECTIONS)] = True


def _update_cat(world: World, reach: Reach, mask: np.ndarray) -> None:
    """Write the masks of cats, ``[B, 34]``."""
    plays = world.stage != Stage.PREPARATION
    bare, item = world.hold[:, 0] < 0, world.item[:, 0] >= 0
    mask[:, CAT["hit"]] = bare
    mask[:, CAT["catch"]] = bare & (reach.catchable_mouse > 0)
    mask[:, CAT["tie"]] = ~bare & (reach.free_rocket >= 0)
    mask[:, CAT["drop"]] = ~bare | item
    mask[:, CAT["trap"]] = plays & bare & (world.weapons[:, 0] == 0)
    mask[:, CAT["glove"]] = plays & bare & (world.weapons[:, 1] == 0)
    mask[:, CAT["grab"]] = plays & ~item & (reach.item[:, 0] >= 0)
    mask[:, CAT["use"]] = item
    mask[:, CAT["ability"]] = plays & bare & (world.cooldown[:, 0] == 0)


def _update_mice(world: World, reach: Reach, mask: np.ndarray) -> None:
    """Write the masks of mice, ``[B, 4, 34]``."""
    plays = (world.stage != Stage.PREPARATION)[:, None]
    bare, item = world.hold[:, 1:] < 0, world.item[:, 1:] >= 0
    lies = np.where(plays, ~item & (reach.item[:, 1:] >= 0), bare & (reach.cake[:, 1:] >= 0))
    mask[:, :, MOUSE["lift"]] = plays & bare & (reach.cheese[:, 1:] >= 0)
    mask[:, :, MOUSE["grab"]] = lies
    mask[:, :, MOUSE["drop"]] = plays & (~bare | item)
    mask[:, :, MOUSE["push"]] = plays & (reach.hole[:, 1:] >= 0)
    mask[:, :, MOUSE["crack"]] = (world.stage == Stage.BREAKING)[:, None] & reach.crack[:, 1:]
    mask[:, :, MOUSE["rescue"]] = plays & (reach.tied[:, 1:] >= 0)
    mask[:, :, MOUSE["disarm"]] = plays & (reach.hazard[:, 1:] >= 0)
    mask[:, :, MOUSE["use"]] = item
    mask[:, :, MOUSE["ability"]] = plays & (world.cooldown[:, 1:] == 0)
