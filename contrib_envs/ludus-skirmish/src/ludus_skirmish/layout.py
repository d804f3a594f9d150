"""The numbers of an observation by leaf: their names, and the spaces."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from ludus_skirmish.names import KINDS

#: Numbers of every unit. x and y are shares of the field in the own frame, `wait` is a share of the time between two
#: attacks, `health-size` and `shield-size` are in units of 100 points.
UNIT = (
    "x", "y", "health", "health-size", "shield-size", "wait", "damage", "reach", "air-reach", "speed", "air",
    *(f"is-{kind}" for kind in KINDS),
)  # fmt: skip
#: The column of each number.
COLUMN = {name: column for column, name in enumerate(UNIT)}
#: Further numbers of units in observations of a single unit: places relative to it in units of 10, and a mark, which is
#: 1 for the unit itself and for enemies within its reach.
RELATIVE = ("dx", "dy", "distance", "mark")
#: The side of the field is in units of 10.
COMMON = ("time-left", "own-units", "enemy-units", "own-value", "enemy-value", "field-size")
#: Numbers of every enemy that critics read in addition, whether or not it is visible.
HIDDEN = ("x", "y", "health-size", "shield-size", "wait")
#: Leaves of units, each with a mask ``NAME_present``.
TABLES = ("own", "enemy")
LIMIT = 5.0
POINTS, LENGTH, DAMAGE = 100.0, 10.0, 40.0


def _box(*shape: int) -> spaces.Box:
    return spaces.Box(-LIMIT, LIMIT, shape, np.float32)


def observation_space(slots: int, *, of_unit: bool) -> spaces.Dict:
    """Return the space of an observation of an army, or of one of its units: both armies as entities, and vectors."""
    width = len(UNIT) + len(RELATIVE) * of_unit
    leaves: dict[str, spaces.Space[np.ndarray]] = {}
    for name in TABLES:
        leaves[name] = _box(slots, width)
        leaves[f"{name}_present"] = spaces.MultiBinary(slots)
    if of_unit:
        leaves["self"] = _box(len(UNIT))
    leaves["common"] = _box(len(COMMON))
    return spaces.Dict(leaves)


def privileged_space(slots: int) -> spaces.Dict:
    """Return the space of what critics read in addition."""
    return spaces.Dict({"hidden": _box(slots * len(HIDDEN))})
