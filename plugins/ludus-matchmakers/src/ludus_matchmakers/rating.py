"""Whom to rate next: the least certain pair, and several askers with a share of the matches each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, Matchmaker

from ludus_matchmakers.convergence import met
from ludus_matchmakers.self_play import LatestSelfPlay
from ludus_matchmakers.tools import seat_pair, win_rates


@define
class Uncertain(LatestSelfPlay):
    """Rates the pair whose win rate is least certain; trains as latest self-play does.

    A win rate is believed to be Beta-distributed: wins and half the draws, losses and the other half, and the prior.
    Its standard deviation √(x (1 - x) / (n + 1)), n with the prior, is largest where few matches were played and where
    the sides are even. The newest model of every player meets the anchors, its own recent models and those of other
    players, or all models of `pools`; anchors meet anchors.

    Args:
        pools: Pools whose models the newest ones meet; empty: recent models.
        deviation: Pairs known better than this are known.
        prior_matches: Weight of the prior.
    """

    pools: Sequence[str] = field(default=(), kw_only=True)
    deviation: float = field(default=0.05, kw_only=True)
    prior_matches: float = field(default=2.0, kw_only=True)

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return the least certain pair; None once every pair is known."""
        doubts = [(doubt, pair) for pair, doubt in self._doubts(league).items() if doubt > self.deviation]
        while doubts:
            largest = max(doubt for doubt, _ in doubts)
            best = [pair for doubt, pair in doubts if doubt >= largest - 1e-12]
            pair = best[int(rng.integers(len(best)))]
            seats = seat_pair(league, *pair)
            if seats is not None:
                return seats
            doubts = [(doubt, other) for doubt, other in doubts if other != pair]
        return None

    def _doubts(self, league: LeagueView) -> dict[tuple[str, str], float]:
        """Return the standard deviation of the win rate of every pair that is not known enough."""
        found: dict[tuple[str, str], float] = {}
        for first, others in self._meetings(league):
            opponents = tuple(name for name in dict.fromkeys(others) if name != first and (name, first) not in found)
            counts = league.payoff(first, opponents)
            matches, rates = counts.sum(axis=1), win_rates(counts, prior_matches=self.prior_matches)
            doubt = np.sqrt(rates * (1 - rates) / (matches + self.prior_matches + 1))
            found |= {(first, opponents[i]): float(doubt[i]) for i in np.flatnonzero(matches < self.enough)}
        return found

    def _meetings(self, league: LeagueView) -> list[tuple[str, list[str]]]:
        newest = [(name, view.models[-1]) for name, view in league.players.items() if view.models]
        meetings = []
        for name, model in newest:
            view = league.players[name]
            others = [*league.anchors]
            if self.pools:
                others += met(league, name, self.pools)
            else:
                others += view.models[-1 - self.recent : -1]
                for other in league.players.values():
                    depth = 1 if view.team is None or other.team is None else max(1, self.recent)
                    others += other.models[-depth:] if other.name != name else ()
            meetings.append((model, others))
        return meetings + [(first, [second]) for first, second in combinations(league.anchors, 2)]


@define
class RatingMixture(LatestSelfPlay):
    """Asks one of several matchmakers for every pair to rate; trains as latest self-play does.

    Args:
        parts: Matchmakers by name.
        weights: Share of each, in any unit; one that has nothing to ask leaves its share to the others.
    """

    parts: Mapping[str, Matchmaker] = field(kw_only=True)
    weights: Mapping[str, float] = field(kw_only=True)

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return what one part answers; None where none has anything to ask."""
        left = {name: weight for name, weight in self.weights.items() if weight > 0}
        while left:
            shares = np.array(list(left.values()), np.float64)
            name = list(left)[int(rng.choice(len(left), p=shares / shares.sum()))]
            pair = self.parts[name].next_evaluation(league, rng)
            if pair is not None:
                return pair
            del left[name]
        return None
