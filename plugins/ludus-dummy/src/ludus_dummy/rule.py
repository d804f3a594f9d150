"""The rule ``dummy-reset``, which resets players."""

from __future__ import annotations

import numpy as np
from ludus.matchmaker import LeagueView
from ludus.rule import Reset

from ludus_dummy.config import ResetConfig

__all__ = ["ResetRule"]


class ResetRule:
    """Resets every player whose generation has frozen a number of models."""

    def __init__(self, config: ResetConfig) -> None:
        self._models = config.models

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[Reset]:  # noqa: ARG002 - signature of rules
        """Return a reset for every player whose generation is old enough."""
        return [
            Reset(player=player.name, reason=f"generation {player.generation} has {self._models} models")
            for player in league.players.values()
            if len(player.models) - player.generation_starts[-1] >= self._models
        ]
