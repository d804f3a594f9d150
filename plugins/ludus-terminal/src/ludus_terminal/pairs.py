"""Matches between sides on equal terms: the same seeds, from every team that a side can take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen
from ludus.agent import Agent
from ludus.environment import Environment, Scenario
from ludus.runs import play_matches

__all__ = ["Record", "play_pair"]


@frozen(kw_only=True)
class Record:
    """How the first of several sides fared.

    Attributes:
        wins: Matches in which its team had the highest outcome.
        draws: In which another team had as much.
        losses: The rest.
        mean_return: Mean sum of rewards of its seats per match.
        mean_ticks: Mean length of a match.
    """

    wins: int
    draws: int
    losses: int
    mean_return: float
    mean_ticks: float


def play_pair(
    environment: Environment,
    sides: Sequence[Mapping[str, Agent]],
    *,
    matches: int,
    seed: int,
    scenario: Scenario | None = None,
) -> Record:
    """Play sides against each other, one per team, on the same seeds from every team they can take.

    Args:
        environment: A fresh batch; its caller closes it.
        sides: For every team one mapping from role name to the agent that fills the seats of that role. Teams
            are exchanged between the halves where the game has a single role.
        matches: In total, shared evenly among the exchanges and rounded up.
        seed: Seeds of matches and sampling derive from it.
        scenario: What is played.

    Returns:
        The record of ``sides[0]``.
    """
    spec = environment.spec
    shifts = len(sides) if len(spec.roles) == 1 else 1
    held = [[(seat.team + shift) % len(sides) for seat in spec.seats] for shift in range(shifts)]  # seat → side
    seatings = [[sides[i][seat.role] for i, seat in zip(holders, spec.seats, strict=True)] for holders in held]
    played = play_matches(environment, seatings, matches=-(-matches // shifts), seed=seed, scenario=scenario)
    leads, returns = [], []
    for holders, arrays in zip(held, played, strict=True):
        mine = [seat for seat, side in enumerate(holders) if side == 0]
        leads.append(_lead(arrays["outcome"], spec.seats[mine[0]].team))
        returns.append(arrays["returns"][:, mine].mean(axis=1))
    lead = np.concatenate(leads)
    return Record(
        wins=int(np.count_nonzero(lead > 0)),
        draws=int(np.count_nonzero(lead == 0)),
        losses=int(np.count_nonzero(lead < 0)),
        mean_return=float(np.concatenate(returns).mean()),
        mean_ticks=float(np.concatenate([arrays["ticks"] for arrays in played]).mean()),
    )


def _lead(outcome: np.ndarray, team: int) -> np.ndarray:
    """Return ``[n]``: a team's outcome minus the best other of ``[n, teams]``; minus ½ where there is no other."""
    others = np.delete(outcome, team, axis=1) if outcome.shape[1] > 1 else np.full_like(outcome, 0.5)
    return np.asarray(outcome[:, team] - others.max(axis=1))
