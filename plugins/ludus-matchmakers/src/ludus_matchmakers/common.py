"""What all matchmakers of this package answer alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, PoolChange

from ludus_matchmakers.config import MatchmakerConfig
from ludus_matchmakers.tools import enter_pool, keep_longer, least_certain_pair


@define
class Keeper:
    """Keeps frozen models in the pool of their player and rates what is least certain.

    Args:
        capacity: Models of that pool.
        enough: Rating matches after which a pair is known.
        recent: Recent models that each new one is rated against.
        long_s: Seconds of training between two models that are kept in ``PLAYER/long``; 0: of no account.
        long_models: The same in models.
    """

    capacity: int = field(default=500, kw_only=True)
    enough: int = field(default=100, kw_only=True)
    recent: int = field(default=5, kw_only=True)
    long_s: float = field(default=0.0, kw_only=True)
    long_models: int = field(default=0, kw_only=True)

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return the pair whose results are known least."""
        return least_certain_pair(league, rng, enough=self.enough, recent=self.recent)

    def on_model_frozen(self, league: LeagueView, player: str, model: str) -> Sequence[PoolChange]:
        """Let the model enter the pool named after its player, which the oldest leave, and every so often ``/long``."""
        kept = keep_longer(league, player, model, every_s=self.long_s, every_models=self.long_models)
        return [*enter_pool(league, player, model, capacity=self.capacity), *kept]


def keeping(config: MatchmakerConfig) -> dict[str, Any]:
    """Return the arguments of `Keeper`."""
    return {
        "capacity": config.capacity,
        "enough": config.enough_matches,
        "recent": config.recent_models,
        "long_s": config.long_s,
        "long_models": config.long_models,
    }
