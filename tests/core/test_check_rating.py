"""What `check_rating` finds."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.errors import ContractError
from ludus.matchmaker import Rating
from ludus.testing import check_rating


class Wins:
    """Rates by wins less losses, as it should be; subclasses do it wrong."""

    def __init__(self, *, anchors, seats):
        self.counts = {}

    def add(self, a, b, count):
        """Count."""
        self.counts[a] = self.counts.get(a, np.zeros(3, int)) + count

    def replay(self, first, matches):
        """Leave it alone."""

    def rating(self, participant):
        """Return wins less losses."""
        won, drawn, lost = self.counts.get(participant, (0, 0, 0))
        return Rating(float(won - lost), 1.0, int(won + drawn + lost))


class Forgetful(Wins):
    """Forgets a little with every result."""

    def add(self, a, b, count):
        super().add(a, b, count)
        self.counts[a] = self.counts[a] * 0.999


class Twice(Wins):
    """Does not take back what comes again."""

    def add(self, a, b, count):
        pass

    def replay(self, first, matches):
        for match in matches:
            a, b = match.fixture.participants
            count = np.array([match.outcome[0], 0, match.outcome[1]], int)
            super().add(a, b, count)
            super().add(b, a, count[::-1])


class Reversed(Wins):
    """The worst is the best."""

    def rating(self, participant):
        rating = super().rating(participant)
        return Rating(-rating.mean, rating.deviation, rating.matches)


class Vague(Wins):
    """Has negative deviations."""

    def rating(self, participant):
        rating = super().rating(participant)
        return Rating(rating.mean, -1.0, rating.matches)


class Unbounded(Wins):
    """Is not a number."""

    def rating(self, participant):
        rating = super().rating(participant)
        return Rating(rating.mean * float("nan"), rating.deviation, rating.matches)


class Unsure(Wins):
    """Knows nothing of some."""

    def rating(self, participant):
        rating = super().rating(participant)
        return Rating(rating.mean, float("inf") if participant == "new" else 1.0, rating.matches)


class Bare(Wins):
    """Answers a number."""

    def rating(self, participant):
        return super().rating(participant).mean


def test_a_good_one_passes():
    """Nothing is said."""
    check_rating(Wins)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (Forgetful, "another order"),
        (Twice, "another order"),
        (Reversed, "weak < even < strong"),
        (Vague, r"^rating answered Rating\(.*=-1\.0, .*; expected a finite mean and a finite deviation >= 0"),
        (Unbounded, r"^rating answered Rating\(mean=nan, .*; expected a finite mean"),
        (Unsure, r"^rating answered Rating\(.*=inf, .*; expected a finite mean and a finite deviation >= 0"),
        (Bare, r"^rating answered .*; expected a ludus\.matchmaker\.Rating"),
    ],
)
def test_mistakes_are_found(wrong, problem):
    """The message says which."""
    with pytest.raises(ContractError, match=problem):
        check_rating(wrong)
