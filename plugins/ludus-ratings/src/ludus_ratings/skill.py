"""Ratings for teams of any size and number by openskill's Plackett-Luce model; needs the package ``openskill``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from openskill.models import PlackettLuceRating

__all__ = ["Skill", "TeamMatch", "openskill_ratings"]


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


@frozen
class Skill:
    """A rating: mean `mu` (25 at first), deviation `sigma` (25/3 at first), and the matches that it rests on."""

    mu: float
    sigma: float
    matches: int


def openskill_ratings(matches: Iterable[TeamMatch]) -> Mapping[str, Skill]:
    """Rate everybody who has played, match by match.

    A match in which somebody sits in two teams tells nothing and is left out. Without matches nobody is rated; who
    wins all of them rises more and more slowly; parts that no chain of matches connects have nothing in common but
    the mean that they started from.

    Raises:
        ModuleNotFoundError: openskill is not installed (``pip install ludus-ratings[openskill]``).
    """
    from openskill.models import PlackettLuce  # noqa: PLC0415 - optional, and half a second to import

    model = PlackettLuce()
    known: dict[str, PlackettLuceRating] = {}
    played: dict[str, int] = {}
    for match in matches:
        sides = [sorted(set(team)) for team in match.teams]
        names = [name for side in sides for name in side]
        if len(set(names)) < len(names):
            continue
        before = [[known.get(name) or model.rating(name=name) for name in side] for side in sides]
        after = model.rate(before, ranks=[-points for points in match.outcome])
        for side, team in zip(sides, after, strict=True):
            for name, rating in zip(side, team, strict=True):
                known[name] = rating
                played[name] = played.get(name, 0) + 1
    return {name: Skill(rating.mu, rating.sigma, played[name]) for name, rating in known.items()}
