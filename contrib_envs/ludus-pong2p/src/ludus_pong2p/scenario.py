"""Scenarios: parameters of the start of a match, which a league can draw at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from attrs import frozen
from ludus.environment import Scenario, checked_scenarios
from ludus.errors import ContractError

#: Parameters of each scenario and their defaults.
SCENARIOS: Mapping[str, Mapping[str, float]] = {
    "serve-fast": {"ball_speed": 2.0},
    "long-paddle": {"paddle_0": 2.0, "paddle_1": 1.0},
    "custom": {"ball_speed": 1.0, "paddle_0": 1.0, "paddle_1": 1.0, "score_0": 0.0, "score_1": 0.0, "serve_to": -1.0},
}


@frozen(kw_only=True)
class StartStates:
    """Start states of n matches.

    Args:
        ball_speed: ``[n] float64``: factors on the speed of a served ball.
        paddles: ``[2, n] float64``: factors on the length of each seat's paddle.
        scores: ``[2, n] int64``: points of each seat.
        receivers: ``[n] int64``: seat that receives the first serve, -1 for the seed's choice.
    """

    ball_speed: np.ndarray
    paddles: np.ndarray
    scores: np.ndarray
    receivers: np.ndarray


def start_states(scenarios: Sequence[Scenario] | None, count: int, *, points: int) -> StartStates:
    """Return the start states of matches.

    Args:
        scenarios: One per match; None means the default scenario for all.
        count: Number of matches n.
        points: Points that win a match.

    Raises:
        ContractError: A scenario or parameter is unknown or out of range, or their number is wrong.
    """
    values = np.repeat(np.array([list(SCENARIOS["custom"].values())]), count, axis=0)
    for index, scenario in enumerate(checked_scenarios(scenarios, count, known=SCENARIOS)):
        if scenario.name != "default":
            values[index] = list(_values(scenario, points).values())
    ball_speed, *others = values.T
    paddles, scores, receivers = np.array(others[:2]), np.array(others[2:4]), others[4]
    return StartStates(
        ball_speed=ball_speed, paddles=paddles, scores=scores.astype(np.int64), receivers=receivers.astype(np.int64)
    )


def _values(scenario: Scenario, points: int) -> dict[str, float]:
    """Return all parameters of a scenario, in the order of those of ``custom``."""
    known = SCENARIOS.get(scenario.name, {})
    ranges = _ranges(points)
    for name, value in scenario.parameters.items():
        expected, accepts = ranges[name]
        if not accepts(value):
            raise ContractError(f"scenario {scenario.name}: expected {expected} for {name}, got {value!r}")
    return {**SCENARIOS["custom"], **known, **scenario.parameters}


def _ranges(points: int) -> dict[str, tuple[str, Callable[[float], bool]]]:
    """Return the expected range of each parameter, as text and as a predicate."""
    factor = ("a factor from 0.1 to 10", lambda value: 0.1 <= value <= 10)
    score = (f"a whole number from 0 to {points - 1}", lambda value: value in range(points))
    return {
        "ball_speed": factor,
        "paddle_0": factor,
        "paddle_1": factor,
        "score_0": score,
        "score_1": score,
        "serve_to": ("0, 1 or -1 (by the seed)", lambda value: value in (-1, 0, 1)),
    }
