"""The meta-strategy of policy-space response oracles: opponents from an equilibrium of the empirical game."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, Pairing

from ludus_matchmakers.common import Keeper
from ludus_matchmakers.tools import any_of, for_every_team, newest, pool_opponents, stand_ins, win_rates

_TOLERANCE = 2e-3  # of a win rate
_ROUNDS = 5000


@define
class Nash(Keeper):
    """Meets frozen models as often as an equilibrium of the game between frozen models plays them (PSRO).

    The game is made of the results between frozen models, so something should rate them: a pair without matches is
    even. In an asymmetric game the asking side's models are the rows, those of the other side the columns.

    Args:
        pools: Pools to choose from; empty: its own in a symmetric game, those of the other side otherwise.
        models: Newest models of each side that are considered; anchors of the pools come on top.
        prior_matches: Weight of the prior of every win rate, in matches.
    """

    pools: Sequence[str] = ()
    models: int = field(default=50, kw_only=True)
    prior_matches: float = field(default=2.0, kw_only=True)

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return frozen opponents."""
        return for_every_team(league, player, lambda team: self._choose(league, player, team, rng))

    def _choose(self, league: LeagueView, player: str, team: int | None, rng: np.random.Generator) -> tuple[str, str]:
        theirs = newest(league, pool_opponents(league, player, team, pools=self.pools), self.models)
        if not theirs:
            return any_of(stand_ins(league, player, team), rng), "no model in its pools yet"
        ours = theirs if team is None else newest(league, league.pool(player), self.models)
        if not ours:
            return any_of(theirs, rng), "nash: no own model yet"
        counts = np.stack([league.payoff(model, theirs) for model in ours])
        probabilities = _answers(counts.tobytes(), counts.shape[:2], self.prior_matches)
        i = int(rng.choice(len(theirs), p=probabilities))
        return theirs[i], f"nash: p {probabilities[i]:.2g} of {np.count_nonzero(probabilities > _TOLERANCE)}"


@lru_cache(maxsize=16)
def _answers(counts: bytes, shape: tuple[int, int], prior_matches: float) -> np.ndarray:
    """Return ``[m]``: the columns' equilibrium; most questions find the same counts as the one before."""
    rates = win_rates(np.frombuffer(counts).reshape(-1, 3), prior_matches=prior_matches)
    return equilibrium(rates.reshape(shape))[1]


def equilibrium(win_rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mixed strategies of both sides that no pure one beats by more than about 0.002.

    Both sides play predictive regret matching plus against each other, and the averages of what they play, weighted by
    the square of the round, approach an equilibrium. They begin uniformly, so where nothing is known the result is
    uniform. Probabilities below a hundredth of the uniform one are taken as 0.

    Args:
        win_rate: ``[n, m] float64`` in [0, 1]: of each row against each column.

    Returns:
        Probabilities ``[n]`` of the rows and ``[m]`` of the columns.
    """
    payoff = np.asarray(win_rate, np.float64) - 0.5
    sides = [_Side(payoff), _Side(-payoff.T)]
    for turn in range(1, _ROUNDS + 1):
        for side, other in (sides, reversed(sides)):
            side.learn(other.played, turn)
        if turn % 10 == 0:
            row, column = (side.total / side.total.sum() for side in sides)
            if (payoff @ column).max() - (row @ payoff).min() < _TOLERANCE:
                break
    return _cleaned(sides[0].total), _cleaned(sides[1].total)


@define(eq=False)
class _Side:
    """One side of the game while it learns.

    Attributes:
        payoff: ``[n, m]``: its own.
        regret: ``[n]``: what each choice would have won more, so far.
        played: ``[n]``: its strategy now.
        total: ``[n]``: what it has played.
    """

    payoff: np.ndarray
    regret: np.ndarray = field(init=False)
    played: np.ndarray = field(init=False)
    total: np.ndarray = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.regret, self.total = np.zeros((2, len(self.payoff)))
        self.played = _matched(self.regret)

    def learn(self, other: np.ndarray, turn: int) -> None:
        """Answer what the other side plays, expecting it to play the same once more."""
        gain = self.payoff @ other
        more = gain - self.played @ gain
        self.regret = np.maximum(self.regret + more, 0.0)
        self.played = _matched(np.maximum(self.regret + more, 0.0))
        self.total += turn**2 * self.played


def _matched(regret: np.ndarray) -> np.ndarray:
    total = regret.sum()
    return regret / total if total > 0 else np.full(regret.size, 1 / regret.size)


def _cleaned(total: np.ndarray) -> np.ndarray:
    kept = np.where(total >= 0.01 * total.sum() / total.size, total, 0.0)
    return np.asarray(kept / kept.sum())
