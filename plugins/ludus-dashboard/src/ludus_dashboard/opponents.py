"""Scheduled and played opponents of every player, counted as the log grows."""

from __future__ import annotations

import time
from collections.abc import Iterator

from attrs import define, field, frozen
from ludus.runs import FixtureRecord, Run
from ludus_terminal.mix import kind_of_opponents, kind_of_reason

__all__ = ["Mix", "OpponentCounts"]

_REREAD = 2000  # newest fixtures of which unfinished ones are read again
_MAX_ROWS = 200
_BATCH = 500  # fixtures between two looks at the clock


@frozen
class Mix:
    """One kind of opponents of a player: matches that were asked for and played."""

    player: str
    reason: str
    opponents: str
    asked: int
    played: int
    share_asked: float
    share_played: float


@define
class OpponentCounts:
    """Sums over the training fixtures, of which each is read until it is finished.

    Attributes:
        is_complete: Whether the last call of `read` reached the end of the log.
    """

    is_complete: bool = field(init=False, default=False)
    _next: int = field(init=False, default=0)  # id from which fixtures were not read yet
    _sums: dict[tuple[str, str, str], list[int]] = field(init=False, factory=dict)  # asked, played
    _open: dict[int, FixtureRecord] = field(init=False, factory=dict)  # as they were counted

    def read(self, run: Run, *, max_s: float) -> None:
        """Read new fixtures for a limited time, and the unfinished ones again."""
        end_s = time.monotonic() + max_s
        self.is_complete = False
        first = min(self._open, default=self._next)
        for number, record in enumerate(run.fixtures(kind="train", first=first)):
            if record.fixture.id < self._next:
                self._read_again(run, record)
                continue
            self._add(run, record)
            self._next = record.fixture.id + 1
            if number % _BATCH == 0 and time.monotonic() > end_s:
                break
        else:
            self.is_complete = True
        self._open = {number: record for number, record in self._open.items() if number >= self._next - _REREAD}

    def _read_again(self, run: Run, record: FixtureRecord) -> None:
        before = self._open.pop(record.fixture.id, None)
        if before is not None:
            self._sums[_key(run, record)][1] -= before.played
            self._sums[_key(run, record)][0] -= before.fixture.matches
            self._add(run, record)

    def _add(self, run: Run, record: FixtureRecord) -> None:
        sums = self._sums.setdefault(_key(run, record), [0, 0])
        sums[0] += record.fixture.matches
        sums[1] += record.played
        if record.played < record.fixture.matches:
            self._open[record.fixture.id] = record

    def rows(self) -> list[Mix]:
        """Return the counts by player, reason and kind of opponents; the most frequent ones of each player first."""
        return list(self._rows())[:_MAX_ROWS]

    def _rows(self) -> Iterator[Mix]:
        totals: dict[str, list[int]] = {}
        for (player, _, _), (asked, played) in self._sums.items():
            sums = totals.setdefault(player, [0, 0])
            sums[0] += asked
            sums[1] += played
        for (player, reason, opponents), (asked, played) in sorted(
            self._sums.items(), key=lambda item: (item[0][0], -item[1][0])
        ):
            of_player = totals[player]
            yield Mix(
                player, reason, opponents, asked, played, asked / max(of_player[0], 1), played / max(of_player[1], 1)
            )


def _key(run: Run, record: FixtureRecord) -> tuple[str, str, str]:
    fixture = record.fixture
    return fixture.player, kind_of_reason(fixture.reason), kind_of_opponents(run, record)
