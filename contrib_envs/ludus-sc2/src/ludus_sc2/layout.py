"""Spaces of the environment ``sc2``: observation leaves and action labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from ludus_sc2.names import ITEMS, PROGRESS, TECHNOLOGIES

#: Numbers of a unit. Positions are shares of the playable area, from the corner of the own start; ``kind`` is an index
#: of `ludus_sc2.names.KINDS`; ``assigned`` and ``ideal`` are the workers of town halls and extractors.
UNIT = (
    "kind", "x", "y", "health", "energy", "progress", "flying", "idle", "assigned", "ideal", "army", "structure",
)  # fmt: skip
COLUMN = {name: index for index, name in enumerate(UNIT)}
#: Numbers of a mineral field or geyser; ``amount`` is what is left in it, 0 where that is not visible.
RESOURCE = ("x", "y", "amount", "gas")
MAX_RESOURCES = 192
#: Resource areas, the own start first, ordered by their distance from it.
MAX_AREAS = 16
PLAYER = (
    "minerals", "vespene", "food_cap", "food_used", "food_army", "food_workers", "idle_worker_count", "army_count",
    "larva_count",
)  # fmt: skip
#: The score of the game, then what makes it up.
SCORE = (
    "idle_production_time", "idle_worker_time", "total_value_units", "total_value_structures", "killed_value_units",
    "killed_value_structures", "collected_minerals", "collected_vespene", "collection_rate_minerals",
    "collection_rate_vespene", "spent_minerals", "spent_vespene",
)  # fmt: skip

#: Zones A to I divide the playable area into 3 x 3, row by row from the own start; zone J is the whole area.
ZONES = "ABCDEFGHIJ"
#: The first choice of every label leaves it to the rules of this package, the second one does nothing new.
RULES, NONE = 0, 1
GAS_FIRST, MINERAL_FIRST = 2, 3
DEFEND, RALLY_OWN, RALLY_RIVAL, ATTACK_NEAREST, ATTACK_AREA = 2, 3, 4, 5, 6
ZONE_ATTACK = ATTACK_AREA + MAX_AREAS
LABEL_SIZES = (2 + len(ITEMS), 4, ZONE_ATTACK + len(ZONES) ** 2)
_UNBOUNDED = np.inf


def observation_space(max_units: int, max_resources: int = MAX_RESOURCES) -> spaces.Dict:
    """Return the space of what a seat observes.

    Args:
        max_units: Units of each side that are observed.
        max_resources: Mineral fields and geysers that are observed.
    """
    units: dict[str, Space[Any]] = {}
    for side in ("own", "enemy"):
        units[side] = spaces.Box(0.0, _UNBOUNDED, (max_units, len(UNIT)), np.float32)
        units[f"{side}_present"] = spaces.MultiBinary(max_units)
    return spaces.Dict(
        {
            **units,
            "resources": spaces.Box(0.0, _UNBOUNDED, (max_resources, len(RESOURCE)), np.float32),
            "resources_present": spaces.MultiBinary(max_resources),
            "areas": spaces.Box(0.0, 1.0, (MAX_AREAS, 2), np.float32),
            "areas_present": spaces.MultiBinary(MAX_AREAS),
            "player": spaces.Box(0.0, _UNBOUNDED, (len(PLAYER),), np.float32),
            "score": spaces.Box(0.0, _UNBOUNDED, (1 + len(SCORE),), np.float32),
            "upgrades": spaces.MultiBinary(len(TECHNOLOGIES)),
            "in_progress": spaces.Box(0.0, 1.0, (len(PROGRESS),), np.float32),
            "time": spaces.Box(0.0, 1.0, (1,), np.float32),
        }
    )


def action_space() -> spaces.MultiDiscrete:
    """Return the space of actions: what to produce, what to harvest first, and where to fight."""
    return spaces.MultiDiscrete(list(LABEL_SIZES))
