"""What the results of random matches show about the sides of a game."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attrs import define, field

from ludus.environment import EnvironmentSpec, Tick

_MATCHES_PER_TEAM = 8  # a team that wins as often as the others wins none of so many with a probability of 1 in 3000


@define
class MatchResults:
    """Outcomes and returns of the matches that ended.

    Args:
        spec: Specification of the environment.

    Attributes:
        outcomes: ``[teams]`` of each match that ended.
        returns: ``[seats]`` of each match that ended: the sums of the rewards of all seats.
    """

    spec: EnvironmentSpec
    outcomes: list[np.ndarray] = field(init=False, factory=list)
    returns: list[np.ndarray] = field(init=False, factory=list)
    _sums: np.ndarray | None = field(init=False, default=None)

    def add(self, tick: Tick, indices: np.ndarray | None) -> None:
        """Add a tick after a reset of the matches at `indices`, or after a step (None)."""
        rewards = np.concatenate([role.reward for role in tick.roles.values()], axis=1)
        if self._sums is None:
            self._sums = np.zeros(rewards.shape)
        if indices is not None:
            self._sums[indices] = 0
            return
        self._sums += rewards
        for match in np.flatnonzero(tick.terminated | tick.truncated):
            self.outcomes.append(tick.outcome[match].copy())
            self.returns.append(self._sums[match].copy())

    @property
    def are_enough(self) -> bool:
        """Return whether so many matches ended that a team that can win or lose almost certainly did."""
        return len(self.outcomes) >= _MATCHES_PER_TEAM * self.spec.num_teams

    def find_one_sided_teams(self) -> Iterator[str]:
        """Yield a line if a team never won or never lost, and enough matches ended.

        A team without opponents may lose all random matches: its game is hard.
        """
        if not self.are_enough:
            return
        outcome = np.stack(self.outcomes)
        is_draw, alone = (outcome == 0.5).all(), self.spec.num_teams == 1
        if alone and (outcome <= 0.5).any():
            return
        teams = [
            f"{self._name(team)} never {word}"
            for team in range(self.spec.num_teams)
            for word, some in (("won", outcome[:, team] > 0.5), ("lost", outcome[:, team] < 0.5))
            if not some.any()
        ]
        if not teams:
            return
        what = "no team won" if is_draw else ", ".join(teams)
        advice = "score by return" if alone else "check the rule for outcomes, unless random play is that one-sided"
        yield f"in {len(outcome)} random matches {what}; {advice}"

    def differ(self, one: int, other: int) -> bool:
        """Return whether the mean returns of two seats differ by more than four standard errors."""
        returns = np.stack(self.returns) if self.are_enough else np.zeros((0, len(self.spec.seats)))
        lead = returns[:, one] - returns[:, other]
        return len(lead) > 1 and bool(abs(lead.mean()) > 4.0 * lead.std(ddof=1) / len(lead) ** 0.5)

    def _name(self, team: int) -> str:
        seats = [seat for seat in self.spec.seats if seat.team == team]
        names = [(self.spec.role(seat.role).seat_names or {seat.index: seat.role})[seat.index] for seat in seats]
        return f"team {team} ({', '.join(dict.fromkeys(names))})"
