"""The rule that moves models between pools by the results of tournaments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, PoolChange

from ludus_matchmakers.screening import Screening, ranked
from ludus_matchmakers.tools import check_players


@define(kw_only=True)
class Superior:
    """Adds the best candidates to pools, and the best of those to the pool of finalists [DIS §3.3].

    The best models of a fully rated group enter ``PLAYER/superior`` (SMP), the shared pools (DPMP, DMMP) and the top
    pool. Once the top pool is fully rated, only its best models stay, and these enter the pool of finalists, where they
    wait for the judgement of a person.

    Args:
        screening: Groups of models that are rated against each other.
        shared: Players by shared pool; none: all players.
        final: Name of the pool of finalists.
        judged: Pools of judged models, which are no finalists.
    """

    screening: Screening = field(factory=Screening)
    shared: Mapping[str, Sequence[str]]
    final: str = "final"
    judged: Sequence[str] = ("promoted", "rejected")

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[PoolChange]:  # noqa: ARG002 - the contract
        """Return the changes of pools: first those of the top pool and the finalists, then new superior models.

        Raises:
            ConfigError: A shared pool names an unknown player.
        """
        for names in self.shared.values():
            check_players(league, names)
        changes = [change for models in self.screening.top_models(league) for change in self._promote(league, models)]
        for player in self.screening.screened_players(league):
            group = self.screening.group(league, player)
            if self.screening.is_rated(league, group):
                changes += self._admit(league, player, ranked(league, group)[: self.screening.top])
        return changes

    def _admit(self, league: LeagueView, player: str, models: Sequence[str]) -> Iterator[PoolChange]:
        """Yield the changes by which superior models enter pools that they are not in."""
        shared = [pool for pool, names in self.shared.items() if player in (names or (player,))]
        for pool in dict.fromkeys((f"{player}/superior", *shared, self.screening.best)):
            members = league.pool(pool)
            yield from (PoolChange(pool=pool, model=model, enters=True) for model in models if model not in members)

    def _promote(self, league: LeagueView, models: Sequence[str]) -> Iterator[PoolChange]:
        """Yield the changes by which only the best of the top pool stay there, and enter the finalists."""
        if len(models) > self.screening.top and not self.screening.is_rated(league, models):
            return
        best = ranked(league, models)[: self.screening.top]
        yield from _leave(self.screening.best, [model for model in models if model not in best])
        judged = {model for pool in self.judged for model in league.pool(pool)}
        yield from self._replace_finalists(league, league.team(models[0]), [m for m in best if m not in judged])

    def _replace_finalists(
        self, league: LeagueView, team: int | None, finalists: Sequence[str]
    ) -> Iterator[PoolChange]:
        """Yield the changes that make the finalists of a team those given."""
        present = [model for model in league.pool(self.final) if league.team(model) == team]
        yield from _leave(self.final, [model for model in present if model not in finalists])
        for model in finalists:
            if model not in present:
                yield PoolChange(pool=self.final, model=model, enters=True)


def _leave(pool: str, models: Sequence[str]) -> Iterator[PoolChange]:
    for model in models:
        yield PoolChange(pool=pool, model=model, enters=False)
