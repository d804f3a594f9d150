"""A mixture of matchmakers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, Matchmaker, Pairing, PoolChange

from ludus_matchmakers.common import PoolKeeper


@define
class Mixture(PoolKeeper):
    """Draws one of several matchmakers for every fixture.

    Pool changes of all parts are applied, except for the pool of the player, which has the capacity of the mixture.

    Args:
        parts: Matchmakers by name.
        weights: Relative share of the fixtures by matchmaker.
    """

    parts: Mapping[str, Matchmaker] = field(kw_only=True)
    weights: Mapping[str, float] = field(kw_only=True)

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return the pairing of one part, with its name in the reason."""
        names = list(self.weights)
        shares = np.array([self.weights[name] for name in names], np.float64)
        name = names[int(rng.choice(len(names), p=shares / shares.sum()))]
        pairing = self.parts[name].next_fixture(league, player, rng)
        reason = pairing.reason if pairing.reason.startswith(name) else f"{name}: {pairing.reason}"
        return attrs.evolve(pairing, reason=f"mixture → {reason}")

    def on_model_frozen(self, league: LeagueView, player: str, model: str) -> Sequence[PoolChange]:
        """Return the changes of all parts without duplicates and without their changes of the player's pool."""
        changes = dict.fromkeys(PoolKeeper.on_model_frozen(self, league, player, model))
        for part in self.parts.values():
            changes |= dict.fromkeys(
                change for change in part.on_model_frozen(league, player, model) if change.pool != player
            )
        return list(changes)
