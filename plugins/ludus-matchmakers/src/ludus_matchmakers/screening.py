"""Screening of models [DIS §3.3]: candidates of a group play each other, and the best stay.

The models of a player are screened in groups of so many, in the order in which they were frozen. Once all pairs of a
group have enough rating matches, its best by rating are superior: they enter the pool ``PLAYER/superior`` for good. So
the first group without a member there is the one to be played. Superior models of all players also enter one top pool;
once all pairs there have enough matches only the best of it stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from attrs import define, field
from ludus.matchmaker import LeagueView

from ludus_matchmakers.self_play import LatestSelfPlay
from ludus_matchmakers.tools import known_players, seat_pair

__all__ = ["Screening", "Tournament", "ranked"]


@define(kw_only=True)
class Screening:
    """Which models are screened together.

    Args:
        players: Whose models; empty: everybody's.
        candidates: Models of a group.
        top: How many of a group are superior, and how many stay in the top pool.
        enough: Rating matches of every pair.
        best: Name of the top pool.
    """

    players: Sequence[str] = ()
    candidates: int = 10
    top: int = 3
    enough: int = 20
    best: str = "top"

    def names(self, league: LeagueView) -> tuple[str, ...]:
        """Return the players whose models are screened."""
        return known_players(league, self.players) or tuple(league.players)

    def group(self, league: LeagueView, player: str) -> tuple[str, ...]:
        """Return the models of a player that are candidates now; empty before there are enough."""
        models, superior = league.players[player].models, set(league.pool(f"{player}/superior"))
        for start in range(0, len(models) - self.candidates + 1, self.candidates):
            group = models[start : start + self.candidates]
            if superior.isdisjoint(group):
                return group
        return ()

    def leaders(self, league: LeagueView) -> Iterator[tuple[str, ...]]:
        """Return the members of the top pool, those that can fill the same team together."""
        members = league.pool(self.best)
        for team in dict.fromkeys(map(league.team, members)):
            yield tuple(model for model in members if league.team(model) == team)

    def pairs(self, league: LeagueView, group: Sequence[str]) -> list[tuple[str, str]]:
        """Return who must play whom: every two of the group, or all of it and the candidates of the other sides."""
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

    def fewest(self, league: LeagueView, group: Sequence[str]) -> tuple[float, list[tuple[str, str]]]:
        """Return the least number of matches between the pairs of a group, and which pairs have it."""
        pairs = self.pairs(league, group)
        if not pairs:
            return np.inf, []
        rows = {
            first: tuple(other for one, other in pairs if one == first) for first in dict.fromkeys(p[0] for p in pairs)
        }
        matches = np.concatenate([league.payoff(first, others).sum(axis=1) for first, others in rows.items()])
        return float(matches.min()), [pairs[i] for i in np.flatnonzero(matches == matches.min())]

    def played(self, league: LeagueView, group: Sequence[str]) -> bool:
        """Return whether all pairs of a group have enough matches, and there are any."""
        fewest, pairs = self.fewest(league, group)
        return bool(pairs) and fewest >= self.enough


def ranked(league: LeagueView, models: Sequence[str]) -> list[str]:
    """Return models from the best to the worst by rating; of equal ones the newer one is better."""
    age = {model: i for i, model in enumerate(models)}
    return sorted(models, key=lambda model: (-league.rating(model).mean, -age[model]))


@define
class Tournament(LatestSelfPlay):
    """Rates candidates against each other, for the rule ``superior``; trains as latest self-play does.

    Args:
        screening: Who is screened together.
    """

    screening: Screening = field(factory=Screening, kw_only=True)

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return a pair of one group with the fewest matches; None while no group is under way."""
        groups = [self.screening.group(league, name) for name in self.screening.names(league)]
        groups += [leaders for leaders in self.screening.leaders(league) if len(leaders) > self.screening.top]
        open_pairs = [self.screening.fewest(league, group) for group in groups if group]
        under_way = [(fewest, pairs) for fewest, pairs in open_pairs if pairs and fewest < self.screening.enough]
        if not under_way:
            return None
        _, pairs = under_way[int(rng.integers(len(under_way)))]
        return seat_pair(league, *pairs[int(rng.integers(len(pairs)))])
