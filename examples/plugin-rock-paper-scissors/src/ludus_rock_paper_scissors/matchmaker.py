"""A matchmaker that chooses the frozen model against which the player loses most.

All three methods are functions of the league and the random generator, so that a run can be resumed and a result
repeated; `ludus.testing.check_matchmaker` checks that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from ludus.matchmaker import LeagueView, Matchmaker, Pairing, PoolChange
from ludus_matchmakers.tools import (
    enter_pool,
    fallback_opponents,
    least_certain_pair,
    other_teams,
    pool_opponents,
    win_rates,
)

from ludus_rock_paper_scissors.config import NemesisConfig

__all__ = ["BeatTheNemesis"]


class BeatTheNemesis:
    """Chooses the frozen model with the best results against the player, or live weights.

    Args:
        config: The options of the TOML file.
        build: Makes other matchmakers by name; unused.
    """

    def __init__(self, config: NemesisConfig, *, build: Callable[[str], Matchmaker] | None = None) -> None:
        del build
        self._config = config

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return one opponent for every other team."""
        live = rng.random() < self._config.self_play
        choices = [self._choose(league, player, team, live=live) for team in other_teams(league, player)]
        return Pairing(opponents=tuple(name for name, _ in choices), reason="; ".join(reason for _, reason in choices))

    def _choose(self, league: LeagueView, player: str, team: int | None, *, live: bool) -> tuple[str, str]:
        """Return an opponent for a team, and the reason."""
        models = pool_opponents(league, player, team)
        if live or not models:
            return fallback_opponents(league, player, team)[0], "beat-the-nemesis: live"
        rates = win_rates(league.payoff(league.players[player].live, models))  # [n]; a draw is half a win
        worst = int(rates.argmin())
        return models[worst], f"beat-the-nemesis: win rate {rates[worst]:.2f}"

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return the pair whose result is least certain."""
        return least_certain_pair(league, rng)

    def on_model_frozen(self, league: LeagueView, player: str, model: str) -> Sequence[PoolChange]:
        """Add the model to the pool of its player."""
        return enter_pool(league, player, model, capacity=self._config.capacity)
