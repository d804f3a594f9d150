"""What all matchmakers of this package answer alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, PoolChange

from ludus_matchmakers.config import MatchmakerConfig
from ludus_matchmakers.tools import enter_pool, least_certain_pair


@define
class Keeper:
    """Keeps frozen models in the pool of their player and rates what is least certain.

    Args:
        capacity: Models of that pool.
        enough: Rating matches after which a pair is known.
        recent: Recent models that each new one is rated against.
    """

    capacity: int = field(default=500, kw_only=True)
    enough: int = field(default=100, kw_only=True)
    recent: int = field(default=5, kw_only=True)

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return the pair whose results are known least."""
        return least_certain_pair(league, rng, enough=self.enough, recent=self.recent)

    def on_model_frozen(self, league: LeagueView, player: str, model: str) -> Sequence[PoolChange]:
        """Let the model enter the pool named after its player; the oldest leave."""
        return enter_pool(league, player, model, capacity=self.capacity)


def keeping(config: MatchmakerConfig) -> dict[str, int]:
    """Return the arguments of `Keeper`."""
    return {"capacity": config.capacity, "enough": config.enough_matches, "recent": config.recent_models}
