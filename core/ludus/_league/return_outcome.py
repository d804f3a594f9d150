"""The outcome of matches of games that are scored by returns.

Ratings, payoffs and matchmakers compare participants by outcomes. Where the environment declares the score ``return``,
the outcome of a match follows from the returns of its teams: a team gets a point for every other team that it beats and
½ for every tie, divided by the number of other teams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ludus.environment import Seat
from ludus.errors import WireError
from ludus.matchmaker import team_sides

#: Key of a store's metadata.
BASELINE = "return_baseline"

PLAIN_RULE = "the team with the highest mean return of its seats wins"
RELATIVE_RULE = (
    "the team wins whose return (the mean of its seats) is most standard deviations above that of random play on its "
    "side"
)

_TOLERANCE = 1e-6  # of returns that count as equal: sums of floats depend on the order of their terms


@frozen
class ReturnOutcome:
    """Computes outcomes from returns.

    With R_t the mean return of the seats of team t, the values that are compared are z_t = (R_t - mean_t) / scale_t.

    Args:
        seats: The seats of a match.
        mean: Return of random play by team where the sides differ; 0 for all teams otherwise.
        scale: Standard deviation of that return by team; 1 for all teams otherwise.
        matches: Matches from which both were measured; 0: none.
    """

    seats: tuple[Seat, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    matches: int = 0

    @classmethod
    def plain(cls, seats: tuple[Seat, ...]) -> ReturnOutcome:
        """Return the outcome of teams whose returns are compared as they are."""
        teams = len(team_sides(seats))
        return cls(seats, (0.0,) * teams, (1.0,) * teams)

    @classmethod
    def measured(cls, seats: tuple[Seat, ...], returns: np.ndarray) -> ReturnOutcome:
        """Return the outcome of teams whose returns are compared relative to those of random play.

        In a game whose rewards have a constant sum, what one team gains the others lose: these returns are compared as
        they are.

        Args:
            seats: The seats of a match.
            returns: ``[n, seats] float32``: returns of random play.
        """
        by_team = team_returns(returns, seats)
        total = returns.sum(axis=1, dtype=np.float64)
        if len(returns) < 2 or np.ptp(total) <= _TOLERANCE * max(1.0, float(np.abs(returns).max())):
            return cls.plain(seats)
        deviation = by_team.std(axis=0, ddof=1)
        scale = np.where(deviation > _TOLERANCE, deviation, 1.0)
        return cls(seats, tuple(by_team.mean(axis=0).tolist()), tuple(scale.tolist()), len(returns))

    @classmethod
    def of(cls, seats: tuple[Seat, ...], stored: Mapping[str, Any]) -> ReturnOutcome:
        """Return the outcome that the metadata of a store hold."""
        return cls(seats, tuple(stored["mean"]), tuple(stored["scale"]), int(stored["matches"]))

    def json(self) -> dict[str, Any]:
        """Return JSON values for the metadata of a store."""
        return {"mean": list(self.mean), "scale": list(self.scale), "matches": self.matches}

    @property
    def rule(self) -> str:
        """Return what decides a match, in words."""
        return RELATIVE_RULE if self.matches else PLAIN_RULE

    def points(self, returns: np.ndarray) -> NDArray[np.float32]:
        """Return the outcomes ``[n, teams] float32`` of matches.

        Args:
            returns: ``[n, seats] float32``.
        """
        z = (team_returns(returns, self.seats) - self.mean) / self.scale
        lead = z[:, :, None] - z[:, None, :]
        near = _TOLERANCE * np.maximum(1.0, np.abs(z).max(axis=1, initial=0.0))
        won = np.where(np.abs(lead) <= near[:, None, None], 0.5, lead > 0)
        return np.asarray((won.sum(axis=2) - 0.5) / (z.shape[1] - 1), np.float32)

    def apply(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the arrays of results with the outcomes that follow from their returns, and without these.

        Args:
            arrays: As in `ludus._messaging.messages.Results`.

        Raises:
            WireError: There are no returns, or not of every seat, or some are not finite.
        """
        found = dict(arrays)
        returns, outcome = found.pop("returns", None), found.get("outcome")
        shape = None if outcome is None else (len(outcome), len(self.seats))
        if returns is None or returns.shape != shape or returns.dtype != np.float32 or not np.isfinite(returns).all():
            raise WireError(f"results: expected finite returns [n, {len(self.seats)}] float32")
        return {**found, "outcome": self.points(returns)}


def team_returns(returns: np.ndarray, seats: Sequence[Seat]) -> NDArray[np.float64]:
    """Return the mean return of the seats of every team, ``[n, teams]``, given those of all seats ``[n, seats]``."""
    teams = np.array([seat.team for seat in seats])
    return np.stack([returns[:, teams == team].mean(axis=1, dtype=np.float64) for team in range(teams.max() + 1)], 1)
