"""From match outcomes to win/draw/loss counts, for any number of teams and seats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from attrs import field, frozen

from ludus._messages import Fixture

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FixtureSummary", "Payoffs", "Recorded", "accumulate", "tally"]

#: (kind, a, b) → ``[3] int64``: wins, draws and losses of a against b in matches of that kind.
Payoffs: TypeAlias = "dict[tuple[str, str, str], NDArray[np.int64]]"


@frozen(kw_only=True)
class FixtureSummary:
    """New matches of one fixture in one report.

    Attributes:
        fixture: What was played.
        outcome: Points per team summed over the new matches (1 win, ½ draw, 0 loss each).
        matches: How many new matches.
        finished: Whether these were the last ones of the fixture.
    """

    fixture: Fixture
    outcome: tuple[float, ...]
    matches: int
    finished: bool


@frozen(kw_only=True)
class Recorded:
    """What a report added to the log.

    Attributes:
        new: ``[k] int64``: rows of the report that are new.
        duplicates: Rows that were already in the log, or twice in the report.
        refused: Rows of unknown fixtures, or of match numbers that their fixture does not have.
        fixtures: One summary per fixture with new matches, by id.
        payoffs: What the new matches add to the payoffs.
    """

    new: NDArray[np.int64]
    duplicates: int
    refused: int
    fixtures: tuple[FixtureSummary, ...] = ()
    payoffs: Payoffs = field(factory=dict)


def tally(
    fixtures: Sequence[Fixture], starts: NDArray[np.int64], outcome: NDArray[np.float32], *, teams: Sequence[int]
) -> Payoffs:
    """Count who beat whom.

    Args:
        fixtures: G fixtures.
        starts: ``[G] int64``: the first row of each fixture; its rows lie together, in the order of `fixtures`.
        outcome: ``[n, teams] float32``.
        teams: The team of every seat.

    Returns:
        The counts of every ordered pair of different participants who sat in different teams.
    """
    meetings = [_meetings(fixture.seats, teams) for fixture in fixtures]
    counts = {
        (i, j): _counts(outcome[:, i], outcome[:, j], starts)
        for i, j in {(i, j) for met in meetings for i, j, _, _ in met}
    }
    result: Payoffs = {}
    for group, (fixture, met) in enumerate(zip(fixtures, meetings, strict=True)):
        for i, j, a, b in met:
            row = counts[i, j][group]
            accumulate(result, {(fixture.kind, a, b): row})
            accumulate(result, {(fixture.kind, b, a): row[::-1]})
    return result


def _meetings(seats: Sequence[str], teams: Sequence[int]) -> list[tuple[int, int, str, str]]:
    """Return ``(i, j, a, b)`` where a in team i met b in team j, i < j, a ≠ b; each once."""
    sides = sorted(set(zip(teams, seats, strict=True)))
    return [(i, j, a, b) for i, a in sides for j, b in sides if i < j and a != b]


def _counts(mine: NDArray[np.float32], theirs: NDArray[np.float32], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``[G, 3]``: how often the points of one team were more, the same, and less than those of another."""
    tests = (mine > theirs, mine == theirs, mine < theirs)
    return np.stack([np.add.reduceat(test, starts, dtype=np.int64) for test in tests], axis=1)


def accumulate(total: Payoffs, more: Mapping[tuple[str, str, str], NDArray[np.int64]]) -> None:
    """Add counts to sums in place."""
    for key, count in more.items():
        total[key] = total[key] + count if key in total else count
