"""The observation interfaces of Arena for battles, by the names of the paper [Arena §A.2.1].

Each one draws both armies on a grid, from the side of the seat: row 0 is at y = 0, and the enemy starts at the last
columns. Numbers of units in a cell are added up. The observation of an army becomes the grid; that of a unit keeps its
leaf ``self`` beside the grid.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from attrs import frozen
from gymnasium import spaces
from ludus.environment import Leaves
from ludus.errors import ContractError
from ludus.interface import Identity, Interface, SeatView, Spaces
from ludus.spaces import leaf_spaces

from ludus_skirmish.layout import COLUMN, LIMIT, TABLES, UNIT

GRID, SELF = "grid", "self"


@frozen
class Channel:
    """What a channel of a grid shows of the units of a side.

    Args:
        number: Name of a number of a unit, one of `ludus_skirmish.layout.UNIT`.
        kind: Kind of the units that it shows; empty: all.
    """

    number: str
    kind: str = ""

    def values(self, table: np.ndarray) -> np.ndarray:
        """Return ``[n, N] float32`` from the numbers of units ``[n, N, ≥ 18]``."""
        values = table[..., COLUMN[self.number]]
        return np.asarray(values * table[..., COLUMN[f"is-{self.kind}"]] if self.kind else values)


_STATUS = ("health-size", "shield-size", "wait")
CHANNELS_5I = tuple(Channel(number) for number in _STATUS)
CHANNELS_3I2Z = tuple(Channel(number, kind) for kind in ("walker", "blade") for number in (*_STATUS, "damage"))
#: Whether a unit attacks the air is its reach there in a channel of its own, which is 0 for those that cannot.
CHANNELS_MAB = (
    *(Channel("health-size", kind) for kind in ("flyer", "archer", "brute", "runner", "bomber")),
    Channel("wait"),
    Channel("reach"),
    Channel("damage"),
    Channel("air-reach"),
)


def make_5i(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``img-5i-obs``: health, shield and time until the next attack, ``[8, 8, 6]``."""
    return GridObservation("img-5i-obs", cells=8, channels=CHANNELS_5I)


def make_3i2z(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``img-3i2z-obs``: health, shield, time until the next attack and damage by kind, ``[8, 8, 16]``."""
    return GridObservation("img-3i2z-obs", cells=8, channels=CHANNELS_3I2Z)


def make_mab(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``img-mab-obs``: health by kind, time until the next attack, reach, damage, air reach, ``[16, 16, 18]``."""
    return GridObservation("img-mab-obs", cells=16, channels=CHANNELS_MAB)


def require_tables(raw: Spaces, interface: str) -> int:
    """Return N, the number of units of an army in the observations of ``skirmish``.

    Raises:
        ContractError: The observation is another one.
    """
    leaves = leaf_spaces(raw.observation)
    shapes = [leaves[name].shape or () for name in TABLES if name in leaves and f"{name}_present" in leaves]
    if len(shapes) != len(TABLES) or any(len(shape) != 2 or shape[1] < len(UNIT) for shape in shapes):
        expected = f"the leaves {', '.join(TABLES)} with {len(UNIT)} numbers of each unit, and their masks"
        raise ContractError(
            f"{interface}: expected {expected}, as in the environment 'skirmish', got {', '.join(leaves)}; place it "
            f"before interfaces that change observations"
        )
    return int(shapes[0][0])


def cells_of(table: np.ndarray, cells: int) -> np.ndarray:
    """Return ``[n, N] int64``: row · `cells` + column on a grid, from the numbers of units ``[n, N, ≥ 18]``."""
    column, row = (np.clip((table[..., COLUMN[axis]] * cells).astype(np.int64), 0, cells - 1) for axis in ("x", "y"))
    return np.asarray(row * cells + column)


@frozen
class GridObservation(Identity):
    """Draws both armies on a grid.

    Args:
        name: Name of the interface in messages.
        cells: Rows and columns of the grid.
        channels: Channels of each side; those of the own side come first.
    """

    name: str
    cells: int
    channels: Sequence[Channel]

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with the grid.

        Raises:
            ContractError: The observations are not those of ``skirmish``.
        """
        units = require_tables(raw, self.name)
        shape = (self.cells, self.cells, 2 * len(self.channels))
        grid = spaces.Box(0.0, LIMIT * units, shape, np.float32)
        leaves = leaf_spaces(raw.observation)
        return Spaces(spaces.Dict({GRID: grid, SELF: leaves[SELF]}) if SELF in leaves else grid, raw.action)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002 - rows are independent
        """Return the view with the grid ``[n, cells, cells, channels] float32``."""
        leaves = view.observation
        grid = self._draw(leaves)
        if SELF in leaves:
            return attrs.evolve(view, observation={GRID: grid, SELF: leaves[SELF]})
        return attrs.evolve(view, observation={"obs": grid})

    def _draw(self, leaves: Leaves) -> np.ndarray:
        rows = len(leaves[TABLES[0]])
        count = len(self.channels)
        grid = np.zeros((rows, self.cells * self.cells, len(TABLES) * count), np.float32)
        for side, name in enumerate(TABLES):
            table, there = leaves[name], leaves[f"{name}_present"] > 0
            row, unit = np.nonzero(there)
            cell = cells_of(table, self.cells)[row, unit]
            for number, channel in enumerate(self.channels, side * count):
                # Values are bounded, as networks read them; those of the game are never negative.
                values = np.clip(channel.values(table)[row, unit], 0.0, LIMIT)
                np.add.at(grid[..., number], (row, cell), values)
        return grid.reshape(rows, self.cells, self.cells, -1)
