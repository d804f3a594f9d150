"""The rating ``openskill``: every evaluation match of a league in the order of the log, teams of any size and number.

A skill mu ± sigma is told as (mu - 25) · f ± sigma · f with f = 400 / (ln 10 · √2 · beta) = 29.5. These are Elo points
between two who are known well. Everybody, anchors included, starts from 0 ± 246.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ludus.errors import ConfigError
from ludus.matchmaker import Rating

from ludus_ratings.elo import ELO_POINTS
from ludus_ratings.skill import Skill, Skills, TeamMatch

if TYPE_CHECKING:
    import numpy as np
    from ludus.environment import Seat
    from ludus.runs import MatchRecord

__all__ = ["SkillTable"]


class SkillTable:
    """Skills by openskill's Plackett-Luce model.

    Before every fixture it keeps what it knew of the participants, so that it can go back to the time before.

    Args:
        config: There are no options.
        anchors: Of no account: they are rated like everybody else.
        seats: Those of a match.

    Raises:
        ConfigError: openskill is not installed.
    """

    def __init__(self, config: None = None, *, anchors: Sequence[str] = (), seats: Sequence[Seat]) -> None:  # noqa: ARG002
        try:
            self._skills = Skills()
        except ModuleNotFoundError as error:
            raise ConfigError("rating openskill: needs the package openskill; pip install openskill") from error
        self._teams = [seat.team for seat in seats]
        self._points = ELO_POINTS / (math.sqrt(2.0) * self._skills.beta)
        self._before: list[tuple[int, dict[str, Skill | None]]] = []  # fixtures in order, and what they began with

    def add(self, a: str, b: str, count: np.ndarray) -> None:
        """Do nothing: sums have no order."""

    def replay(self, first: int, matches: Iterable[MatchRecord]) -> None:
        """Take the log from a fixture on, instead of what was known of it."""
        while self._before and self._before[-1][0] >= first:
            for name, skill in self._before.pop()[1].items():
                if skill is None:
                    self._skills.known.pop(name, None)
                else:
                    self._skills.known[name] = skill
        for match in matches:
            fixture = match.fixture
            if any(name.endswith("+") for name in fixture.participants):
                continue
            if not self._before or self._before[-1][0] != fixture.id:
                self._before.append((fixture.id, {name: self._skills.known.get(name) for name in fixture.participants}))
            self._skills.rate(TeamMatch.seated(self._teams, fixture.participants, match.outcome))

    def rating(self, participant: str) -> Rating:
        """Return a rating in points."""
        start = self._skills.unknown
        skill = self._skills.known.get(participant, start)
        return Rating((skill.mu - start.mu) * self._points, skill.sigma * self._points, skill.matches)
