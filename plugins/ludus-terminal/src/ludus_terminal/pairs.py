"""Play paired matches between sides: on the same seeds, from every team that a side can take."""

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
    """The results of the first of several sides.

    Attributes:
        wins: Matches in which its team had the highest outcome.
        draws: Matches in which another team had the same outcome.
        losses: All other matches.
        mean_return: Mean return of its seats per match.
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
        environment: A new batch; the caller closes it.
        sides: For every team a mapping from role name to the agent that fills the seats of that role. Teams are
            exchanged if the game has a single role.
        matches: Total number, divided evenly among the exchanges and rounded up.
        seed: Seed of matches and sampling.
        scenario: Scenario of all matches; None for the default one.

    Returns:
        The record of ``sides[0]``.
    """
    spec = environment.spec
    shifts = len(sides) if len(spec.roles) == 1 else 1
    sides_by_seat = [[(seat.team + shift) % len(sides) for seat in spec.seats] for shift in range(shifts)]
    seatings = [[sides[i][seat.role] for i, seat in zip(row, spec.seats, strict=True)] for row in sides_by_seat]
    played = play_matches(environment, seatings, matches=-(-matches // shifts), seed=seed, scenario=scenario)
    leads, returns = [], []
    for seating, arrays in zip(sides_by_seat, played, strict=True):
        own_seats = [seat for seat, side in enumerate(seating) if side == 0]
        leads.append(_lead(arrays["outcome"], spec.seats[own_seats[0]].team))
        returns.append(arrays["returns"][:, own_seats].mean(axis=1))
    lead = np.concatenate(leads)
    return Record(
        wins=int(np.count_nonzero(lead > 0)),
        draws=int(np.count_nonzero(lead == 0)),
        losses=int(np.count_nonzero(lead < 0)),
        mean_return=float(np.concatenate(returns).mean()),
        mean_ticks=float(np.concatenate([arrays["ticks"] for arrays in played]).mean()),
    )


def _lead(outcome: np.ndarray, team: int) -> np.ndarray:
    """Return ``[n]``: the outcome of a team minus the best outcome of other teams, or minus ½ without other teams."""
    others = np.delete(outcome, team, axis=1) if outcome.shape[1] > 1 else np.full_like(outcome, 0.5)
    return np.asarray(outcome[:, team] - others.max(axis=1))
