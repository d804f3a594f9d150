"""Matchmakers for rating matches: the least certain pair, and a mixture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, Matchmaker

from ludus_matchmakers.convergence import pool_models
from ludus_matchmakers.self_play import LatestSelfPlay
from ludus_matchmakers.tools import seat_pair, win_rates


@define
class Uncertain(LatestSelfPlay):
    """Rates the pair whose win rate is least certain; otherwise the same as latest self-play.

    The posterior of a win rate x is a Beta distribution of wins, losses, half the draws each, and the prior. Its
    standard deviation √(x (1 - x) / (n + 1)), where n includes the prior, is largest for few matches and even sides.
    The newest model of every player is paired with the anchors and its own and other players' recent models, or with
    all models of `pools`; anchors are paired with each other.

    Args:
        pools: Pools whose models the newest ones are paired with; empty: recent models.
        deviation: Standard deviation below which a pair needs no more matches.
        prior_matches: Weight of the prior.
    """

    pools: Sequence[str] = field(default=(), kw_only=True)
    deviation: float = field(default=0.05, kw_only=True)
    prior_matches: float = field(default=2.0, kw_only=True)

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return the least certain pair; None if no pair needs matches."""
        deviations = {
            pair: deviation for pair, deviation in self._deviations(league).items() if deviation > self.deviation
        }
        while deviations:
            largest = max(deviations.values())
            best = [pair for pair, deviation in deviations.items() if deviation >= largest - 1e-12]
            pair = best[int(rng.integers(len(best)))]
            seats = seat_pair(league, *pair)
            if seats is not None:
                return seats
            del deviations[pair]
        return None

    def _deviations(self, league: LeagueView) -> dict[tuple[str, str], float]:
        """Return the standard deviation of the win rate of every pair with less than `enough_matches`."""
        found: dict[tuple[str, str], float] = {}
        for first, others in self._candidate_pairs(league):
            opponents = tuple(name for name in dict.fromkeys(others) if name != first and (name, first) not in found)
            counts = league.payoff(first, opponents)
            matches, rates = counts.sum(axis=1), win_rates(counts, prior_matches=self.prior_matches)
            deviation = np.sqrt(rates * (1 - rates) / (matches + self.prior_matches + 1))
            found |= {(first, opponents[i]): float(deviation[i]) for i in np.flatnonzero(matches < self.enough_matches)}
        return found

    def _candidate_pairs(self, league: LeagueView) -> list[tuple[str, list[str]]]:
        newest = [(name, view.models[-1]) for name, view in league.players.items() if view.models]
        pairs = []
        for name, model in newest:
            view = league.players[name]
            others = [*league.rated_anchors]
            if self.pools:
                others += pool_models(league, name, self.pools)
            else:
                others += view.models[-1 - self.recent_models : -1]
                for other in league.players.values():
                    depth = 1 if view.team is None or other.team is None else max(1, self.recent_models)
                    others += other.models[-depth:] if other.name != name else ()
            pairs.append((model, others))
        return pairs + [(first, [second]) for first, second in combinations(league.rated_anchors, 2)]


@define
class RatingMixture(LatestSelfPlay):
    """Draws one of several matchmakers for every rating match; otherwise the same as latest self-play.

    Args:
        parts: Matchmakers by name.
        weights: Relative share by matchmaker; one without a pair to rate leaves its share to the others.
    """

    parts: Mapping[str, Matchmaker] = field(kw_only=True)
    weights: Mapping[str, float] = field(kw_only=True)

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return the pair of one part; None if no part has one."""
        left = {name: weight for name, weight in self.weights.items() if weight > 0}
        while left:
            shares = np.array(list(left.values()), np.float64)
            name = list(left)[int(rng.choice(len(left), p=shares / shares.sum()))]
            pair = self.parts[name].next_evaluation(league, rng)
            if pair is not None:
                return pair
            del left[name]
        return None
