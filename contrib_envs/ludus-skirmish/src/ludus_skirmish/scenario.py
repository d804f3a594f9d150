"""Start states of matches, and scenarios that modify them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from ludus.environment import Scenario, checked_scenarios
from ludus.errors import ContractError
from ludus.random import random_bits, random_floats

from ludus_skirmish import kinds
from ludus_skirmish.engine import collide
from ludus_skirmish.kinds import Battle
from ludus_skirmish.names import KINDS
from ludus_skirmish.world import World, perceive

#: Parameters of a seat, named with the suffix ``_0`` or ``_1``: default, least and greatest value.
_OF_SIDES: Mapping[str, tuple[float, float, float]] = {
    "health": (1.0, 0.01, 1.0),  # share
    "shield": (1.0, 0.0, 1.0),  # share
    **dict.fromkeys(KINDS, (-1, -1, 5)),  # number of units; -1: drawn by the seed
}
PARAMETERS: Mapping[str, tuple[float, float, float]] = {
    **{f"{name}_{side}": values for name, values in _OF_SIDES.items() for side in (0, 1)},
    "least": (1.0, 0.01, 1.0),  # health, shield and readiness of each unit are drawn between this share and 1
    "depth": (0.22, 0.1, 0.45),  # share of the field, from its own edge, in which an army starts
}
#: The column of each parameter.
COLUMN = {name: column for column, name in enumerate(PARAMETERS)}

#: Parameters of each scenario and their defaults.
SCENARIOS: Mapping[str, Mapping[str, float]] = {
    "random-status": {"least": 0.3},
    "handicap": {"health_0": 0.7, "health_1": 1.0, "shield_0": 1.0, "shield_1": 1.0},
    "close": {"depth": 0.45},
    "custom": {name: default for name, (default, _, _) in PARAMETERS.items()},
}
_ROLLS = 6  # random numbers of each slot: its count, place in x and y, health, shield, wait
_PASSES = 6  # of pushing units apart that start too close to each other


def scenario_values(scenarios: Sequence[Scenario] | None, count: int, battle: Battle) -> np.ndarray:
    """Return the parameters ``[count, 20] float64`` of matches.

    Args:
        scenarios: One per match; None means the default scenario for all.
        count: Number of matches.
        battle: The armies.

    Raises:
        ContractError: A scenario or parameter is unknown or out of range, or their number is wrong.
    """
    values = np.tile(np.array([default for default, _, _ in PARAMETERS.values()]), (count, 1))
    for row, scenario in enumerate(checked_scenarios(scenarios, count, known=SCENARIOS)):
        for name, value in _changes(scenario, battle).items():
            values[row, COLUMN[name]] = value
    return values


def _changes(scenario: Scenario, battle: Battle) -> dict[str, float]:
    """Return the parameters in which a scenario differs from the default one."""
    for name, value in scenario.parameters.items():
        _, low, high = PARAMETERS[name]
        kind = name.rpartition("_")[0]
        if kind in KINDS:
            high = battle.counts.get(kind, (0, 0))[1]
        if not low <= value <= high or (kind in KINDS and value != round(value)):
            expected = (
                f"expected {'a whole number' if kind in KINDS else 'a number'} from {low:g} to {high:g} for {name}"
            )
            raise ContractError(f"scenario {scenario.name}: {expected}, got {value!r}")
    changes = {**SCENARIOS.get(scenario.name, {}), **scenario.parameters}
    for side in (0, 1):
        if all(changes.get(f"{kind}_{side}") == 0 for kind in battle.counts):
            raise ContractError(f"scenario {scenario.name}: expected at least one unit of side {side}, got none")
    return changes


def new_world(seeds: np.ndarray, values: np.ndarray, battle: Battle, *, sight: float) -> World:
    """Return the start states of matches.

    The seed draws numbers, places and, where the scenario asks for it, the status of units, equally for both sides.

    Args:
        seeds: ``[n] uint64``.
        values: From `scenario_values`.
        battle: The armies.
        sight: Option of the game.
    """
    world = World.blank(len(seeds), battle.slots, size=battle.size, sight=sight)
    drawn = random_floats(random_bits(seeds[:, None], np.arange(_ROLLS * battle.slots)))
    drawn = drawn.reshape(len(seeds), 1, _ROLLS, battle.slots)
    column = {name: values[:, at, None] for name, at in COLUMN.items()}

    def of_sides(name: str) -> np.ndarray:
        return np.stack([column[f"{name}_{side}"] for side in (0, 1)], axis=1)  # [n, 2, 1]

    def status(roll: int) -> np.ndarray:
        least = column["least"][:, None]
        return np.asarray(least + (1.0 - least) * drawn[:, :, roll])  # [n, 1, N]

    world.kind[:] = battle.slot_kinds
    there = _draw_armies(of_sides, drawn[:, :, 0], battle)
    world.health[:] = there * kinds.HEALTH[world.kind] * of_sides("health") * status(3)
    world.shield[:] = there * kinds.SHIELD[world.kind] * of_sides("shield") * status(4)
    world.wait[:] = np.rint(kinds.PERIOD[world.kind] * (1.0 - status(5)))
    world.x[:] = battle.size * column["depth"][:, None] * drawn[:, :, 1]
    world.y[:] = battle.size * (0.1 + 0.8 * drawn[:, :, 2])
    world.aim[:] = -1
    for _ in range(_PASSES):
        collide(world)
    enemy = world.kind[:, ::-1, None]
    world.reach[:], world.power[:] = (
        kinds.REACH[world.kind[..., None], enemy],
        kinds.POWER[world.kind[..., None], enemy],
    )
    world.strength[:] = (world.health + world.shield).sum(axis=(1, 2)) / 2
    world.running[:] = True
    perceive(world)
    return world


def _draw_armies(of_sides: Callable[[str], np.ndarray], drawn: np.ndarray, battle: Battle) -> np.ndarray:
    """Return ``[n, 2, N] bool``: the slots in which there is a unit."""
    there = np.zeros((len(drawn), 2, battle.slots), bool)
    first = 0
    for kind, (least, most) in battle.counts.items():
        number = least + (drawn[:, :, first, None] * (most - least + 1)).astype(np.int64)  # [n, 1, 1]
        given = of_sides(kind)
        there[:, :, first : first + most] = np.arange(most) < np.where(given < 0, number, given)
        first += most
    return there
