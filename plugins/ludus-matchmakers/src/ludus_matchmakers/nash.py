"""Policy-space response oracles (PSRO): opponents from an equilibrium of the empirical game."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, Pairing

from ludus_matchmakers.common import PoolKeeper
from ludus_matchmakers.tools import (
    choose_uniformly,
    fallback_opponents,
    newest,
    pair_every_team,
    pool_opponents,
    win_rates,
)

_TOLERANCE = 2e-3  # maximum gain of a pure strategy against the equilibrium, as a win rate
_ROUNDS = 5000


@define
class Nash(PoolKeeper):
    """Chooses frozen models with their probabilities in an equilibrium of the game between frozen models (PSRO).

    The payoffs of the game are the results between frozen models, so rating matches are needed: the win rate of a pair
    without matches is ½. In an asymmetric game the rows are the player's models and the columns those of the other
    side.

    Args:
        pools: Pools to choose from; empty: the own pool in a symmetric game, those of the other side otherwise.
        models: Newest models of each side that are considered, besides anchors of the pools.
        prior_matches: Weight of the prior of every win rate, in matches.
    """

    pools: Sequence[str] = ()
    models: int = field(default=50, kw_only=True)
    prior_matches: float = field(default=2.0, kw_only=True)

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return frozen opponents."""
        return pair_every_team(league, player, lambda team: self._choose(league, player, team, rng))

    def _choose(self, league: LeagueView, player: str, team: int | None, rng: np.random.Generator) -> tuple[str, str]:
        theirs = newest(league, pool_opponents(league, player, team, pools=self.pools), self.models)
        if not theirs:
            return choose_uniformly(fallback_opponents(league, player, team), rng), "no model in its pools yet"
        ours = theirs if team is None else newest(league, league.pool(player), self.models)
        if not ours:
            return choose_uniformly(theirs, rng), "nash: no own model yet"
        counts = np.stack([league.payoff(model, theirs) for model in ours])
        probabilities = _column_strategy(counts.tobytes(), counts.shape[:2], self.prior_matches)
        i = int(rng.choice(len(theirs), p=probabilities))
        return theirs[i], f"nash: p {probabilities[i]:.2g} of {np.count_nonzero(probabilities > _TOLERANCE)}"


@lru_cache(maxsize=16)
def _column_strategy(counts: bytes, shape: tuple[int, int], prior_matches: float) -> np.ndarray:
    """Return ``[m]``: the strategy of the columns; cached, because counts rarely change between two fixtures."""
    rates = win_rates(np.frombuffer(counts).reshape(-1, 3), prior_matches=prior_matches)
    return equilibrium(rates.reshape(shape))[1]


def equilibrium(win_rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mixed strategies of both sides that no pure strategy beats by more than about 0.002.

    Both sides use predictive regret matching plus. The averages of their strategies, weighted by the square of the
    round, approach an equilibrium. They start uniformly, so that the result is uniform if all win rates are ½.
    Probabilities below a hundredth of the uniform one are set to 0.

    Args:
        win_rate: ``[n, m] float64`` in [0, 1]: win rate of each row against each column.

    Returns:
        Probabilities ``[n]`` of the rows and ``[m]`` of the columns.
    """
    payoff = np.asarray(win_rate, np.float64) - 0.5
    sides = [_Side(payoff), _Side(-payoff.T)]
    for turn in range(1, _ROUNDS + 1):
        for side, other in (sides, reversed(sides)):
            side.learn(other.strategy, turn)
        if turn % 10 == 0:
            row, column = (side.total / side.total.sum() for side in sides)
            if (payoff @ column).max() - (row @ payoff).min() < _TOLERANCE:
                break
    return _normalize(sides[0].total), _normalize(sides[1].total)


@define(eq=False)
class _Side:
    """State of one side in regret matching.

    Attributes:
        payoff: ``[n, m]``: payoffs of this side.
        regret: ``[n]``: accumulated regret of each pure strategy.
        strategy: ``[n]``: present mixed strategy.
        total: ``[n]``: weighted sum of all strategies.
    """

    payoff: np.ndarray
    regret: np.ndarray = field(init=False)
    strategy: np.ndarray = field(init=False)
    total: np.ndarray = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.regret, self.total = np.zeros((2, len(self.payoff)))
        self.strategy = _regret_matching(self.regret)

    def learn(self, other: np.ndarray, turn: int) -> None:
        """Update the strategy, predicting that the other side repeats its present one."""
        gain = self.payoff @ other
        advantage = gain - self.strategy @ gain
        self.regret = np.maximum(self.regret + advantage, 0.0)
        self.strategy = _regret_matching(np.maximum(self.regret + advantage, 0.0))
        self.total += turn**2 * self.strategy


def _regret_matching(regret: np.ndarray) -> np.ndarray:
    total = regret.sum()
    return regret / total if total > 0 else np.full(regret.size, 1 / regret.size)


def _normalize(total: np.ndarray) -> np.ndarray:
    kept = np.where(total >= 0.01 * total.sum() / total.size, total, 0.0)
    return np.asarray(kept / kept.sum())
