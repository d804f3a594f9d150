"""Writes a situation to the observation leaves of a seat."""

from __future__ import annotations

import numpy as np
from ludus.environment import Leaves

from ludus_sc2.layout import COLUMN, PLAYER, SCORE, UNIT
from ludus_sc2.names import PROGRESS, TECHNOLOGIES
from ludus_sc2.situation import SeenUnit, Situation, positions
from ludus_sc2.terrain import Terrain

_FULL_ENERGY = 200.0
_LEAST_PROGRESS = 1e-3  # of what has just begun, so that it differs from what has not


def write_observation(leaves: Leaves, situation: Situation, *, time: float) -> None:
    """Write all leaves of a seat, see `ludus_sc2.layout.observation_space`.

    Args:
        leaves: Arrays of the seat, by leaf.
        situation: What the seat sees.
        time: Share of the time limit that is used, in [0, 1].
    """
    terrain, raw = situation.terrain, situation.raw
    for side, units in (("own", situation.own), ("enemy", situation.enemies)):
        _write_units(leaves[side], leaves[f"{side}_present"], units, terrain)
    _write_resources(leaves, situation)
    areas = len(terrain.areas)
    leaves["areas"][...], leaves["areas_present"][...] = 0, 0
    leaves["areas"][:areas] = terrain.share(terrain.areas)
    leaves["areas_present"][:areas] = 1
    leaves["player"][:] = [getattr(raw.player_common, name) for name in PLAYER]
    details = raw.score.score_details
    # The score of the game may become negative; what is observed may not.
    leaves["score"][:] = [max(0.0, raw.score.score), *(max(0.0, getattr(details, name)) for name in SCORE)]
    researched, progress = situation.researched, situation.in_progress()
    leaves["upgrades"][:] = [item.name in researched for item in TECHNOLOGIES]
    leaves["in_progress"][:] = [
        max(_LEAST_PROGRESS, min(1.0, progress[name])) if name in progress else 0.0 for name in PROGRESS
    ]
    leaves["time"][0] = min(1.0, time)


def _write_units(table: np.ndarray, present: np.ndarray, units: list[SeenUnit], terrain: Terrain) -> None:
    """Write the units of a side ``[N, 12]``; those behind the first N are left out, eggs and larvae first."""
    table[...], present[...] = 0, 0
    if len(units) > len(table):
        units = sorted(units, key=lambda unit: not (unit.structure or unit.army))[: len(table)]
    if not units:
        return
    table[: len(units)] = [_unit_numbers(unit) for unit in units]
    table[: len(units), [COLUMN["x"], COLUMN["y"]]] = terrain.share(positions(units))
    present[: len(units)] = 1


def _unit_numbers(unit: SeenUnit) -> list[float]:
    """Return the numbers of a unit in the order of `ludus_sc2.layout.UNIT`; those of its position are 0."""
    raw = unit.raw
    numbers = {
        "kind": unit.kind,
        "health": raw.health / max(1.0, raw.health_max),
        "energy": raw.energy / _FULL_ENERGY,
        "progress": raw.build_progress,
        "flying": raw.is_flying,
        "idle": unit.is_idle,
        "assigned": raw.assigned_harvesters,
        "ideal": raw.ideal_harvesters,
        "army": unit.army,
        "structure": unit.structure,
    }
    return [float(numbers.get(name, 0.0)) for name in UNIT]


def _write_resources(leaves: Leaves, situation: Situation) -> None:
    """Write mineral fields and geysers ``[n, 4]``, as many as fit."""
    table, present = leaves["resources"], leaves["resources_present"]
    table[...], present[...] = 0, 0
    found = [*situation.minerals, *situation.geysers][: len(table)]
    if not found:
        return
    amounts = [unit.raw.mineral_contents + unit.raw.vespene_contents for unit in found]
    is_gas = np.arange(len(found)) >= len(situation.minerals)
    table[: len(found), :2] = situation.terrain.share(positions(found))
    table[: len(found), 2], table[: len(found), 3] = amounts, is_gas
    present[: len(found)] = 1
