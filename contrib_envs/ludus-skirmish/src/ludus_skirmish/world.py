"""The state of B matches, as arrays. Axis 1 is the side, axis 2 the slot of a unit.

Every side sees the field in its own frame: x runs from its own edge at 0 to the enemy's edge, y is common.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs
import numpy as np
from attrs import define

Indices: TypeAlias = np.ndarray | slice
#: Columns of `World.tally`.
TALLY = ("kills", "losses", "dealt", "taken")
COLUMN = {name: column for column, name in enumerate(TALLY)}


def other(array: np.ndarray) -> np.ndarray:
    """Return an array ``[B, 2, …]`` with the sides exchanged."""
    return array[:, ::-1]


@define(kw_only=True)
class World:
    """State of B matches with N units a side.

    Attributes:
        size: Side of the square field.
        sight: Distance within which units see enemies; 0: a side sees all.
        kind: ``[B, 2, N] int64``; the following have this shape too, ``float32`` where not stated.
        x: Place in the frame of the side; likewise `y`.
        health: 0 or less: destroyed, or not part of the match. Likewise `shield`.
        wait: ``int64``: ticks until the next attack.
        calm: ``int64``: ticks since the last damage.
        aim: ``int64``: the slot that the unit attacked on the last tick; -1: none.
        reach: ``[B, 2, N, N]``: distance within which a unit attacks each enemy; -1: it cannot. Likewise `power`, the
            damage of an attack.
        dx: ``[B, 2, N, N]``: from a unit to each enemy, in the frame of the side; likewise `dy` and `distance`.
        seen: ``[B, 2, N] bool``: living enemies that a side sees.
        targets: ``[B, 2, N, N] bool``: enemies that a unit can be ordered to attack.
        strength: ``[B]``: mean of the points of health and shield of both armies at the start.
        tally: Sums of the match, ``[B, 2, 4] float32`` by `TALLY`.
        ticks: ``[B] int64`` since the start; `running` ``[B] bool``.
    """

    size: float
    sight: float
    kind: np.ndarray
    x: np.ndarray
    y: np.ndarray
    health: np.ndarray
    shield: np.ndarray
    wait: np.ndarray
    calm: np.ndarray
    aim: np.ndarray
    reach: np.ndarray
    power: np.ndarray
    dx: np.ndarray
    dy: np.ndarray
    distance: np.ndarray
    seen: np.ndarray
    targets: np.ndarray
    strength: np.ndarray
    tally: np.ndarray
    ticks: np.ndarray
    running: np.ndarray

    @classmethod
    def blank(cls, num_matches: int, slots: int, *, size: float, sight: float) -> World:
        """Return matches that are not running, without units."""
        army, pairs = (num_matches, 2, slots), (num_matches, 2, slots, slots)
        whole = {name: np.zeros(army, np.int64) for name in ("kind", "wait", "calm", "aim")}
        real = {name: np.zeros(army, np.float32) for name in ("x", "y", "health", "shield")}
        paired = {name: np.zeros(pairs, np.float32) for name in ("reach", "power", "dx", "dy", "distance")}
        return cls(
            size=size,
            sight=sight,
            **whole,
            **real,
            **paired,
            seen=np.zeros(army, bool),
            targets=np.zeros(pairs, bool),
            strength=np.ones(num_matches, np.float32),
            tally=np.zeros((num_matches, 2, len(TALLY)), np.float32),
            ticks=np.zeros(num_matches, np.int64),
            running=np.zeros(num_matches, bool),
        )

    def put(self, at: Indices, source: World) -> None:
        """Copy the matches of another world to the match indices `at`."""
        for field in attrs.fields(World):
            if isinstance(values := getattr(source, field.name), np.ndarray):
                getattr(self, field.name)[at] = values

    @property
    def alive(self) -> np.ndarray:
        """Return ``[B, 2, N] bool``: units that live."""
        return np.asarray(self.health > 0)


def perceive(world: World) -> None:
    """Update distances, and what both sides see and can attack."""
    enemy_x, enemy_y = np.float32(world.size) - other(world.x), other(world.y)
    np.subtract(enemy_x[:, :, None], world.x[..., None], out=world.dx)
    np.subtract(enemy_y[:, :, None], world.y[..., None], out=world.dy)
    np.multiply(world.dx, world.dx, out=world.distance)
    world.distance += world.dy * world.dy
    np.sqrt(world.distance, out=world.distance)
    alive = world.alive
    world.seen[:] = other(alive)
    if world.sight > 0:
        near = (world.distance <= np.float32(world.sight)) & alive[..., None]
        world.seen &= near.any(axis=2)
    np.greater(world.reach, np.float32(0.0), out=world.targets)
    world.targets &= world.seen[:, :, None]
    world.targets &= alive[..., None]
