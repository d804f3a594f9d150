"""Scenarios on top of another matchmaker: environment randomisation and specific scenario training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from attrs import define, field
from ludus.environment import Scenario
from ludus.matchmaker import LeagueView, Matchmaker, Pairing, PoolChange

from ludus_matchmakers.balance import pooled_rate, rivals
from ludus_matchmakers.config import Modifier
from ludus_matchmakers.tools import known_players


@define
class Scenarios:
    """Plays what another matchmaker says, with scenarios [AET §3.3, DIS §3.2.4].

    Every modifier whose condition holds is drawn with its probability, by itself. Of the scenarios that were drawn one
    is played, with the parameters of all modifiers drawn that name it, later ones over earlier ones.

    Args:
        inner: Chooses the opponents, pairs to rate, and pools.
        play: The modifiers.
        models: Newest models of each side, besides the live weights, by which the balance is measured.
        balanced: Sides are balanced while their win rates differ from ½ by no more than this.
        enough: Matches between the sides before anybody counts as weaker.
    """

    inner: Matchmaker = field(kw_only=True)
    play: Sequence[Modifier] = field(kw_only=True)
    models: int = field(default=3, kw_only=True)
    balanced: float = field(default=0.1, kw_only=True)
    enough: float = field(default=20, kw_only=True)

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return the pairing of the inner matchmaker, with a scenario where one is drawn.

        Raises:
            ConfigError: A modifier waits for a player that there is not.
        """
        known_players(league, [one.weaker for one in self.play if one.weaker])
        pairing = self.inner.next_fixture(league, player, rng)
        drawn = [one for one in self.play if rng.random() < one.probability and self._applies(league, one)]
        if not drawn:
            return pairing
        names = list(dict.fromkeys(one.scenario for one in drawn))
        name = names[int(rng.integers(len(names)))]
        parameters: dict[str, float] = {}
        for one in drawn:
            if one.scenario == name:
                parameters |= _drawn(one.parameters, rng)
        weaker = dict.fromkeys(one.weaker for one in drawn if one.scenario == name and one.weaker)
        why = f"{name} while {', '.join(weaker)} loses" if weaker else name
        scenario = Scenario(name=name, parameters=parameters)
        return attrs.evolve(pairing, scenario=scenario, reason=f"{pairing.reason}; scenario {why}")

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return what the inner matchmaker says: ratings are those of the unchanged game."""
        return self.inner.next_evaluation(league, rng)

    def on_model_frozen(self, league: LeagueView, player: str, model: str) -> Sequence[PoolChange]:
        """Return what the inner matchmaker says."""
        return self.inner.on_model_frozen(league, player, model)

    def _applies(self, league: LeagueView, modifier: Modifier) -> bool:
        if not modifier.weaker:
            return True
        others = rivals(league, modifier.weaker)
        rate, matches = pooled_rate(league, modifier.weaker, others, models=self.models)
        return matches >= self.enough and rate < 0.5 - self.balanced


def _drawn(parameters: Mapping[str, float | tuple[float, ...]], rng: np.random.Generator) -> dict[str, float]:
    """Return numbers: those given, and one from every range; a whole one where both ends are integers."""
    numbers: dict[str, float] = {}
    for name, value in parameters.items():
        low, high = value if isinstance(value, tuple) else (value, value)
        if isinstance(low, int) and isinstance(high, int):
            numbers[name] = int(rng.integers(low, high + 1))
        else:
            numbers[name] = float(rng.uniform(low, high))
    return numbers
