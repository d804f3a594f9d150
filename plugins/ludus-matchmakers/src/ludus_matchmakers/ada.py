"""Adaptive data adjustment: the side that loses gets more of the matches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define
from ludus.errors import ConfigError
from ludus.matchmaker import LeagueView
from ludus.rule import Share

from ludus_matchmakers.balance import recent_rate
from ludus_matchmakers.tools import known_players


@define(kw_only=True)
class ADA:
    """Moves the shares of sides by their win rates [AET eq. 5-6].

    With two sides, a hard one with the ratio r and the win rate w and the other one with the win rate v::

        r ← min(high, max(low, r + dif)),  dif = behind (v - w) if v ≥ w, else ahead (v - w)

    and the other side has the ratio 1 - r. With more sides, v is the mean win rate of the others, every hard side has
    a ratio by that equation, those ratios are scaled down where their sum is above `high`, and the sides that are not
    hard divide the rest as they did before. Each win rate is that of a side's live weights against those of all others,
    of late. Ratios are shares of the playing time of the players named; those of other players are left alone.

    Args:
        players: The sides; empty: all players.
        hard: Sides whose ratios follow the equation; empty: the first one.
        low: Least ratio of a hard side.
        high: Greatest ratio.
        behind: Step of a hard side that is behind.
        ahead: Step of one that is ahead.
        enough: Matches of late without which nothing moves.
    """

    players: Sequence[str] = ()
    hard: Sequence[str] = ()
    low: float = 0.5
    high: float = 0.8
    behind: float = 0.25
    ahead: float = 1.0
    enough: float = 50

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[Share]:  # noqa: ARG002 - the contract
        """Return the shares that change; the sum over the sides stays what it is."""
        sides = known_players(league, self.players) or tuple(league.players)
        hard = known_players(league, self.hard) or sides[:1]
        easy = [side for side in sides if side not in hard]
        if len(sides) < 2:
            return []
        if not easy or not set(hard) < set(sides):
            raise ConfigError("rule ada: expected hard to be some of the players, not all of them")
        found = {side: recent_rate(league, side, [other for other in sides if other != side]) for side in sides}
        total = sum(league.players[side].share for side in sides)
        if total <= 0 or any(found[side][1] < self.enough for side in hard):
            return []
        old = {side: league.players[side].share / total for side in sides}
        new = {side: self._ratio(old[side], *_rates(side, found)) for side in hard}
        wanted = sum(new.values())
        if wanted > self.high:
            new = {side: ratio * self.high / wanted for side, ratio in new.items()}
        rest, before = 1 - sum(new.values()), sum(old[side] for side in easy)
        new |= {side: rest * (old[side] / before if before else 1 / len(easy)) for side in easy}
        return [Share(player=side, share=ratio * total) for side, ratio in new.items() if abs(ratio - old[side]) > 1e-9]

    def _ratio(self, old: float, mine: float, theirs: float) -> float:
        gap = theirs - mine
        return min(self.high, max(self.low, old + (self.behind if gap >= 0 else self.ahead) * gap))


def _rates(side: str, found: dict[str, tuple[float, float]]) -> tuple[float, float]:
    """Return the win rate of a side and the mean of the others'."""
    return found[side][0], float(np.mean([rate for other, (rate, _) in found.items() if other != side]))
