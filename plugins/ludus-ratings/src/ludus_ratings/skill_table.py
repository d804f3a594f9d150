"""The rating ``openskill``: every evaluation match of a league in the order of the log, teams of any size and number.

A skill mu ± sigma becomes the rating (mu - 25) · f ± sigma · f with f = 400 / (ln 10 · √2 · beta) = 29.5. Between two
participants with many matches these are Elo points. Every participant, anchors included, starts from 0 ± 246.

In a game whose teams have different roles every anchor has one skill per side. A rating is the difference to the anchor
``random`` of the same side, else to the first anchor, else to the mean of the side: the advantage of a side is in both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING

from ludus.errors import ConfigError
from ludus.matchmaker import Rating, rated_names, team_sides

from ludus_ratings.elo import ELO_POINTS
from ludus_ratings.sides import Sides
from ludus_ratings.skill import Skill, Skills, TeamMatch

if TYPE_CHECKING:
    import numpy as np
    from ludus.environment import Seat
    from ludus.runs import MatchRecord


class SkillTable:
    """Rating table of skills by openskill's Plackett-Luce model.

    It keeps the skills of the participants before every fixture, so that it can replay the log from any fixture on.

    Args:
        config: There are no options.
        anchors: The rated anchors, see `ludus.matchmaker.rated_anchors`.
        seats: Seats of a match.
        sides: Side by player; a player without a side belongs to the only one.

    Raises:
        ConfigError: openskill is not installed.
    """

    def __init__(
        self,
        config: None = None,  # noqa: ARG002
        *,
        anchors: Sequence[str] = (),
        seats: Sequence[Seat],
        sides: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        try:
            self._skills = Skills()
        except ModuleNotFoundError as error:
            raise ConfigError("rating openskill: needs the package openskill; pip install openskill") from error
        self._seats, self._teams = seats, [seat.team for seat in seats]
        self._sides, self._differ = Sides(anchors, sides), any(team_sides(seats))
        self._zeros: dict[str, Skill] = {}  # by side: the skill that is rated 0; cleared by every match
        self._points = ELO_POINTS / (math.sqrt(2.0) * self._skills.beta)
        self._before: list[tuple[int, dict[str, Skill | None]]] = []  # by fixture, in order: its id, skills before it

    def add(self, a: str, b: str, count: np.ndarray) -> None:
        """Ignore the counts: skills depend on the order of the matches."""

    def replay(self, first: int, matches: Iterable[MatchRecord]) -> None:
        """Restore the skills before fixture `first`, and rate the matches from there on."""
        self._restore(first)
        self._zeros.clear()
        by_name = self._skills.by_name
        for match in matches:
            fixture = match.fixture
            if any(name.endswith("+") for name in fixture.participants):
                continue
            names = rated_names(fixture.participants, self._seats)
            if not self._before or self._before[-1][0] != fixture.id:
                self._before.append((fixture.id, {name: by_name.get(name) for name in names}))
            self._skills.rate(TeamMatch.from_seats(self._teams, names, match.outcome))

    def _restore(self, first: int) -> None:
        """Restore the skills before fixture `first`."""
        while self._before and self._before[-1][0] >= first:
            for name, skill in self._before.pop()[1].items():
                if skill is None:
                    self._skills.by_name.pop(name, None)
                else:
                    self._skills.by_name[name] = skill

    def rating(self, participant: str) -> Rating:
        """Return a rating in points."""
        skill = self._skills.by_name.get(participant, self._skills.initial)
        zero = self._zero(self._sides.side(participant)) if self._differ and skill.matches else self._skills.initial
        if participant == self._sides.reference(participant) and self._differ:
            return Rating(0.0, 0.0, skill.matches)
        deviation = math.hypot(skill.sigma, zero.sigma if zero.matches else 0.0)
        return Rating((skill.mu - zero.mu) * self._points, deviation * self._points, skill.matches)

    def _zero(self, side: str) -> Skill:
        """Return the skill that is rated 0 on a side: that of its reference, or else the mean of the side."""
        if side not in self._zeros:
            by_name = self._skills.by_name
            mean = fmean(skill.mu for name, skill in by_name.items() if self._sides.side(name) == side)
            self._zeros[side] = by_name.get(self._sides.references.get(side, ""), Skill(mean, 0.0, 0))
        return self._zeros[side]
