"""Screening of models [DIS §3.3]: the candidates of a group play each other, and the best are selected.

The models of a player are divided into groups of equal size, in the order in which they were frozen. Once all pairs of
a group have enough rating matches, its best models by rating are superior: they enter the pool ``PLAYER/superior`` for
good. So the first group without a member there is the present one. Superior models of all players also enter one top
pool; once all pairs there have enough matches, only the best stay. `Tournament` chooses the rating matches, and the
rule `Superior` moves the models between pools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView, PoolChange

from ludus_matchmakers.self_play import LatestSelfPlay
from ludus_matchmakers.tools import check_players, seat_pair


@define(kw_only=True)
class Screening:
    """Groups of models that are rated against each other.

    Args:
        players: Players whose models are screened; empty: all.
        candidates: Models per group.
        top: Number of superior models per group, and of models that stay in the top pool.
        enough_matches: Rating matches that every pair needs.
        best: Name of the top pool.
        rank_by: Statistic by which models are ranked, see `ranked`.
    """

    players: Sequence[str] = ()
    candidates: int = 10
    top: int = 3
    enough_matches: int = 20
    best: str = "top"
    rank_by: str = ""

    def screened_players(self, league: LeagueView) -> tuple[str, ...]:
        """Return the players whose models are screened."""
        return check_players(league, self.players) or tuple(league.players)

    def group(self, league: LeagueView, player: str) -> tuple[str, ...]:
        """Return the present group of a player; empty before there are enough models."""
        models, superior = league.players[player].models, set(league.pool(f"{player}/superior"))
        for start in range(0, len(models) - self.candidates + 1, self.candidates):
            group = models[start : start + self.candidates]
            if superior.isdisjoint(group):
                return group
        return ()

    def top_models(self, league: LeagueView) -> Iterator[tuple[str, ...]]:
        """Yield the members of the top pool, grouped by team."""
        members = league.pool(self.best)
        for team in dict.fromkeys(map(league.team, members)):
            yield tuple(model for model in members if league.team(model) == team)

    def pairs(self, league: LeagueView, group: Sequence[str]) -> list[tuple[str, str]]:
        """Return the pairs to rate: all pairs of the group; in an asymmetric game, with the groups of other sides."""
        if not group:
            return []
        team = league.team(group[0])
        if team is None:
            return list(combinations(group, 2))
        sides = [name for name, view in league.players.items() if view.team != team]
        met = [model for name in sides for model in self.group(league, name) or self._last_group(league, name)]
        return [(model, other) for model in group for other in met]

    def _last_group(self, league: LeagueView, player: str) -> tuple[str, ...]:
        """Return the last full group of a player, or all of its models before there is one."""
        models = league.players[player].models
        end = len(models) // self.candidates * self.candidates
        return models[end - self.candidates : end] if end else models

    def least_rated(self, league: LeagueView, group: Sequence[str]) -> tuple[float, list[tuple[str, str]]]:
        """Return the smallest number of matches of a pair of a group, and the pairs that have it."""
        pairs = self.pairs(league, group)
        if not pairs:
            return np.inf, []
        rows = {
            first: tuple(other for one, other in pairs if one == first) for first in dict.fromkeys(p[0] for p in pairs)
        }
        matches = np.concatenate([league.payoff(first, others).sum(axis=1) for first, others in rows.items()])
        return float(matches.min()), [pairs[i] for i in np.flatnonzero(matches == matches.min())]

    def is_rated(self, league: LeagueView, group: Sequence[str]) -> bool:
        """Return whether a group has pairs, and all of them have enough matches."""
        fewest, pairs = self.least_rated(league, group)
        return bool(pairs) and fewest >= self.enough_matches

    def select(self, league: LeagueView, models: Sequence[str]) -> list[str]:
        """Return the superior ones of some models, best first."""
        return ranked(league, models, by=self.rank_by)[: self.top]


def ranked(league: LeagueView, models: Sequence[str], *, by: str = "") -> list[str]:
    """Return models sorted by rating or by a statistic, best first; among equals the newer one comes first.

    Args:
        league: The league.
        models: The models, oldest first.
        by: ``"ROLE/NAME"`` of a statistic, with a ``"-"`` before it if less is better; empty: the rating. Models
            without the statistic come last.
    """
    age = {model: i for i, model in enumerate(models)}
    sign, name = (-1.0, by[1:]) if by.startswith("-") else (1.0, by)

    def merit(model: str) -> float:
        if not name:
            return league.rating(model).mean
        found = league.statistics(model).get(name)
        return -np.inf if found is None else sign * found.mean

    return sorted(models, key=lambda model: (-merit(model), -age[model]))


@define
class Tournament(LatestSelfPlay):
    """Rates candidates against each other, for the rule ``superior``; otherwise the same as latest self-play.

    Args:
        screening: Groups of models that are rated against each other.
    """

    screening: Screening = field(factory=Screening, kw_only=True)

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return a pair of a group with the fewest matches; None if no group needs matches."""
        groups = [self.screening.group(league, name) for name in self.screening.screened_players(league)]
        groups += [leaders for leaders in self.screening.top_models(league) if len(leaders) > self.screening.top]
        open_pairs = [self.screening.least_rated(league, group) for group in groups if group]
        under_way = [
            (fewest, pairs) for fewest, pairs in open_pairs if pairs and fewest < self.screening.enough_matches
        ]
        if not under_way:
            return None
        _, pairs = under_way[int(rng.integers(len(under_way)))]
        return seat_pair(league, *pairs[int(rng.integers(len(pairs)))])


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
                changes += self._admit(league, player, self.screening.select(league, group))
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
        best = self.screening.select(league, models)
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
