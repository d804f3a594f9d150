"""Adaptive data adjustment: a side that loses gets a larger share of the training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import define
from ludus.errors import ConfigError
from ludus.matchmaker import LeagueView
from ludus.rule import Share

from ludus_matchmakers.balance import evaluated_win_rate, recent_win_rate
from ludus_matchmakers.tools import check_players


@define(kw_only=True)
class ADA:
    """Updates the shares of sides by their win rates [AET eq. 5-6].

    For two sides, a hard one with the ratio r and the win rate w and another one with the win rate v::

        r ← min(high, max(low, r + dif)),  dif = behind (v - w) if v ≥ w, else ahead (v - w)

    The other side has the ratio 1 - r. For more sides, v is the mean win rate of the others. Every hard side has a
    ratio by that equation; ratios are scaled down where their sum is above `high`. The sides that are not hard divide
    the rest in proportion to their present ratios. A win rate is the mean one of a side's frozen models, the newest
    counting most, against the models of the pools of all other sides in evaluation matches: "the evaluation results of
    the current model", which no scenario has changed. With ``results = "training"``, and while a side has too few
    evaluation matches, it is the recent one of its live weights against the live weights of the others. Ratios divide
    the shares of the named players; shares of other players do not change.

    Args:
        players: Players of the sides; empty: all players.
        hard: Sides whose ratios follow the equation; empty: the first one.
        low: Minimum ratio of a hard side.
        high: Maximum ratio of the hard sides together.
        behind: Factor of the difference of win rates while a hard side is behind.
        ahead: Factor while it is ahead.
        enough_matches: Matches of every hard side below which nothing changes.
        results: ``"evaluation"`` or ``"training"``.
    """

    players: Sequence[str] = ()
    hard: Sequence[str] = ()
    low: float = 0.5
    high: float = 0.8
    behind: float = 0.25
    ahead: float = 1.0
    enough_matches: float = 50
    results: str = "evaluation"

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[Share]:  # noqa: ARG002 - the contract
        """Return the shares that change; the sum over the sides stays the same.

        Raises:
            ConfigError: A player does not exist, or all sides are hard.
        """
        sides = check_players(league, self.players) or tuple(league.players)
        if len(sides) < 2:
            return []
        hard = self._hard_sides(league, sides)
        total = sum(league.players[side].share for side in sides)
        win_rates = self._win_rates(league, sides, hard)
        if total <= 0 or not win_rates:
            return []
        ratios = {side: league.players[side].share / total for side in sides}
        updated = self._update(ratios, win_rates, hard)
        changed = [side for side in sides if abs(updated[side] - ratios[side]) > 1e-9]
        return [Share(player=side, share=updated[side] * total) for side in changed]

    def _hard_sides(self, league: LeagueView, sides: Sequence[str]) -> Sequence[str]:
        hard = check_players(league, self.hard) or sides[:1]
        if not set(hard) < set(sides):
            raise ConfigError("rule ada: expected hard to be some of the players, not all of them")
        return hard

    def _win_rates(self, league: LeagueView, sides: Sequence[str], hard: Sequence[str]) -> dict[str, float]:
        """Return the win rate of every side; empty while a hard side has too few matches."""
        measures = (evaluated_win_rate, recent_win_rate) if self.results == "evaluation" else (recent_win_rate,)
        for measure in measures:
            rates = {side: measure(league, side, [other for other in sides if other != side]) for side in sides}
            if all(rates[side][1] >= self.enough_matches for side in hard):
                return {side: rate for side, (rate, _) in rates.items()}
        return {}

    def _update(
        self, ratios: Mapping[str, float], win_rates: Mapping[str, float], hard: Sequence[str]
    ) -> dict[str, float]:
        """Return the new ratios: eq. 5-6 for the hard sides, and the rest divided between the other ones."""
        updated = {side: self._ratio(side, ratios[side], win_rates) for side in hard}
        hard_ratio = sum(updated.values())
        if hard_ratio > self.high:
            updated = {side: ratio * self.high / hard_ratio for side, ratio in updated.items()}
        others = [side for side in ratios if side not in hard]
        rest, before = 1 - sum(updated.values()), sum(ratios[side] for side in others)
        return updated | {side: rest * (ratios[side] / before if before else 1 / len(others)) for side in others}

    def _ratio(self, side: str, ratio: float, win_rates: Mapping[str, float]) -> float:
        """Return the new ratio of a hard side, from its win rate and the mean win rate of the other sides."""
        gap = float(np.mean([rate for other, rate in win_rates.items() if other != side])) - win_rates[side]
        dif = self.behind * gap if gap >= 0 else self.ahead * gap
        return min(self.high, max(self.low, ratio + dif))
