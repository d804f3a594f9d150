"""Scenarios: parameters of the start of a match, which a league can draw at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen
from ludus.environment import Scenario, checked_scenarios
from ludus.errors import ContractError

from ludus_duel.config import DuelRules

__all__ = ["SCENARIOS", "StartStates", "start_states"]

#: Parameters of each scenario and their defaults. Health and stamina are shares of the maximum. `distance` and `room_0`
#: (from seat 0 to the wall behind it) are in cm; -1 means drawn by the seed, and in the middle of the arena.
SCENARIOS: Mapping[str, Mapping[str, float]] = {
    "low-health": {"health_0": 0.25, "health_1": 0.25},
    "no-stamina": {"stamina_0": 0.0, "stamina_1": 0.0},
    "handicap": {"health_0": 0.5, "health_1": 1.0, "stamina_0": 1.0, "stamina_1": 1.0},
    "close": {"distance": 150.0},
    "cornered": {"room_0": 50.0, "distance": 200.0},
    "custom": {"health_0": 1.0, "health_1": 1.0, "stamina_0": 1.0, "stamina_1": 1.0, "distance": -1.0, "room_0": -1.0},
}


@frozen(kw_only=True)
class StartStates:
    """Start of n matches, ``[n, 2] float64`` by seat: shares of health and stamina, and room behind in cm."""

    health: np.ndarray
    stamina: np.ndarray
    room: np.ndarray


def start_states(scenarios: Sequence[Scenario] | None, seeds: np.ndarray, *, rules: DuelRules) -> StartStates:
    """Return the start states of matches.

    Args:
        scenarios: One per match; None means the default scenario for all.
        seeds: ``[n] uint64``.
        rules: Rules of the game.

    Raises:
        ContractError: A scenario or parameter is unknown or out of range, or their number is wrong.
    """
    count = len(seeds)
    values = np.repeat(np.array([list(SCENARIOS["custom"].values())]), count, axis=0)
    for index, scenario in enumerate(checked_scenarios(scenarios, count, known=SCENARIOS)):
        if scenario.name != "default":
            values[index] = list(_values(scenario, rules).values())
    distance = np.where(values[:, 4] < 0, _drawn_distance(seeds, rules), values[:, 4])
    room = np.where(values[:, 5] < 0, (rules.arena_cm - distance) / 2, values[:, 5])
    rooms = np.stack([room, rules.arena_cm - distance - room], axis=1)
    if (rooms < 0).any():
        index = int(np.argwhere(rooms < 0)[0, 0])
        both = f"room_0 {room[index]:g} and distance {distance[index]:g}"
        raise ContractError(f"{both} together are more than the arena of {rules.arena_cm:g} cm")
    return StartStates(health=values[:, 0:2], stamina=values[:, 2:4], room=rooms)


def _drawn_distance(seeds: np.ndarray, rules: DuelRules) -> np.ndarray:
    """Return ``[n] float64``: the shortest distance plus whole centimetres drawn by the seed."""
    mixed = seeds.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    drawn: np.ndarray = rules.distance_cm + ((mixed >> np.uint64(40)) % np.uint64(rules.spread_cm + 1)).astype(
        np.float64
    )
    return drawn


def _values(scenario: Scenario, rules: DuelRules) -> dict[str, float]:
    """Return all parameters of a scenario, in the order of those of ``custom``."""
    known = SCENARIOS.get(scenario.name, {})
    for name, value in scenario.parameters.items():
        low, high = _range(name, rules)
        if not (low <= value <= high or (value == -1 and name in ("distance", "room_0"))):
            expected = f"expected a number from {low:g} to {high:g} for {name}"
            raise ContractError(f"scenario {scenario.name}: {expected}, got {value!r}")
    return {**SCENARIOS["custom"], **known, **scenario.parameters}


def _range(name: str, rules: DuelRules) -> tuple[float, float]:
    if name == "distance":
        return 100.0, rules.arena_cm
    if name == "room_0":
        return 0.0, rules.arena_cm - 100.0
    return (0.01 if name.startswith("health") else 0.0), 1.0
