"""Observations and masks of both sides, each in its own frame; see `ludus_skirmish.layout` for the numbers."""

from __future__ import annotations

import numpy as np
from ludus.environment import RoleTick

from ludus_skirmish import kinds
from ludus_skirmish.actions import MOVE, NEAREST, SLOT, STOP
from ludus_skirmish.layout import COLUMN, DAMAGE, HIDDEN, LENGTH, POINTS, UNIT
from ludus_skirmish.world import World, other

_WIDTH = len(UNIT)
_HIDDEN = [COLUMN[name] for name in HIDDEN]


def _fixed_numbers() -> np.ndarray:
    """Return ``[K, 18] float32``: the numbers of a kind that do not change."""
    numbers = np.zeros((len(kinds.KINDS), _WIDTH), np.float32)
    for name, unit in (("damage", DAMAGE), ("reach", LENGTH), ("air_reach", LENGTH), ("speed", LENGTH), ("air", 1.0)):
        numbers[:, COLUMN[name.replace("_", "-")]] = kinds.by_kind(name) / unit
    numbers[:, COLUMN["is-walker"] :] = np.eye(len(kinds.KINDS), dtype=np.float32)
    return numbers


_FIXED = _fixed_numbers()


def unit_numbers(world: World) -> np.ndarray:
    """Return ``[B, 2, N, 18] float32``: the numbers of all units in the frame of their side; 0 for absent ones."""
    numbers: np.ndarray = _FIXED[world.kind]
    numbers[..., COLUMN["x"]] = world.x / world.size
    numbers[..., COLUMN["y"]] = world.y / world.size
    numbers[..., COLUMN["health"]] = world.health / kinds.HEALTH[world.kind]
    numbers[..., COLUMN["health-size"]] = world.health / POINTS
    numbers[..., COLUMN["shield-size"]] = world.shield / POINTS
    numbers[..., COLUMN["wait"]] = world.wait / kinds.PERIOD[world.kind]
    numbers *= world.alive[..., None]
    return numbers


def update_masks(world: World, mask: np.ndarray) -> None:
    """Write the legal choices of all units into ``mask [B, 2, N, 12 + N] bool``; others can only stop."""
    mask[..., STOP] = True
    mask[..., MOVE:NEAREST] = world.alive[..., None]
    mask[..., NEAREST:SLOT] = world.targets.any(axis=3, keepdims=True)
    mask[..., SLOT:] = world.targets


class View:
    """Writes the observations of a role.

    Args:
        tick: Arrays of the role.
        of_unit: Whether a seat is a unit, else an army.
    """

    def __init__(self, tick: RoleTick, *, of_unit: bool) -> None:
        self._tick, self._of_unit = tick, of_unit

    def update(self, world: World, time_left: np.ndarray) -> None:
        """Write all observations.

        Args:
            world: The state.
            time_left: ``[B] float32``: share of the time limit.
        """
        own = unit_numbers(world)
        enemy = other(own).copy()
        # In the frame of the other side x is mirrored; absent units stay at 0.
        enemy[..., COLUMN["x"]] = (1.0 - enemy[..., COLUMN["x"]]) * other(world.alive)
        leaves, seats = self._tick.observation, self._tick.acting.shape
        hidden = self._tick.privileged["hidden"]
        self._spread(hidden, enemy[..., _HIDDEN].reshape(seats[0], 2, -1))
        self._spread(leaves["common"], self._common(world, time_left))
        self._spread(leaves["own_present"], world.alive)
        self._spread(leaves["enemy_present"], world.seen)
        enemy *= world.seen[..., None]
        if self._of_unit:
            leaves["self"].reshape(own.shape)[:] = own
            self._write_relative(world, own, enemy)
        else:
            leaves["own"][:], leaves["enemy"][:] = own, enemy

    def _spread(self, leaf: np.ndarray, values: np.ndarray) -> None:
        """Write values of sides ``[B, 2, …]`` to all of their seats."""
        leaf.reshape(leaf.shape[0], 2, -1, *leaf.shape[2:])[:] = values[:, :, None]

    def _common(self, world: World, time_left: np.ndarray) -> np.ndarray:
        """Return ``[B, 2, 6] float32``; enemies out of sight count in neither number nor value."""
        slots = np.float32(world.kind.shape[2])
        value = kinds.VALUE[world.kind] * np.maximum(world.health, 0) / kinds.HEALTH[world.kind]
        army = np.maximum(kinds.VALUE[world.kind].sum(axis=2), 1)
        seen = other(value) * world.seen
        numbers = [
            np.broadcast_to(time_left[:, None], army.shape),
            world.alive.sum(axis=2) / slots,
            world.seen.sum(axis=2) / slots,
            value.sum(axis=2) / army,
            seen.sum(axis=2) / army,
            np.full(army.shape, world.size / LENGTH),
        ]
        return np.stack(numbers, axis=2).astype(np.float32)

    def _write_relative(self, world: World, own: np.ndarray, enemy: np.ndarray) -> None:
        """Write the tables of all units, with the places of others relative to each."""
        count, _, slots, _ = own.shape
        alive, scale = world.alive, np.float32(LENGTH)
        own_dx = world.x[:, :, None] - world.x[..., None]
        own_dy = world.y[:, :, None] - world.y[..., None]
        own_distance = np.sqrt(own_dx * own_dx + own_dy * own_dy)
        itself = np.broadcast_to(np.eye(slots, dtype=np.float32), own_dx.shape)
        in_reach = (world.distance <= world.reach).astype(np.float32)
        groups = {
            "own": (own, alive, (own_dx, own_dy, own_distance), itself),
            "enemy": (enemy, world.seen, (world.dx, world.dy, world.distance), in_reach),
        }
        for name, (numbers, there, places, mark) in groups.items():
            table = self._tick.observation[name].reshape(count, 2, slots, slots, -1)
            table[..., :_WIDTH] = numbers[:, :, None]
            for column, place in enumerate(places, _WIDTH):
                np.divide(place, scale, out=table[..., column])
            table[..., _WIDTH + 3] = mark
            table[..., _WIDTH:] *= there[:, :, None, :, None]
