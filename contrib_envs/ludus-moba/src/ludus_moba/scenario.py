"""Start states of matches, and scenarios that modify them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from ludus.environment import Scenario, checked_scenarios
from ludus.errors import ContractError
from ludus.random import random_bits, random_floats

from ludus_moba import rules
from ludus_moba.config import MobaConfig
from ludus_moba.economy import update_strengths
from ludus_moba.names import NAMES
from ludus_moba.rules import HERO, INNER, LENGTH, OUTER, WIDTH, ticks_of
from ludus_moba.world import World

#: Every parameter of a seat, named with its suffix ``_0`` or ``_1``: default, least and greatest value.
_OF_SEATS: Mapping[str, tuple[float, float, float]] = {
    "hero": (-1, -1, len(NAMES) - 1),  # an index of `NAMES`; -1: drawn by the seed
    "level": (1, 1, rules.LEVELS),
    "items": (0, 0, len(rules.ITEM_PRICES) - 1),
    "gold": (0, 0, 10_000),
    "health": (1.0, 0.01, 1.0),  # share
    "mana": (1.0, 0.0, 1.0),  # share
    "x": (rules.START_X, 0.0, LENGTH),  # in the frame of the seat's side
    "y": (-1.0, -1.0, WIDTH),  # -1: near the middle, drawn by the seed
    "outer": (1.0, 0.0, 1.0),  # share of health of the outer turret; likewise the inner one
    "inner": (1.0, 0.0, 1.0),
}
PARAMETERS: Mapping[str, tuple[float, float, float]] = {
    **{f"{name}_{seat}": values for name, values in _OF_SEATS.items() for seat in (0, 1)},
    "time_s": (0.0, 0.0, 3600.0),  # game time at the start: the strength of minions
}
_WHOLE = ("hero", "level", "items")
#: The column of each parameter.
COLUMN = {name: column for column, name in enumerate(PARAMETERS)}

#: Parameters of each scenario and their defaults.
SCENARIOS: Mapping[str, Mapping[str, float]] = {
    "heroes": {"hero_0": 0, "hero_1": 1},
    "levels": {"level_0": 1, "level_1": 4},
    "wounded": {"health_0": 0.4, "health_1": 1.0},
    "duel": {"x_0": 56.0, "x_1": 56.0, "level_0": 4, "level_1": 4},
    "outer-down": {"outer_0": 0.0, "outer_1": 1.0},
    "late": {
        "level_0": 15, "level_1": 15, "items_0": 5, "items_1": 5, "outer_0": 0.0, "outer_1": 0.0, "time_s": 420.0,
    },
    "custom": {name: default for name, (default, _, _) in PARAMETERS.items()},
}  # fmt: skip


def scenario_values(scenarios: Sequence[Scenario] | None, count: int) -> np.ndarray:
    """Return the parameters ``[count, 21] float64`` of matches.

    Args:
        scenarios: One per match; None means the default scenario for all.
        count: Number of matches.

    Raises:
        ContractError: A scenario or parameter is unknown or out of range, or their number is wrong.
    """
    values = np.tile(np.array([default for default, _, _ in PARAMETERS.values()]), (count, 1))
    for row, scenario in enumerate(checked_scenarios(scenarios, count, known=SCENARIOS)):
        for name, value in _changes(scenario).items():
            values[row, COLUMN[name]] = value
    return values


def _changes(scenario: Scenario) -> dict[str, float]:
    """Return the parameters in which a scenario differs from the default one."""
    for name, value in scenario.parameters.items():
        _, low, high = PARAMETERS[name]
        whole = name.rpartition("_")[0] in _WHOLE
        if not low <= value <= high or (whole and value != round(value)):
            kind = "a whole number" if whole else "a number"
            expected = f"expected {kind} from {low:g} to {high:g} for {name}"
            raise ContractError(f"scenario {scenario.name}: {expected}, got {value!r}")
    return {**SCENARIOS.get(scenario.name, {}), **scenario.parameters}


def new_world(seeds: np.ndarray, values: np.ndarray, config: MobaConfig) -> World:
    """Return the start states of matches.

    Args:
        seeds: ``[n] uint64``.
        values: From `scenario_values`.
        config: Options of the game.
    """
    world = World.blank(len(seeds))

    def of_seats(name: str) -> np.ndarray:
        return np.stack([values[:, COLUMN[f"{name}_{seat}"]] for seat in (0, 1)], axis=1)

    drawn = random_floats(random_bits(seeds[:, None], np.arange(4)))
    pool = np.array([NAMES.index(name) for name in config.heroes])
    hero, y = of_seats("hero"), of_seats("y")
    world.kind[:] = np.where(hero < 0, pool[(drawn[:, :2] * len(pool)).astype(np.int64)], hero)
    world.level[:], world.items[:] = of_seats("level"), of_seats("items")
    world.experience[:] = rules.LEVEL_EXPERIENCE[world.level - 1]
    world.gold[:] = of_seats("gold")
    world.x[:, :, HERO] = of_seats("x")
    world.y[:, :, HERO] = np.where(y < 0, rules.LANE_Y - 2.0 + 4.0 * drawn[:, 2:3], y)
    world.health[:, :, HERO] = 1.0
    world.max_health[:, :, HERO] = 0.0
    update_strengths(world)
    world.health[:, :, HERO] = world.max_health[:, :, HERO] * of_seats("health")
    world.mana[:] = world.max_mana * of_seats("mana")
    for name, slot in (("outer", OUTER), ("inner", INNER)):
        world.health[:, :, slot] *= of_seats(name)
    world.ticks[:] = np.rint(values[:, COLUMN["time_s"]] / rules.TICK_S)
    world.monster_wait[:] = ticks_of(rules.MONSTER_FIRST_S)
    world.aim[:] = -1
    world.running[:] = True
    return world
