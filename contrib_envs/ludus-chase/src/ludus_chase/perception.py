"""Knowledge of the teams: entities in the rooms where they are, and the last sightings of all others."""

from __future__ import annotations

import numpy as np
from attrs import define

from ludus_chase.game import Events
from ludus_chase.house import HEIGHT, WIDTH, FloorPlan, House
from ludus_chase.reach import Rooms
from ludus_chase.world import GONE, Cheese, Stage, Status, Thing, World

_UNSEEN = 1_000_000  # ticks


def perceive(plan: FloorPlan, world: World, rooms: Rooms) -> None:
    """Update the memory of the cat (0) and the mice (1), and the sightings of agents by opponents."""
    seen_rooms = _seen_rooms(world, rooms)
    visible = (seen_rooms[:, :, None] >> rooms.things[:, None] & 1).astype(bool)
    remembered = plan.room(world.seen_x, world.seen_y)
    missing = (seen_rooms[:, :, None] >> remembered & 1).astype(bool) & ~visible
    world.known &= ~missing  # it has moved
    world.known |= visible
    for memory, truth in (
        (world.seen_x, world.thing_x),
        (world.seen_y, world.thing_y),
        (world.seen_present, world.present),
        (world.seen_amount, world.amount),
    ):
        np.copyto(memory, truth[:, None], where=visible)
    state = np.concatenate([world.cheese, _hole_state(world)], axis=1)
    np.copyto(world.seen_state, state[:, None], where=visible[:, :, : Thing.HOLES.stop])
    _update_spotted(world, rooms, seen_rooms)


def _seen_rooms(world: World, rooms: Rooms) -> np.ndarray:
    """Return ``[B, 2] int64``: the rooms visible to the cat and to the mice, one bit each."""
    bits = np.left_shift(1, rooms.agents)
    bits[GONE[world.status] | (world.status == Status.WRECKED)] = 0
    return np.stack([bits[:, 0], np.bitwise_or.reduce(bits[:, 1:], axis=1)], axis=1)


def _hole_state(world: World) -> np.ndarray:
    """Return ``[B, 5] int64``: 0 for a free hole, 1 for a hole with cheese, 2 for a filled hole."""
    inside = np.take_along_axis(world.cheese, np.maximum(world.hole, 0), axis=1)
    return np.where(world.hole < 0, 0, np.where(inside == Cheese.PUSHED, 2, 1))


def _update_spotted(world: World, rooms: Rooms, seen_rooms: np.ndarray) -> None:
    """Update the sightings of agents by opponents."""
    seen = np.empty(world.status.shape, bool)
    seen[:, 0] = seen_rooms[:, 1] >> rooms.agents[:, 0] & 1
    seen[:, 1:] = rooms.agents[:, 1:] == rooms.agents[:, :1]
    seen &= ~GONE[world.status]
    world.spotted |= seen
    np.minimum(world.spotted_age + 1, _UNSEEN, out=world.spotted_age)
    np.copyto(world.spotted_age, 0, where=seen)
    for memory, truth in (
        (world.spotted_x, world.x),
        (world.spotted_y, world.y),
        (world.spotted_health, world.health),
        (world.spotted_status, world.status),
        (world.spotted_holding, world.hold >= 0),
    ):
        np.copyto(memory, truth, where=seen)


def record_first_sightings(world: World, events: Events) -> None:
    """Record the first rocket and the first hole that the cat sees after the preparation."""
    plays = (world.stage != Stage.PREPARATION) & world.running
    for place, (kind, event) in enumerate(((Thing.ROCKETS, events.found_rocket), (Thing.HOLES, events.found_hole))):
        found = world.known[:, 0, kind].any(axis=1) & plays & ~world.firsts[:, place]
        np.add(event, found, out=event)
        world.firsts[:, place] |= found


@define(kw_only=True)
class Paths:
    """The ways from n agents per match to k targets, ``[B, n, k] float32`` each.

    Attributes:
        dx: Offset of the target in cells; likewise `dy`.
        step_x: Unit vector to the next door on the path, or to a target in the same room; 0 at the target;
            likewise `step_y`.
        far: Walking distance in cells.
        same: 1 for targets in the same room.
    """

    dx: np.ndarray
    dy: np.ndarray
    step_x: np.ndarray
    step_y: np.ndarray
    far: np.ndarray
    same: np.ndarray


def find_paths(
    plan: FloorPlan, house: House, start: tuple[np.ndarray, np.ndarray], target: tuple[np.ndarray, np.ndarray]
) -> Paths:
    """Return the ways from places ``[B, n]`` to places ``[B, k]``, given by x and y."""
    x, y = (each[:, :, None] for each in start)
    to_x, to_y = (each[:, None, :] for each in target)
    begin, end = plan.room(*start)[:, :, None], plan.room(*target)[:, None, :]
    same = begin == end
    matches = np.arange(len(x))[:, None, None] * plan.rooms**2
    pair = matches + begin * plan.rooms + end
    first_x, first_y, last_x, last_y, between = (
        table.reshape(-1).take(pair)
        for table in (house.first_x, house.first_y, house.last_x, house.last_y, house.between)
    )
    step_x, step_y = np.where(same, to_x, first_x) - x, np.where(same, to_y, first_y) - y
    near = np.sqrt(step_x * step_x + step_y * step_y)
    rest_x, rest_y = to_x - last_x, to_y - last_y
    rest = between + np.sqrt(rest_x * rest_x + rest_y * rest_y)
    unit = 1.0 / np.maximum(near, np.float32(0.5))
    far = np.minimum(near + np.where(same, np.float32(0), rest), np.float32(WIDTH + HEIGHT))
    return Paths(dx=to_x - x, dy=to_y - y, step_x=step_x * unit, step_y=step_y * unit, far=far, same=same)
