"""Start states of matches, and scenarios that modify them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from ludus.environment import Scenario, checked_scenarios
from ludus.errors import ContractError

from ludus_pommerman import rules
from ludus_pommerman.boards import draw_boards, hide_items
from ludus_pommerman.config import PommermanConfig
from ludus_pommerman.rules import Variant, cell_number, starts
from ludus_pommerman.world import World

#: Every parameter: default, least and greatest value. All are whole numbers.
PARAMETERS: Mapping[str, tuple[int, int, int]] = {
    "rigid": (-1, -1, 36),  # -1: as the options of the environment; likewise `wood` and `items`
    "wood": (-1, -1, 60),
    "items": (-1, -1, 36),
    "inset": (0, 0, 2),  # cells by which starts are nearer to the centre
    "ammo": (rules.AMMO, 0, rules.MAX_AMMO),
    "strength": (rules.STRENGTH, 1, rules.MAX_STRENGTH),
    "kick": (0, 0, 1),
    **{f"still_{seat}": (0, 0, 10_000) for seat in range(4)},  # steps for which a seat stands still
}
COLUMN = {name: column for column, name in enumerate(PARAMETERS)}

#: Parameters of each scenario and their defaults.
SCENARIOS: Mapping[str, Mapping[str, int]] = {
    "open": {"rigid": 0, "wood": 0, "items": 0, "inset": 0},
    "near": {"inset": 2},
    "little-wood": {"wood": 12, "items": 12},
    "equipped": {"ammo": 3, "strength": 4, "kick": 1},
    "still": {"still_0": 0, "still_1": 10_000, "still_2": 0, "still_3": 10_000},
    "custom": {name: default for name, (default, _, _) in PARAMETERS.items()},
}


def most_inset(variant: Variant) -> int:
    """Return by how many cells starts can be nearer to the centre."""
    return (variant.size - 6) // 2


def scenario_values(scenarios: Sequence[Scenario] | None, count: int) -> np.ndarray:
    """Return the parameters ``[count, 11] int64`` of matches.

    Args:
        scenarios: One per match; None means the default scenario for all.
        count: Number of matches.

    Raises:
        ContractError: A scenario or parameter is unknown or out of range, or their number is wrong.
    """
    values = np.tile(np.array([default for default, _, _ in PARAMETERS.values()]), (count, 1))
    for row, scenario in enumerate(checked_scenarios(scenarios, count, known=SCENARIOS)):
        for name, value in {**SCENARIOS.get(scenario.name, {}), **scenario.parameters}.items():
            _, low, high = PARAMETERS[name]
            if not low <= value <= high or value != round(value):
                expected = f"expected a whole number from {low} to {high} for {name}"
                raise ContractError(f"scenario {scenario.name}: {expected}, got {value!r}")
            values[row, COLUMN[name]] = value
    return values


def new_world(
    seeds: np.ndarray, values: np.ndarray, config: PommermanConfig, variant: Variant, max_strength: int
) -> World:
    """Return the start states of matches.

    Args:
        seeds: ``[n] uint64``.
        values: From `scenario_values`.
        config: Options of the game.
        variant: Variant of the game.
        max_strength: Greatest strength of bombs.
    """
    count, seats = len(seeds), len(variant.teams)
    world = World.blank(count, seats, variant.size)

    def number(name: str, default: int = -1) -> np.ndarray:
        given = values[:, COLUMN[name]]
        return np.where(given < 0, default, given)

    def walls(name: str) -> np.ndarray:
        option: int = getattr(config, name)
        return number(name, getattr(variant, name) if option < 0 else option)

    insets = np.minimum(number("inset"), most_inset(variant))
    walled = np.stack([walls("rigid"), walls("wood")], axis=1)
    for inset in np.unique(insets):
        rows = np.flatnonzero(insets == inset)
        boards = draw_boards(seeds[rows], walled[rows], variant.size, seats, int(inset))
        world.board[rows] = boards.reshape(len(rows), -1)
        world.position[rows] = [cell_number(variant.size, *start) for start in starts(variant.size, seats, int(inset))]
    world.hidden[:] = hide_items(seeds, world.board, walls("items"))
    world.alive[:] = True
    world.ammo[:] = number("ammo")[:, None]
    world.reach[:] = np.minimum(number("strength"), max_strength)[:, None]
    world.kick[:] = number("kick")[:, None] > 0
    world.still[:] = values[:, COLUMN["still_0"] : COLUMN["still_0"] + seats]
    world.running[:] = True
    return world
