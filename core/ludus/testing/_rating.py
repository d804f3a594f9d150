"""`check_rating`: check a rating method on a small duel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ludus._league.validation import checked_rating
from ludus.environment import Seat
from ludus.matchmaker import Rating, RatingTable
from ludus.records import Fixture, MatchRecord
from ludus.testing._errors import require

__all__ = ["check_rating"]

_NAMES = ("weak", "even", "strong")
_SEATS = (Seat("player", 0, 0), Seat("player", 1, 1))
_FIXTURES = 30
_MATCHES = 20  # of each fixture, of which the first participant wins 15


def check_rating(make: Callable[..., RatingTable]) -> None:
    """Check that a method rates three participants by their results.

    Args:
        make: Makes the rating table, as ``make(anchors=…, seats=…)``.

    Raises:
        ContractError: Ratings are not finite, do not follow the results, or depend on the order of the results.
    """
    matches = [_match(fixture, number) for fixture in range(_FIXTURES) for number in range(_MATCHES)]
    in_order = _rate(make, matches, replays=[0], added=matches)
    reverse = _rate(make, matches, replays=[_FIXTURES // 2, 0], added=matches[::-1])
    require(in_order == reverse, f"ratings depend on the order of the results: {in_order}, {reverse}")
    weak, even, strong, _ = in_order
    ordered = weak.mean < even.mean < strong.mean
    counts = [rating.matches for rating in in_order]
    require(
        ordered and counts == [400, 400, 400, 0],
        f"expected weak < even < strong after 400 matches each, got {in_order}",
    )


def _rate(
    make: Callable[..., RatingTable],
    matches: Sequence[MatchRecord],
    *,
    replays: Sequence[int],
    added: Sequence[MatchRecord],
) -> list[Rating]:
    """Return the checked ratings of all participants and of an unknown one.

    Args:
        make: Makes the rating table.
        matches: All matches of the log.
        replays: First fixtures of the replays.
        added: Matches whose results are added, in order.
    """
    table = make(anchors=("even",), seats=_SEATS)
    for first in replays:
        table.replay(first, (match for match in matches if match.fixture.id >= first))
    for match in added:
        (a, b), (won, lost) = match.fixture.participants, match.outcome
        table.add(a, b, np.array([won, 0, lost], np.int64))
        table.add(b, a, np.array([lost, 0, won], np.int64))
    return [checked_rating(table.rating(name)) for name in (*_NAMES, "new")]


def _match(fixture: int, number: int) -> MatchRecord:
    """Return a match in which the better participant wins three of four times."""
    won = number < 15
    pair = (_NAMES[(2, 1, 2)[fixture % 3]], _NAMES[(1, 0, 0)[fixture % 3]])
    plan = Fixture(id=fixture, kind="eval", player="", participants=pair, seed=1, matches=_MATCHES, reason="check")
    return MatchRecord(fixture=plan, number=number, seed=1, outcome=(float(won), float(not won)), ticks=1)
