"""The rule that judges tournaments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, PoolChange

from ludus_matchmakers.screening import Screening, ranked
from ludus_matchmakers.tools import known_players


@define(kw_only=True)
class Superior:
    """Lets the best candidates enter pools, and the best of those wait for a person [DIS §3.3].

    The best of a group that has been played enter ``PLAYER/superior`` (SMP), the shared pools (DPMP, DMMP) and the top
    pool. Once the top pool has been played only its best stay, and they wait in the pool of the finalists.

    Args:
        screening: Who is screened together.
        shared: Pools, each with the players that share it; none: all.
        final: Name of the pool of the finalists.
        judged: Pools of models that do not wait any more.
    """

    screening: Screening = field(factory=Screening)
    shared: Mapping[str, Sequence[str]]
    final: str = "final"
    judged: Sequence[str] = ("promoted", "rejected")

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[PoolChange]:  # noqa: ARG002 - the contract
        """Return how pools change; at first the top pool, then what groups add to it.

        Raises:
            ConfigError: A shared pool names a player that there is not.
        """
        for names in self.shared.values():
            known_players(league, names)
        changes = [change for leaders in self.screening.leaders(league) for change in self._judge(league, leaders)]
        for player in self.screening.names(league):
            group = self.screening.group(league, player)
            if self.screening.played(league, group):
                changes += self._admit(league, player, ranked(league, group)[: self.screening.top])
        return changes

    def _admit(self, league: LeagueView, player: str, models: Sequence[str]) -> Iterator[PoolChange]:
        """Return the changes by which superior models enter the pools that they are not in."""
        shared = [pool for pool, names in self.shared.items() if player in (names or (player,))]
        for pool in dict.fromkeys((f"{player}/superior", *shared, self.screening.best)):
            members = league.pool(pool)
            yield from (PoolChange(pool=pool, model=model, enters=True) for model in models if model not in members)

    def _judge(self, league: LeagueView, leaders: Sequence[str]) -> Iterator[PoolChange]:
        """Return who leaves the top pool, and who waits for a person."""
        if len(leaders) > self.screening.top and not self.screening.played(league, leaders):
            return
        best = ranked(league, leaders)[: self.screening.top]
        for model in leaders:
            if model not in best:
                yield PoolChange(pool=self.screening.best, model=model, enters=False)
        waiting, done = league.pool(self.final), {model for pool in self.judged for model in league.pool(pool)}
        team = league.team(leaders[0])
        for model in waiting:
            if league.team(model) == team and (model not in best or model in done):
                yield PoolChange(pool=self.final, model=model, enters=False)
        for model in best:
            if model not in waiting and model not in done:
                yield PoolChange(pool=self.final, model=model, enters=True)
