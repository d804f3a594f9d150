"""The base of the matchmakers of this package, and factories from options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs
import numpy as np
from attrs import AttrsInstance, define, field
from ludus.matchmaker import LeagueView, Matchmaker, PoolChange
from ludus.rule import Rule

from ludus_matchmakers.tools import enter_long_pool, enter_pool, least_certain_pair

Made = TypeVar("Made", Matchmaker, Rule)


@define
class PoolKeeper:
    """Base of matchmakers: adds frozen models to the pool of their player, and rates the pair with the fewest matches.

    Args:
        capacity: Capacity of that pool.
        enough_matches: Rating matches after which a pair needs no more.
        recent_models: Recent models that each new model is rated against.
        long_s: Seconds of training between two models that enter ``PLAYER/long``; 0: no limit by time.
        long_models: Models between two models that enter ``PLAYER/long``; 0: no limit by models.
        pool_matches: Rating matches that a player needs against each model of the opposing pool; 0: none.
        pool_budget: Rating matches of a new model against the opposing pool, at most.
    """

    capacity: int = field(default=500, kw_only=True)
    enough_matches: int = field(default=100, kw_only=True)
    recent_models: int = field(default=5, kw_only=True)
    long_s: float = field(default=0.0, kw_only=True)
    long_models: int = field(default=0, kw_only=True)
    pool_matches: int = field(default=20, kw_only=True)
    pool_budget: int = field(default=200, kw_only=True)

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return the pair with the fewest matches."""
        return least_certain_pair(
            league,
            rng,
            enough_matches=self.enough_matches,
            recent_models=self.recent_models,
            pool_matches=self.pool_matches,
            pool_budget=self.pool_budget,
        )

    def on_model_frozen(self, league: LeagueView, player: str, model: str) -> Sequence[PoolChange]:
        """Add the model to the pool of its player, which the oldest leave, and to ``PLAYER/long`` if it is due."""
        kept = enter_long_pool(league, player, model, every_s=self.long_s, every_models=self.long_models)
        return [*enter_pool(league, player, model, capacity=self.capacity), *kept]


def option_arguments(config: AttrsInstance, kind: type[AttrsInstance] | None = None) -> dict[str, Any]:
    """Return all options as keyword arguments, or only those of a base class `kind`."""
    return {option.name: getattr(config, option.name) for option in attrs.fields(kind or type(config))}


def factory_of(kind: Callable[..., Made], **fixed: object) -> Callable[..., Made]:
    """Return a component factory that calls `kind` with all options and the fixed arguments."""

    def make(config: AttrsInstance, *, build: object = None) -> Made:  # noqa: ARG001 - only mixtures use it
        return kind(**option_arguments(config), **fixed)

    return make
