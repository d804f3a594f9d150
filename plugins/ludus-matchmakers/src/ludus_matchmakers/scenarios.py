"""Scenarios on top of another matchmaker: environment randomisation and specific scenario training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from attrs import define, field
from ludus.environment import Scenario
from ludus.matchmaker import LeagueView, Matchmaker, Pairing, PoolChange

from ludus_matchmakers.balance import newest_win_rate, opposing_players, recent_win_rate
from ludus_matchmakers.config import Modifier
from ludus_matchmakers.tools import check_players


@define
class Scenarios:
    """Adds scenarios to the fixtures of another matchmaker [AET §3.3, DIS §3.2.4].

    Every modifier whose condition holds is drawn independently with its probability. With `combine` that scenario is
    played with the parameters of all drawn modifiers; later ones override earlier ones. Otherwise one of the drawn
    scenarios is played, with the parameters of the modifiers that name it.

    A side is weaker while it loses more than it may by `balanced`, over the whole period and in recent matches of live
    weights: modifiers begin once the sides have been unbalanced for a period, and end as soon as they are balanced.

    Args:
        inner: Chooses opponents, rating matches and pool changes.
        play: The modifiers.
        combine: Scenario that accepts the parameters of all modifiers; empty: there is none.
        period_s: Period in seconds of training; 0: since the newest `models` of each side.
        models: Newest models of each side that count for the balance without `period_s`, besides the live weights.
        balanced: Sides are balanced while their win rates differ from ½ by at most this.
        enough_matches: Matches between the sides below which no side counts as weaker.
    """

    inner: Matchmaker = field(kw_only=True)
    play: Sequence[Modifier] = field(kw_only=True)
    combine: str = field(default="", kw_only=True)
    period_s: float = field(default=0.0, kw_only=True)
    models: int = field(default=3, kw_only=True)
    balanced: float = field(default=0.1, kw_only=True)
    enough_matches: float = field(default=20, kw_only=True)

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return the pairing of the inner matchmaker, with a scenario if one is drawn.

        Raises:
            ConfigError: A modifier names an unknown player.
        """
        check_players(league, [one.weaker for one in self.play if one.weaker])
        pairing = self.inner.next_fixture(league, player, rng)
        drawn = [one for one in self.play if rng.random() < one.probability and self._applies(league, one)]
        return self._modify(pairing, drawn, rng) if drawn else pairing

    def _modify(self, pairing: Pairing, drawn: Sequence[Modifier], rng: np.random.Generator) -> Pairing:
        """Return a pairing with all drawn modifiers, or with those that name one of the drawn scenarios."""
        if self.combine:
            return _with_scenario(pairing, self.combine, drawn, rng)
        names = list(dict.fromkeys(one.scenario for one in drawn))
        name = names[int(rng.integers(len(names)))]
        return _with_scenario(pairing, name, [one for one in drawn if one.scenario == name], rng)

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return the pair of the inner matchmaker; rating matches have no scenario."""
        return self.inner.next_evaluation(league, rng)

    def on_model_frozen(self, league: LeagueView, player: str, model: str) -> Sequence[PoolChange]:
        """Return the pool changes of the inner matchmaker."""
        return self.inner.on_model_frozen(league, player, model)

    def _applies(self, league: LeagueView, modifier: Modifier) -> bool:
        if not modifier.weaker:
            return True
        if league.elapsed_s < self.period_s:
            return False
        side, others = modifier.weaker, opposing_players(league, modifier.weaker)
        since_s = league.elapsed_s - self.period_s if self.period_s else None
        over_period = newest_win_rate(league, side, others, models=self.models, since_s=since_s)
        recent = recent_win_rate(league, side, others)
        return all(
            matches >= self.enough_matches and rate < 0.5 - self.balanced for rate, matches in (over_period, recent)
        )


def _with_scenario(pairing: Pairing, name: str, modifiers: Sequence[Modifier], rng: np.random.Generator) -> Pairing:
    """Return a pairing with the scenario of some modifiers, whose parameters are merged."""
    parameters: dict[str, float] = {}
    for modifier in modifiers:
        parameters |= _draw_parameters(modifier.parameters, rng)
        if modifier.cases:
            parameters |= _draw_parameters(modifier.cases[int(rng.integers(len(modifier.cases)))], rng)
    weaker = dict.fromkeys(modifier.weaker for modifier in modifiers if modifier.weaker)
    names = " + ".join(dict.fromkeys(modifier.scenario for modifier in modifiers))
    reason = f"{names} while {', '.join(weaker)} loses" if weaker else names
    scenario = Scenario(name=name, parameters=parameters)
    return attrs.evolve(pairing, scenario=scenario, reason=f"{pairing.reason}; scenario {reason}")


def _draw_parameters(parameters: Mapping[str, float | tuple[float, ...]], rng: np.random.Generator) -> dict[str, float]:
    """Return the parameters with a uniform draw for every range, a whole number if both ends are integers."""
    numbers: dict[str, float] = {}
    for name, value in parameters.items():
        low, high = value if isinstance(value, tuple) else (value, value)
        if isinstance(low, int) and isinstance(high, int):
            numbers[name] = int(rng.integers(low, high + 1))
        else:
            numbers[name] = float(rng.uniform(low, high))
    return numbers
