"""The rating ``openskill``: every evaluation match of a league in the order of the log, teams of any size and number.

A skill mu ± sigma becomes the rating (mu - 25) · f ± sigma · f with f = 400 / (ln 10 · √2 · beta) = 29.5. Between two
participants with many matches these are Elo points. Every participant, anchors included, starts from 0 ± 246.
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


class SkillTable:
    """Rating table of skills by openskill's Plackett-Luce model.

    It keeps the skills of the participants before every fixture, so that it can replay the log from any fixture on.

    Args:
        config: There are no options.
        anchors: Ignored; anchors are rated like all participants.
        seats: Seats of a match.

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
        self._before: list[tuple[int, dict[str, Skill | None]]] = []  # by fixture, in order: its id, skills before it

    def add(self, a: str, b: str, count: np.ndarray) -> None:
        """Ignore the counts: skills depend on the order of the matches."""

    def replay(self, first: int, matches: Iterable[MatchRecord]) -> None:
        """Restore the skills before fixture `first`, and rate the matches from there on."""
        self._restore(first)
        by_name = self._skills.by_name
        for match in matches:
            fixture = match.fixture
            if any(name.endswith("+") for name in fixture.participants):
                continue
            if not self._before or self._before[-1][0] != fixture.id:
                self._before.append((fixture.id, {name: by_name.get(name) for name in fixture.participants}))
            self._skills.rate(TeamMatch.from_seats(self._teams, fixture.participants, match.outcome))

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
        initial = self._skills.initial
        skill = self._skills.by_name.get(participant, initial)
        return Rating((skill.mu - initial.mu) * self._points, skill.sigma * self._points, skill.matches)
