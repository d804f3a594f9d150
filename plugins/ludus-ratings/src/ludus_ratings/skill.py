"""Ratings for teams of any size and number by openskill's Plackett-Luce model; needs the package ``openskill``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Any

from attrs import frozen


@frozen
class TeamMatch:
    """One match between teams.

    Attributes:
        teams: Participants of every team. A participant that holds several seats of a team counts once.
        outcome: Points per team; equal points are a tie.
    """

    teams: Sequence[Sequence[str]]
    outcome: Sequence[float]

    @classmethod
    def from_seats(cls, teams: Sequence[int], participants: Sequence[str], outcome: Sequence[float]) -> TeamMatch:
        """Return a match from the team and the participant of every seat."""
        seats = list(zip(teams, participants, strict=True))
        return cls([[name for team, name in seats if team == number] for number in range(len(outcome))], outcome)


@frozen
class Skill:
    """A rating: mean `mu` (initially 25), standard deviation `sigma` (initially 25/3), and number of matches."""

    mu: float
    sigma: float
    matches: int


class Skills:
    """Skills that are updated match by match.

    Attributes:
        by_name: Skill of every participant that has played.
        initial: Skill of all other participants.
        beta: Standard deviation of the performance in one match, in the unit of skills.

    Raises:
        ModuleNotFoundError: openskill is not installed (``pip install ludus-ratings[openskill]``).
    """

    def __init__(self) -> None:
        from openskill.models import PlackettLuce  # noqa: PLC0415 - optional, and half a second to import

        self._model = PlackettLuce()
        self.by_name: dict[str, Skill] = {}
        self.initial = Skill(self._model.mu, self._model.sigma, 0)
        self.beta = self._model.beta

    def rate(self, match: TeamMatch) -> None:
        """Update the skills after a match; one between copies of a single participant is ignored.

        A participant in several teams gets the mean of what these teams give it: with equal skills, no seating then
        favours a participant.
        """
        teams = [sorted(set(team)) for team in match.teams]
        names = list(chain(*teams))
        if len(set(names)) < 2:
            return
        before = [[self._openskill_rating(name) for name in team] for team in teams]
        best_first = sorted(set(match.outcome), reverse=True)
        # Whole numbers, because openskill truncates ranks.
        after = self._model.rate(before, ranks=[best_first.index(points) for points in match.outcome])
        new: dict[str, list[Any]] = {}
        for name, rating in zip(names, chain(*after), strict=True):
            new.setdefault(name, []).append(rating)
        for name, ratings in new.items():
            mu, sigma = fmean(rating.mu for rating in ratings), fmean(rating.sigma for rating in ratings)
            self.by_name[name] = Skill(mu, sigma, self.by_name.get(name, self.initial).matches + 1)

    def _openskill_rating(self, name: str) -> Any:
        skill = self.by_name.get(name, self.initial)
        return self._model.rating(mu=skill.mu, sigma=skill.sigma)


def openskill_ratings(matches: Iterable[TeamMatch]) -> Mapping[str, Skill]:
    """Return the skill of every participant of the matches, updated match by match.

    A participant in several teams of a match gets the mean of what these teams give it; a match between copies of a
    single participant is ignored. A participant that wins all matches rises ever more slowly. Components that no chain
    of matches connects share only the initial mean.

    Raises:
        ModuleNotFoundError: openskill is not installed (``pip install ludus-ratings[openskill]``).
    """
    skills = Skills()
    for match in matches:
        skills.rate(match)
    return skills.by_name
