"""Scenarios: modifiers of a match with parameters that a league can draw at random [AET §3.3]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from ludus.environment import Scenario, checked_scenarios
from ludus.errors import ContractError

__all__ = ["COLUMN", "PARAMETERS", "SCENARIOS", "handicaps"]

#: Every parameter: default, least and greatest value. Factors multiply; counts and levels are whole numbers.
PARAMETERS: Mapping[str, tuple[float, float, float]] = {
    "cat_speed": (1.0, 0.0, 3.0),
    "mouse_speed": (1.0, 0.0, 3.0),
    "hit_power": (1.0, 0.0, 10.0),
    "cheese_speed": (1.0, 0.1, 10.0),  # carrying and pushing
    "rocket_time": (1.0, 0.1, 10.0),
    "time": (1.0, 0.1, 1.0),  # the time limits of both stages
    "mice": (4, 2, 4),
    "cat_level": (1, 1, 20),
    "mouse_level": (1, 1, 20),
    "cat_boost": (1.0, 0.1, 10.0),  # power for `boost_s` after the preparation
    "mouse_boost": (1.0, 0.1, 10.0),
    "boost_s": (0.0, 0.0, 600.0),
    "eliminated": (0, 0, 2),  # mice out of the game from the start
    "pushed": (0, 0, 5),  # cheeses pushed at the start
    "health": (1.0, 0.01, 1.0),  # of the mice at the start
    "preparation": (1, 0, 1),  # 0: none
}
_WHOLE = {"mice", "cat_level", "mouse_level", "eliminated", "pushed", "preparation"}
#: The place of each parameter in `World.handicap`.
COLUMN = {name: column for column, name in enumerate(PARAMETERS)}

#: Parameters of each scenario and their defaults.
SCENARIOS: Mapping[str, Mapping[str, float]] = {
    "cat-speed": {"cat_speed": 0.85},
    "mouse-speed": {"mouse_speed": 1.15},
    "hit-power": {"hit_power": 0.5},
    "cheese-speed": {"cheese_speed": 2.0},
    "rocket-time": {"rocket_time": 2.0},
    "time": {"time": 0.6},
    "mice": {"mice": 3},
    "cat-level": {"cat_level": 4},
    "mouse-level": {"mouse_level": 4},
    "cat-boost": {"cat_boost": 1.5, "boost_s": 30.0},
    "mouse-boost": {"mouse_boost": 2.0, "boost_s": 30.0},
    "eliminated": {"eliminated": 1},
    "head-start": {"pushed": 3},
    "wounded": {"health": 0.5},
    "escape": {"pushed": 5, "preparation": 0},
    "no-preparation": {"preparation": 0},
    "custom": {name: default for name, (default, _, _) in PARAMETERS.items()},
}


def handicaps(scenarios: Sequence[Scenario] | None, count: int) -> np.ndarray:
    """Return the parameters ``[count, 16] float32`` of matches.

    Args:
        scenarios: One per match; None means the default scenario for all.
        count: Number of matches.

    Raises:
        ContractError: A scenario or parameter is unknown or out of range, or their number is wrong.
    """
    values = np.tile(np.array([default for default, _, _ in PARAMETERS.values()], np.float32), (count, 1))
    for row, scenario in enumerate(checked_scenarios(scenarios, count, known=SCENARIOS)):
        for name, value in _changes(scenario).items():
            values[row, COLUMN[name]] = value
    return values


def _changes(scenario: Scenario) -> dict[str, float]:
    """Return the parameters in which a scenario differs from the default one."""
    known = SCENARIOS.get(scenario.name, {})
    for name, value in scenario.parameters.items():
        _, low, high = PARAMETERS[name]
        if not low <= value <= high or (name in _WHOLE and value != round(value)):
            kind = "a whole number" if name in _WHOLE else "a number"
            expected = f"expected {kind} from {low:g} to {high:g} for {name}"
            raise ContractError(f"scenario {scenario.name}: {expected}, got {value!r}")
    values = {**known, **scenario.parameters}
    if values.get("mice", 4) - values.get("eliminated", 0) < 2:
        raise ContractError(
            f"scenario {scenario.name}: fewer than two mice are left, so the cat would win at the start"
        )
    return values
