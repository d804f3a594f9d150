"""Ratings for teams of any size and number by openskill's Plackett-Luce model; needs the package ``openskill``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

__all__ = ["Skill", "Skills", "TeamMatch", "openskill_ratings"]


@frozen
class TeamMatch:
    """One match between teams.

    Attributes:
        teams: The participants of every team. Whoever holds several seats of a team counts once: one against four
            seats of the same model are two sides of one.
        outcome: Points per team; equal points are a tie.
    """

    teams: Sequence[Sequence[str]]
    outcome: Sequence[float]

    @classmethod
    def seated(cls, teams: Sequence[int], participants: Sequence[str], outcome: Sequence[float]) -> TeamMatch:
        """Return a match from the team and the participant of every seat."""
        seats = list(zip(teams, participants, strict=True))
        return cls([[name for team, name in seats if team == number] for number in range(len(outcome))], outcome)


@frozen
class Skill:
    """A rating: mean `mu` (25 at first), deviation `sigma` (25/3 at first), and the matches that it rests on."""

    mu: float
    sigma: float
    matches: int


class Skills:
    """Skills that go up and down with every match.

    Attributes:
        known: Those of everybody who has played, by name; the next match builds on them.
        unknown: That of everybody else.
        beta: How much luck a match holds, in the unit of skills.

    Raises:
        ModuleNotFoundError: openskill is not installed (``pip install ludus-ratings[openskill]``).
    """

    def __init__(self) -> None:
        from openskill.models import PlackettLuce  # noqa: PLC0415 - optional, and half a second to import

        self._model = PlackettLuce()
        self.known: dict[str, Skill] = {}
        self.unknown = Skill(self._model.mu, self._model.sigma, 0)
        self.beta = self._model.beta

    def rate(self, match: TeamMatch) -> None:
        """Learn from a match. One in which somebody sits in two teams tells nothing."""
        sides = [sorted(set(team)) for team in match.teams]
        names = [name for side in sides for name in side]
        if len(set(names)) < len(names):
            return
        before = [[self.known.get(name, self.unknown) for name in side] for side in sides]
        rated = [[self._model.rating(mu=skill.mu, sigma=skill.sigma) for skill in side] for side in before]
        after = self._model.rate(rated, ranks=[-points for points in match.outcome])
        for side, olds, news in zip(sides, before, after, strict=True):
            for name, old, new in zip(side, olds, news, strict=True):
                self.known[name] = Skill(new.mu, new.sigma, old.matches + 1)


def openskill_ratings(matches: Iterable[TeamMatch]) -> Mapping[str, Skill]:
    """Rate everybody who has played, match by match.

    A match in which somebody sits in two teams tells nothing and is left out. Without matches nobody is rated; who
    wins all of them rises more and more slowly; parts that no chain of matches connects have nothing in common but
    the mean that they started from.

    Raises:
        ModuleNotFoundError: openskill is not installed (``pip install ludus-ratings[openskill]``).
    """
    skills = Skills()
    for match in matches:
        skills.rate(match)
    return skills.known
