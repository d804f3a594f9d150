"""Several matchmakers, each with a share of the matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, Matchmaker, Pairing, PoolChange

from ludus_matchmakers.common import Keeper


@define
class Mixture(Keeper):
    """Asks one of several matchmakers for every fixture.

    Frozen models enter and leave pools as any of the parts says, but for the pool named after their player: of that
    one the mixture keeps as many as its own capacity says.

    Args:
        parts: Matchmakers by name.
        weights: Share of each, in any unit.
    """

    parts: Mapping[str, Matchmaker] = field(kw_only=True)
    weights: Mapping[str, float] = field(kw_only=True)

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return the answer of one part, with its name in the reason."""
        names = list(self.weights)
        shares = np.array([self.weights[name] for name in names], np.float64)
        name = names[int(rng.choice(len(names), p=shares / shares.sum()))]
        pairing = self.parts[name].next_fixture(league, player, rng)
        reason = pairing.reason if pairing.reason.startswith(name) else f"{name}: {pairing.reason}"
        return attrs.evolve(pairing, reason=f"mixture → {reason}")

    def on_model_frozen(self, league: LeagueView, player: str, model: str) -> Sequence[PoolChange]:
        """Return the changes of all parts, each once, without theirs to the pool named after the player."""
        changes = dict.fromkeys(Keeper.on_model_frozen(self, league, player, model))
        for part in self.parts.values():
            changes |= dict.fromkeys(
                change for change in part.on_model_frozen(league, player, model) if change.pool != player
            )
        return list(changes)
