"""What all matchmakers of this package answer alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs
import numpy as np
from attrs import AttrsInstance, define, field
from ludus.matchmaker import LeagueView, Matchmaker, PoolChange
from ludus.rule import Rule

from ludus_matchmakers.tools import enter_pool, keep_longer, least_certain_pair

Made = TypeVar("Made", Matchmaker, Rule)


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


#: What objects call options whose names say the unit.
_SHORT = {
    "enough_matches": "enough",
    "least_decisions": "least",
    "most_decisions": "most",
    "recent_models": "recent",
}


def arguments(config: AttrsInstance, kind: type[AttrsInstance] | None = None) -> dict[str, Any]:
    """Return the options as arguments of what they configure; only those of a base class where one is given."""
    names = [field.name for field in attrs.fields(kind or type(config))]
    return {_SHORT.get(name, name): getattr(config, name) for name in names}


def made_of(kind: Callable[..., Made], **fixed: object) -> Callable[..., Made]:
    """Return a factory that makes a `kind` of all options and of nothing else, besides what is fixed."""

    def make(config: AttrsInstance, *, build: object = None) -> Made:  # noqa: ARG001 - only mixtures have parts
        return kind(**arguments(config), **fixed)

    return make
