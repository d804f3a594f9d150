"""The scenario ``random-opening``: random legal plies before the first decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from ludus.environment import Scenario, checked_scenarios
from ludus.errors import ContractError
from ludus.random import random_bits

from ludus_board.rules import Rules

SCENARIO = "random-opening"
_DEFAULT_PLIES = 4


def opening_plies(scenarios: Sequence[Scenario] | None, count: int, *, most: int) -> np.ndarray | None:
    """Return the number of opening plies of `count` matches, ``[count] int64``, or None if there are none.

    Args:
        scenarios: One per match, or None.
        count: Number of matches.
        most: Number of plies of the longest match.

    Raises:
        ContractError: A scenario or parameter is unknown, or their number is wrong.
    """
    if scenarios is None:
        return None
    checked = checked_scenarios(scenarios, count, known={SCENARIO: ("plies",)})
    plies = np.array([_scenario_plies(scenario, most) for scenario in checked], np.int64)
    return plies if plies.any() else None


def _scenario_plies(scenario: Scenario, most: int) -> int:
    if scenario.name == "default":
        return 0
    plies = scenario.parameters.get("plies", _DEFAULT_PLIES)
    if not 0 <= plies < most or plies != int(plies):
        raise ContractError(
            f"scenario {SCENARIO} takes the parameter plies, a whole number from 0 to {most - 1}; "
            f"got {dict(scenario.parameters)}"
        )
    return int(plies)


def play_openings(
    rules: Rules, seeds: np.ndarray, plies: np.ndarray, place: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> None:
    """Play random plies on empty boards, each uniform among the legal moves that do not end the match.

    If every move would end a match, its opening stops with fewer plies.

    Args:
        rules: Rules of the game.
        seeds: ``[n] uint64``; the opening of a match is a function of its seed alone.
        plies: ``[n] int64``, fewer than fill the board.
        place: Called with the indices ``[m] int64`` of matches and their moves ``[m] int64``.
    """
    stones = np.zeros((len(plies), 2), np.int64)
    running = np.ones(len(plies), bool)
    for ply in range(int(plies.max())):
        at = np.flatnonzero(running & (plies > ply))
        own, other = stones[at, ply % 2], stones[at, 1 - ply % 2]
        quiet = _quiet(rules, own, own | other)
        running[at] = quiet.any(axis=1)
        at, quiet = at[running[at]], quiet[running[at]]
        moves = _pick(quiet, random_bits(seeds[at], ply))
        bits, _ = rules.place(stones[at, 0] | stones[at, 1], moves)
        stones[at, ply % 2] |= bits
        place(at, moves)


def _quiet(rules: Rules, own: np.ndarray, occupied: np.ndarray) -> np.ndarray:
    """Return ``[n, A] bool``: the legal moves that do not end the match."""
    quiet = rules.legal(occupied)
    for action in range(rules.num_actions):
        at = np.flatnonzero(quiet[:, action])
        bits, _ = rules.place(occupied[at], np.full(len(at), action))
        quiet[at, action] = ~rules.won(own[at] | bits)
    return quiet


def _pick(allowed: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Select one of the actions ``allowed [n, A] bool`` of each match by ``numbers [n] uint64``; ``[n] int64``."""
    order = np.cumsum(allowed, axis=1)
    wanted = (numbers % order[:, -1].astype(np.uint64)).astype(np.int64)
    picked: np.ndarray = np.argmax(order > wanted[:, None], axis=1)
    return picked
