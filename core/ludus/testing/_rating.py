"""`check_rating`: what every method of rating must do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ludus._league.validation import checked_rating
from ludus.environment import Seat
from ludus.errors import ContractError
from ludus.matchmaker import RatingTable
from ludus.records import Fixture, MatchRecord

__all__ = ["check_rating"]

_NAMES = ("weak", "even", "strong")
_SEATS = (Seat("player", 0, 0), Seat("player", 1, 1))


def check_rating(make: Callable[..., RatingTable]) -> None:
    """Check that a method rates a small duel as its contract says.

    Args:
        make: Makes its table, as ``make(anchors=…, seats=…)``.

    Raises:
        ContractError: Ratings are no numbers, do not follow the results, or depend on the order in which these arrive.
    """
    log = [_match(i, n, won=n < 15) for i in range(30) for n in range(20)]
    whole, late = (make(anchors=("even",), seats=_SEATS) for _ in range(2))
    for table, firsts, step in ((whole, (0,), 1), (late, (15, 0), -1)):
        for first in firsts:
            table.replay(first, (match for match in log if match.fixture.id >= first))
        for match in log[::step]:
            (a, b), (won, lost) = match.fixture.participants, match.outcome
            table.add(a, b, np.array([won, 0, lost], np.int64))
            table.add(b, a, np.array([lost, 0, won], np.int64))
    found, again = ([table.rating(name) for name in (*_NAMES, "new")] for table in (whole, late))
    for rating in (*found, *again):
        checked_rating(rating)
    if found != again:
        raise ContractError(f"results that arrive in another order change the ratings: {found}, {again}")
    weak, even, strong, _ = found
    if not weak.mean < even.mean < strong.mean or [rating.matches for rating in found] != [400, 400, 400, 0]:
        raise ContractError(f"expected weak < even < strong after 400 matches each, got {found}")


def _match(fixture: int, number: int, *, won: bool) -> MatchRecord:
    seats = (_NAMES[(2, 1, 2)[fixture % 3]], _NAMES[(1, 0, 0)[fixture % 3]])
    plan = Fixture(id=fixture, kind="eval", player="", participants=seats, seed=1, matches=20, reason="check")
    return MatchRecord(fixture=plan, number=number, seed=1, outcome=(float(won), float(not won)), ticks=1)
