"""Matches against frozen models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, Pairing

from ludus_matchmakers.common import PoolKeeper
from ludus_matchmakers.tools import (
    choose_uniformly,
    fallback_opponents,
    pair_every_team,
    pool_opponents,
    win_rate_counts,
    win_rates,
)

#: Chooses one of some models, and returns it with the reason.
_Choose = Callable[[Sequence[str]], tuple[str, str]]


def meet(league: LeagueView, player: str, pools: Sequence[str], rng: np.random.Generator, choose: _Choose) -> Pairing:
    """Return a frozen opponent for every other team, or a fallback while there is no model."""

    def choose_for(team: int | None) -> tuple[str, str]:
        models = pool_opponents(league, player, team, pools=pools)
        if models:
            return choose(models)
        return choose_uniformly(fallback_opponents(league, player, team), rng), "no model in its pools yet"

    return pair_every_team(league, player, choose_for)


@define
class UniformHistory(PoolKeeper):
    """Chooses every model of the pools with equal probability (fictitious self-play).

    Args:
        pools: Pools to choose from; empty: the own pool in a symmetric game, those of the other side otherwise.
    """

    pools: Sequence[str] = ()

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return frozen opponents."""

        def choose(models: Sequence[str]) -> tuple[str, str]:
            return choose_uniformly(models, rng), f"uniform-history: 1 of {len(models)}"

        return meet(league, player, self.pools, rng, choose)


@define
class PFSP(PoolKeeper):
    """Chooses the models of the pools by the player's win rates (prioritized fictitious self-play) [AET eq. 4].

    Args:
        pools: Pools to choose from; empty: the own pool in a symmetric game, those of the other side otherwise.
        weighting: ``"hard"``, ``"even"`` or ``"capped"``, see `pfsp_probabilities`.
        p: Exponent of the hard weighting.
        uniform: Share of the fixtures in which all models have equal probability.
        prior_matches: Weight of the prior of every win rate, in matches.
        results: ``"evaluation"`` or ``"training"``, see `ludus_matchmakers.tools.win_rate_counts`. AET has a new model
            play n matches against every model of the opposing pool [AET §3.3].
        label: Name of the matchmaker in reasons.
    """

    pools: Sequence[str] = ()
    weighting: str = field(default="hard", kw_only=True)
    p: float = field(default=1.0, kw_only=True)
    uniform: float = field(default=0.0, kw_only=True)
    prior_matches: float = field(default=2.0, kw_only=True)
    results: str = field(default="evaluation", kw_only=True)
    label: str = field(default="pfsp", kw_only=True)

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return frozen opponents."""

        def choose(models: Sequence[str]) -> tuple[str, str]:
            counts = win_rate_counts(league, player, models, results=self.results)
            rates = win_rates(counts, prior_matches=self.prior_matches)
            probabilities = pfsp_probabilities(rates, weighting=self.weighting, p=self.p)
            probabilities = (1 - self.uniform) * probabilities + self.uniform / len(models)
            chosen = int(rng.choice(len(models), p=probabilities))
            return models[chosen], f"{self.label}: win rate {rates[chosen]:.2f}, p {probabilities[chosen]:.2g}"

        return meet(league, player, self.pools, rng, choose)


def pfsp_probabilities(win_rate: np.ndarray, *, weighting: str = "hard", p: float = 1.0) -> np.ndarray:
    """Return the probability of each opponent [AET eq. 4]: P(b) = f(x_b) / sum of f(x_c) over the pool.

    ``"hard"`` is f(x) = (1 - x)^p, ``"even"`` is f(x) = x (1 - x), ``"capped"`` is f(x) = min(½, 1 - x). If all
    weights are 0, the result is uniform.

    Args:
        win_rate: ``[n] float64`` in [0, 1]: expected win rates x against the opponents, draws counting half.
        weighting: ``"hard"``, ``"even"`` or ``"capped"``.
        p: Exponent of ``"hard"``.

    Returns:
        ``[n] float64`` that sum to 1.
    """
    weights = {
        "hard": 1 - win_rate,
        "even": win_rate * (1 - win_rate),
        "capped": np.minimum(0.5, 1 - win_rate),
    }[weighting]
    largest = weights.max()
    if largest <= 0:
        return np.full(win_rate.shape, 1 / win_rate.size)
    weights = weights / largest  # avoids underflow for a large p
    if weighting == "hard":
        weights = weights**p
    return np.asarray(weights / weights.sum())
