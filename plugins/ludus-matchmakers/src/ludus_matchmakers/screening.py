"""Screening of models [DIS §3.3]: the candidates of a group play each other, and the best are selected.

The models of a player are divided into groups of equal size, in the order in which they were frozen. Once all pairs of
a group have enough rating matches, its best models by rating are superior: they enter the pool ``PLAYER/superior`` for
good. So the first group without a member there is the present one. Superior models of all players also enter one top
pool; once all pairs there have enough matches, only the best stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView

from ludus_matchmakers.self_play import LatestSelfPlay
from ludus_matchmakers.tools import check_players, seat_pair

__all__ = ["Screening", "Tournament", "ranked"]


@define(kw_only=True)
class Screening:
    """Groups of models that are rated against each other.

    Args:
        players: Players whose models are screened; empty: all.
        candidates: Models per group.
        top: Number of superior models per group, and of models that stay in the top pool.
        enough_matches: Rating matches that every pair needs.
        best: Name of the top pool.
    """

    players: Sequence[str] = ()
    candidates: int = 10
    top: int = 3
    enough_matches: int = 20
    best: str = "top"

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


def ranked(league: LeagueView, models: Sequence[str]) -> list[str]:
    """Return models sorted by rating, best first; among equals the newer one comes first."""
    age = {model: i for i, model in enumerate(models)}
    return sorted(models, key=lambda model: (-league.rating(model).mean, -age[model]))


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
