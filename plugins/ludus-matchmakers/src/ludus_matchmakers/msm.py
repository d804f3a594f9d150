"""The model sampling method of DIS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, Pairing

from ludus_matchmakers.common import PoolKeeper
from ludus_matchmakers.config import DIS_POOLS
from ludus_matchmakers.tools import choose_uniformly, fallback_opponents, pair_every_team, pool_opponents, win_rates


@define
class MSM(PoolKeeper):
    """Chooses the live weights, or models of several pools by difficulty: model sampling method [DIS §3.2.3].

    With probability `alpha` the opponent has the player's live weights. Otherwise pool i has the probability
    p_i = (1 - alpha) n_i / n_total, and model j in it p_i softmax((1 - w_j - ½ d_j)^p / temperature). The
    probability of a model in several pools is the sum.

    Args:
        pools: The pools.
        capacity: Capacity of the player's pool; DIS uses 100.
        long_s: Seconds of training between two models that enter ``PLAYER/long``; DIS uses 12 hours.
        alpha: Probability of the live weights.
        p: Exponent of the importance.
        temperature: Temperature of the softmax.
        prior_matches: Weight of the prior of every win rate, in matches.
    """

    pools: Sequence[str] = DIS_POOLS
    capacity: int = field(default=100, kw_only=True)
    long_s: float = field(default=43_200.0, kw_only=True)
    alpha: float = field(default=0.6, kw_only=True)
    p: float = field(default=1.0, kw_only=True)
    temperature: float = field(default=0.3, kw_only=True)
    prior_matches: float = field(default=2.0, kw_only=True)

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return live or frozen opponents."""
        return pair_every_team(league, player, lambda team: self._choose(league, player, team, rng))

    def _choose(self, league: LeagueView, player: str, team: int | None, rng: np.random.Generator) -> tuple[str, str]:
        pools = {pool: pool_opponents(league, player, team, pools=[pool]) for pool in self.pools}
        sizes = np.array([len(models) for models in pools.values()], np.float64)
        if rng.random() < self.alpha or not sizes.sum():
            return choose_uniformly(fallback_opponents(league, player, team), rng), "msm: the current weights"
        pool = list(pools)[int(rng.choice(len(sizes), p=sizes / sizes.sum()))]
        models = pools[pool]
        rates = win_rates(league.payoff(league.players[player].live, models), prior_matches=self.prior_matches)
        probabilities = msm_probabilities(rates, p=self.p, temperature=self.temperature)
        i = int(rng.choice(len(models), p=probabilities))
        return models[i], f"msm: {pool}, win rate {rates[i]:.2f}, p {probabilities[i]:.2g} in the pool"


def msm_probabilities(win_rate: np.ndarray, *, p: float = 1.0, temperature: float = 0.3) -> np.ndarray:
    """Return the probability of each model of a pool [DIS eq. 6]: softmax((1 - w - ½ d)^p / temperature).

    Args:
        win_rate: ``[n] float64`` in [0, 1]: w + ½ d against each model.
        p: Exponent of the importance.
        temperature: Temperature of the softmax, > 0.

    Returns:
        ``[n] float64`` that sum to 1.
    """
    score = (1 - win_rate) ** p / temperature
    weights = np.exp(score - score.max())
    return np.asarray(weights / weights.sum())
