"""From match outcomes to win/draw/loss counts, for any number of teams and seats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from attrs import define, field, frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Block", "FixtureSummary", "Payoffs", "Recorded", "tally"]

#: (kind, a, b) → ``[3] int64``: wins, draws and losses of a against b in matches of that kind.
Payoffs: TypeAlias = "dict[tuple[str, str, str], NDArray[np.int64]]"


@frozen(kw_only=True)
class FixtureSummary:
    """New matches of one fixture in one report.

    Attributes:
        fixture: Its id.
        kind: ``"train"`` or ``"eval"``.
        player: Who learns from it; empty for evaluations.
        participants: One per seat, in seat order.
        outcome: Points per team summed over the new matches (1 win, ½ draw, 0 loss each).
        matches: How many new matches.
        finished: Whether these were the last ones of the fixture.
    """

    fixture: int
    kind: str
    player: str
    participants: tuple[str, ...]
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


@define
class Block:
    """A fixture and which of its matches have been played.

    Attributes:
        fixture: Its id.
        kind: ``"train"`` or ``"eval"``.
        player: Who learns from it.
        seats: The participant in every seat.
        played: ``[matches] bool``.
        meetings: ``(i, j, a, b)``: a in team i met b in team j, i < j, a ≠ b; each once.
    """

    fixture: int
    kind: str
    player: str
    seats: tuple[str, ...]
    played: NDArray[np.bool_]
    meetings: tuple[tuple[int, int, str, str], ...]

    @staticmethod
    def make(
        fixture: int, kind: str, *, player: str, seats: tuple[str, ...], teams: Sequence[int], matches: int
    ) -> Block:
        """Return the block of a fixture of which nothing has been played; `teams` is the team of every seat."""
        sides = sorted(set(zip(teams, seats, strict=True)))
        meetings = tuple((i, j, a, b) for i, a in sides for j, b in sides if i < j and a != b)
        return Block(fixture, kind, player, seats, np.zeros(matches, bool), meetings)


def tally(blocks: Sequence[Block], starts: NDArray[np.int64], outcome: NDArray[np.float32]) -> Payoffs:
    """Count who beat whom.

    Args:
        blocks: G fixtures.
        starts: ``[G] int64``: the first row of each fixture; its rows lie together, in the order of `blocks`.
        outcome: ``[n, teams] float32``.

    Returns:
        The counts of every ordered pair of different participants who sat in different teams.
    """
    result: Payoffs = {}
    if not blocks:
        return result
    counts: Mapping[tuple[int, int], NDArray[np.int64]] = {
        (i, j): np.stack(
            [
                np.add.reduceat(test, starts, dtype=np.int64)
                for test in (
                    outcome[:, i] > outcome[:, j],
                    outcome[:, i] == outcome[:, j],
                    outcome[:, i] < outcome[:, j],
                )
            ],
            axis=1,
        )  # [G, 3]
        for i, j in {(i, j) for block in blocks for i, j, _, _ in block.meetings}
    }
    for group, block in enumerate(blocks):
        for i, j, a, b in block.meetings:
            row = counts[i, j][group]
            for key, count in (((block.kind, a, b), row), ((block.kind, b, a), row[::-1])):
                if key in result:
                    result[key] += count
                else:
                    result[key] = count.copy()
    return result
