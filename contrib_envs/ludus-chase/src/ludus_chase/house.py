"""Houses: a grid of rooms, random doors, movement through them, and paths from room to room.

Random numbers of matches are functions of their seeds.
"""

from __future__ import annotations

import numpy as np
from attrs import define, field, frozen
from ludus.random import random_bits, random_floats

from ludus_chase.world import MatchArrays


def draw_floats(seeds: np.ndarray, first: int, count: int) -> np.ndarray:
    """Return the random numbers `first` to ``first + count - 1`` of each seed, ``[n, count] float64`` in [0, 1).

    Args:
        seeds: ``[n] uint64``.
        first: Index of the first number.
        count: Number of random numbers.
    """
    return random_floats(random_bits(seeds[:, None], np.arange(first, first + count)))


def draw_permutations(seeds: np.ndarray, first: int, count: int) -> np.ndarray:
    """Return a random permutation of 0 … count - 1 for each seed, ``[n, count] int64``."""
    drawn: np.ndarray = draw_floats(seeds, first, count).argsort(axis=1)
    return drawn


#: The map in cells.
WIDTH, HEIGHT = 72, 48
#: Half the width of a door, and the minimum distance to a wall, in cells.
DOOR, MARGIN = 2.0, 0.4
EAST, SOUTH, WEST, NORTH = range(4)

_STEP = (np.array([1, 0, -1, 0]), np.array([0, 1, 0, -1]))  # by side
_BEYOND = 0.8  # cells: how far a path leads beyond its first door
_FAR = np.float32(1e6)


@frozen(kw_only=True)
class FloorPlan:
    """Layout that all houses of an environment share: R = columns · rows rooms and W inner walls.

    Args:
        columns: Rooms from west to east.
        rows: Rooms from north to south.

    Attributes:
        width: Width of a room in cells; likewise `height`.
        sides: ``[R · 4] int64``: inner wall on each side of a room; W, which never has a door, for outer walls.
        joins: ``[W, 2] int64``: rooms on both sides of an inner wall.
        vertical: ``[W] bool``: the wall runs from north to south.
    """

    columns: int
    rows: int
    width: np.float32 = field(init=False)
    height: np.float32 = field(init=False)
    sides: np.ndarray = field(init=False)
    joins: np.ndarray = field(init=False)
    vertical: np.ndarray = field(init=False)

    def __attrs_post_init__(self) -> None:
        rooms = np.arange(self.rooms).reshape(self.rows, self.columns)
        east = np.stack([rooms[:, :-1].ravel(), rooms[:, 1:].ravel()], axis=1)
        south = np.stack([rooms[:-1].ravel(), rooms[1:].ravel()], axis=1)
        joins = np.concatenate([east, south])
        vertical = np.arange(len(joins)) < len(east)
        sides = np.full((self.rooms, 4), len(joins))
        for wall, (first, second) in enumerate(joins):
            sides[first, EAST if vertical[wall] else SOUTH] = wall
            sides[second, WEST if vertical[wall] else NORTH] = wall
        found: dict[str, object] = {"joins": joins, "vertical": vertical, "sides": sides.ravel()}
        found |= {"width": np.float32(WIDTH / self.columns), "height": np.float32(HEIGHT / self.rows)}
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def rooms(self) -> int:
        """Return R."""
        return self.columns * self.rows

    @property
    def walls(self) -> int:
        """Return W."""
        return len(self.joins)

    def room(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the room of each point, ``int64``."""
        column = np.minimum((x / self.width).astype(np.int64), self.columns - 1)
        row = np.minimum((y / self.height).astype(np.int64), self.rows - 1)
        return row * self.columns + column


@define
class House(MatchArrays):
    """The houses of all matches.

    Attributes:
        door_x: ``[B, W + 1] float32``: centre of the door in each inner wall; likewise `door_y`.
        open: ``[B, W + 1] bool``: the wall has a door; the last entry stands for outer walls.
        first_x: ``[B, R · R] float32``: first waypoint of the path between two rooms; likewise `first_y`.
        last_x: Last door on the path; likewise `last_y`.
        between: Distance from the first door to the last in cells.
    """

    door_x: np.ndarray
    door_y: np.ndarray
    open: np.ndarray
    first_x: np.ndarray
    first_y: np.ndarray
    last_x: np.ndarray
    last_y: np.ndarray
    between: np.ndarray


def build_houses(plan: FloorPlan, seeds: np.ndarray, *, first: int, extra_doors: float) -> House:
    """Build houses in which every room can be reached.

    Args:
        plan: Rooms and walls.
        seeds: ``[n] uint64``.
        first: Index of the first random number to use.
        extra_doors: Share of the doors not needed that are open all the same.
    """
    walls = plan.walls
    order = draw_permutations(seeds, first, walls)
    drawn = draw_floats(seeds, first + walls, 2 * walls)
    open_ = _spanning_doors(plan, order) | (drawn[:, :walls] < extra_doors)
    open_ = np.concatenate([open_, np.zeros((len(seeds), 1), bool)], axis=1)
    x, y = _doors(plan, drawn[:, walls:])
    return House(x, y, open_, *_room_paths(plan, x, y, open_))


def _spanning_doors(plan: FloorPlan, order: np.ndarray) -> np.ndarray:
    """Return ``[n, W] bool``: doors of a spanning tree of the rooms, chosen greedily in ``order [n, W]``."""
    count = len(order)
    houses = np.arange(count)
    label = np.tile(np.arange(plan.rooms), (count, 1))
    needed = np.zeros(order.shape, bool)
    for wall in order.T:
        ends = plan.joins[wall]
        one, other = label[houses, ends[:, 0]], label[houses, ends[:, 1]]
        needed[houses, wall] = one != other
        label = np.where(label == other[:, None], one[:, None], label)
    return needed


def _doors(plan: FloorPlan, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the centres of doors, ``[n, W + 1] float32`` each, from numbers in [0, 1); the last is a dummy."""
    row, column = np.divmod(plan.joins[:, 0], plan.columns)
    room = 2 * (DOOR + MARGIN)
    x = np.where(plan.vertical, (column + 1) * plan.width, column * plan.width + room / 2)
    y = np.where(plan.vertical, row * plan.height + room / 2, (row + 1) * plan.height)
    shift_x = np.where(plan.vertical, 0.0, plan.width - room)
    shift_y = np.where(plan.vertical, plan.height - room, 0.0)
    dummy = np.full((len(drawn), 1), -_FAR)
    doors = (np.concatenate([at + shift * drawn, dummy], axis=1) for at, shift in ((x, shift_x), (y, shift_y)))
    return tuple(at.astype(np.float32) for at in doors)  # type: ignore[return-value]


def _room_paths(plan: FloorPlan, x: np.ndarray, y: np.ndarray, open_: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the last five arrays of `House`: the shortest paths between rooms."""
    apart = _between_doors(plan, x, y, open_)
    rooms = np.arange(plan.rooms)
    sides = plan.sides.reshape(-1, 4)
    middle_x = ((rooms % plan.columns + 0.5) * plan.width).astype(np.float32)[:, None]
    middle_y = ((rooms // plan.columns + 0.5) * plan.height).astype(np.float32)[:, None]
    near = np.sqrt((x[:, sides] - middle_x) ** 2 + (y[:, sides] - middle_y) ** 2)  # [n, R, 4]
    near = np.where(open_[:, sides], near, _FAR)
    total = near[:, :, None, :, None] + near[:, None, :, None, :] + apart[:, sides][..., sides].swapaxes(2, 3)
    best = total.reshape(len(x), plan.rooms**2, 16).argmin(axis=2)  # [n, R · R]
    start, end = np.repeat(rooms, plan.rooms), np.tile(rooms, plan.rooms)
    first, last = sides[start, best // 4], sides[end, best % 4]
    row = np.arange(len(x))[:, None]
    return (
        x[row, first] + (_BEYOND * _STEP[0][best // 4]).astype(np.float32),
        y[row, first] + (_BEYOND * _STEP[1][best // 4]).astype(np.float32),
        x[row, last],
        y[row, last],
        apart[row, first, last],
    )


def _between_doors(plan: FloorPlan, x: np.ndarray, y: np.ndarray, open_: np.ndarray) -> np.ndarray:
    """Return ``[n, W + 1, W + 1] float32``: walking distances between doors in cells (Floyd-Warshall)."""
    walls = plan.walls
    together = np.zeros((walls + 1, walls + 1), bool)
    together[:walls, :walls] = (plan.joins[:, None, :, None] == plan.joins[None, :, None, :]).any(axis=(2, 3))
    apart: np.ndarray = np.sqrt((x[:, :, None] - x[:, None]) ** 2 + (y[:, :, None] - y[:, None]) ** 2)
    apart = np.where(together & open_[:, :, None] & open_[:, None], apart, _FAR)
    for wall in range(walls):
        apart = np.minimum(apart, apart[:, :, wall, None] + apart[:, wall, None, :])
    return apart


def move_points(
    plan: FloorPlan, house: House, matches: np.ndarray, x: np.ndarray, y: np.ndarray, *, dx: np.ndarray, dy: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Move points through doors and along walls, first in x, then in y.

    Args:
        plan: Rooms and walls of the houses.
        house: All houses.
        matches: Match index of each point, ``[…] int64``.
        x: ``[…] float32``.
        y: Likewise.
        dx: ``[…] float32``, less than the width of a room.
        dy: Likewise.
    """
    x = _move_along_axis(plan, house, matches, (x, y), dx, axis=0)
    return x, _move_along_axis(plan, house, matches, (x, y), dy, axis=1)


def _move_along_axis(
    plan: FloorPlan, house: House, matches: np.ndarray, at: tuple[np.ndarray, np.ndarray], by: np.ndarray, *, axis: int
) -> np.ndarray:
    """Return coordinate `axis` of points after the movement along it."""
    size = plan.height if axis else plan.width
    room = plan.room(*at)
    low = (room // plan.columns if axis else room % plan.columns).astype(np.float32) * size
    to = at[axis] + by
    ahead, back = (SOUTH, NORTH) if axis else (EAST, WEST)
    wall = plan.sides.take(room * 4 + np.where(by > 0, ahead, back))
    door = matches * (plan.walls + 1) + wall
    middle = (house.door_x if axis else house.door_y).reshape(-1).take(door)
    passes = house.open.reshape(-1).take(door) & (np.abs(at[1 - axis] - middle) <= DOOR)
    passes &= (to < low) | (to >= low + size)
    inside = np.minimum(np.maximum(to, low + np.float32(MARGIN)), low + (size - np.float32(MARGIN)))
    end: np.ndarray = np.where(passes, to, inside)
    return end
