"""Matches against frozen models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, Pairing

from ludus_matchmakers.common import Keeper
from ludus_matchmakers.tools import any_of, for_every_team, pool_opponents, stand_ins, win_rates

#: Returns one of some models, for a live participant, and why.
_Choose = Callable[[LeagueView, str, Sequence[str], np.random.Generator], tuple[str, str]]


def meet(league: LeagueView, player: str, pools: Sequence[str], rng: np.random.Generator, choose: _Choose) -> Pairing:
    """Return a frozen opponent for every other team, a stand-in where there is no model yet."""

    def choose_for(team: int | None) -> tuple[str, str]:
        models = pool_opponents(league, player, team, pools=pools)
        if models:
            return choose(league, league.players[player].live, models, rng)
        return any_of(stand_ins(league, player, team), rng), "no model in its pools yet"

    return for_every_team(league, player, choose_for)


@define
class UniformHistory(Keeper):
    """Meets every model of its pools equally often (fictitious self-play).

    Args:
        pools: Pools to choose from; empty for its own in a symmetric game, those of the other side otherwise.
    """

    pools: Sequence[str] = ()

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return frozen opponents."""
        return meet(league, player, self.pools, rng, _uniform)


def _uniform(
    league: LeagueView,  # noqa: ARG001 - the signature of a choice
    live: str,  # noqa: ARG001 - as above
    models: Sequence[str],
    rng: np.random.Generator,
) -> tuple[str, str]:
    return any_of(models, rng), f"uniform-history: 1 of {len(models)}"


@define
class PFSP(Keeper):
    """Meets the models of its pools the more often, the more there is to learn from them.

    Args:
        pools: Pools to choose from; empty for its own in a symmetric game, those of the other side otherwise.
        weighting: ``"hard"``, ``"even"`` or ``"capped"``, see `pfsp_probabilities`.
        p: Exponent of the hard weighting.
        uniform: Share of the matches in which all models are met equally often.
        prior_matches: Weight of the prior of every win rate, in matches.
        label: What the reasons call it.
    """

    pools: Sequence[str] = ()
    weighting: str = field(default="hard", kw_only=True)
    p: float = field(default=1.0, kw_only=True)
    uniform: float = field(default=0.0, kw_only=True)
    prior_matches: float = field(default=2.0, kw_only=True)
    label: str = field(default="pfsp", kw_only=True)

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return frozen opponents."""
        return meet(league, player, self.pools, rng, self._choose)

    def _choose(
        self, league: LeagueView, live: str, models: Sequence[str], rng: np.random.Generator
    ) -> tuple[str, str]:
        rates = win_rates(league.payoff(live, models), prior_matches=self.prior_matches)
        probabilities = pfsp_probabilities(rates, weighting=self.weighting, p=self.p)
        probabilities = (1 - self.uniform) * probabilities + self.uniform / len(models)
        chosen = int(rng.choice(len(models), p=probabilities))
        return models[chosen], f"{self.label}: win rate {rates[chosen]:.2f}, p {probabilities[chosen]:.2g}"


def pfsp_probabilities(win_rate: np.ndarray, *, weighting: str = "hard", p: float = 1.0) -> np.ndarray:
    """Return how often to meet each opponent [AET eq. 4]: P(b) = f(x_b) / sum of f(x_c) over the pool.

    ``"hard"`` is f(x) = (1 - x)^p, ``"even"`` is f(x) = x (1 - x), ``"capped"`` is f(x) = min(½, 1 - x). Where every
    weight vanishes, the choice is uniform.

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
    weights = weights / largest  # so that a large p makes none of the relevant weights vanish
    if weighting == "hard":
        weights = weights**p
    return np.asarray(weights / weights.sum())
