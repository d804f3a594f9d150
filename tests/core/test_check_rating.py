"""`check_rating` reports broken rating methods."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.errors import ContractError
from ludus.matchmaker import Rating
from ludus.testing import check_rating


class Wins:
    """A valid method: wins less losses. The subclasses are broken."""

    def __init__(self, *, anchors, seats, sides):
        self.counts = {}

    def add(self, a, b, count):
        """Add a result."""
        self.counts[a] = self.counts.get(a, np.zeros(3, int)) + count

    def replay(self, first, matches):
        """Do nothing."""

    def rating(self, participant):
        """Return wins less losses."""
        won, drawn, lost = self.counts.get(participant, (0, 0, 0))
        return Rating(float(won - lost), 1.0, int(won + drawn + lost))


class Forgetful(Wins):
    """Scales old results down."""

    def add(self, a, b, count):
        super().add(a, b, count)
        self.counts[a] = self.counts[a] * 0.999


class CountsReplaysTwice(Wins):
    """Adds replayed results again."""

    def add(self, a, b, count):
        pass

    def replay(self, first, matches):
        for match in matches:
            a, b = match.fixture.participants
            count = np.array([match.outcome[0], 0, match.outcome[1]], int)
            super().add(a, b, count)
            super().add(b, a, count[::-1])


class Reversed(Wins):
    """Rates the worst participant best."""

    def rating(self, participant):
        rating = super().rating(participant)
        return Rating(-rating.mean, rating.deviation, rating.matches)


class Vague(Wins):
    """Returns negative deviations."""

    def rating(self, participant):
        rating = super().rating(participant)
        return Rating(rating.mean, -1.0, rating.matches)


class Unbounded(Wins):
    """Returns NaN."""

    def rating(self, participant):
        rating = super().rating(participant)
        return Rating(rating.mean * float("nan"), rating.deviation, rating.matches)


class Unsure(Wins):
    """Returns infinite deviations."""

    def rating(self, participant):
        rating = super().rating(participant)
        return Rating(rating.mean, float("inf") if participant == "new" else 1.0, rating.matches)


class Bare(Wins):
    """Returns a number."""

    def rating(self, participant):
        return super().rating(participant).mean


def test_a_valid_method_passes():
    """No error is raised."""
    check_rating(Wins)


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (Forgetful, "depend on the order"),
        (CountsReplaysTwice, "depend on the order"),
        (Reversed, "weak < even < strong"),
        (Vague, r"^rating returned Rating\(.*=-1\.0, .*; expected a finite mean and a finite deviation >= 0"),
        (Unbounded, r"^rating returned Rating\(mean=nan, .*; expected a finite mean"),
        (Unsure, r"^rating returned Rating\(.*=inf, .*; expected a finite mean and a finite deviation >= 0"),
        (Bare, r"^rating returned .*; expected a ludus\.matchmaker\.Rating"),
    ],
)
def test_a_broken_method_is_reported(broken, problem):
    """The message names the problem."""
    with pytest.raises(ContractError, match=problem):
        check_rating(broken)
