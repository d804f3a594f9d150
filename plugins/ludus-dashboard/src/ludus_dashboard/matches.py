"""Search of the match log in pages, the newest match first. A page takes bounded time, however long the log is."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen
from ludus.environment import Seat
from ludus.runs import FixtureRecord, FixtureSearch, MatchRecord, Run, RunLog

__all__ = ["KINDS", "OUTCOMES", "MatchPage", "MatchQuery", "Position", "find_matches"]

_ROWS = 50  # of a page
_DEPTH = 20_000  # fixtures that one statement looks at
_SEARCH_S = 0.4  # then the page ends, and a link continues
_MAX_TEXT = 200
OUTCOMES = ("won", "drew", "lost")
#: Names of the kinds of matches.
KINDS = {"eval": "rating", "train": "training", "human": "human"}


@frozen
class Position:
    """A place in the log: the matches before match `number` of fixture `fixture` come next, the newest first."""

    fixture: int
    number: int = 0

    def __str__(self) -> str:
        return f"{self.fixture}.{self.number}"

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """Return the position of a text; None if it is none."""
        found = re.fullmatch(r"(\d{1,18})\.(\d{1,18})", text, re.ASCII)
        return cls(int(found[1]), int(found[2])) if found else None


@frozen(kw_only=True)
class MatchQuery:
    """What matches are searched.

    Attributes:
        search: The fixtures that they belong to.
        outcome: ``"won"``, ``"drew"`` or ``"lost"`` by the first participant of the search; empty: any.
        before: Place in the log to continue from; None: its end.
    """

    search: FixtureSearch
    outcome: str = ""
    before: Position | None = None

    @classmethod
    def parse(cls, values: Mapping[str, str], run: Run) -> MatchQuery:
        """Return the query of the parameters of an address; wrong values are left out."""
        texts = {name: value.strip()[:_MAX_TEXT] for name, value in values.items()}
        names = tuple(_participant(name, run) for key in ("a", "b") if (name := texts.get(key, "")))
        kind, outcome = texts.get("kind", ""), texts.get("outcome", "")
        return cls(
            search=FixtureSearch(
                kind=kind if kind in KINDS else None,
                participants=names,
                reason=texts.get("reason", ""),
                scenario=texts.get("scenario", ""),
            ),
            outcome=outcome if outcome in OUTCOMES and names else "",
            before=Position.parse(texts.get("before", "")),
        )


def _participant(name: str, run: Run) -> str:
    """Return the participant of a name; a player stands for all its models, a rated anchor for the anchor."""
    if name in run.league.players:
        return f"{name}@"
    side, _, anchor = name.rpartition("=")
    return anchor if side and anchor in run.league.anchors else name


@frozen
class MatchPage:
    """Matches as JSON values, the newest first, and where older ones begin; None if there are none."""

    matches: list[dict[str, Any]]
    older: Position | None


def find_matches(log: RunLog, seats: Sequence[Seat], query: MatchQuery) -> MatchPage:
    """Return one page of matches.

    Args:
        log: The log of the run.
        seats: The seats of a match.
        query: The matches to find.
    """
    end_s = time.monotonic() + _SEARCH_S
    found: list[dict[str, Any]] = []
    end = Position(log.last_fixture() + 1)
    at = query.before if query.before is not None and query.before.fixture < end.fixture else end
    for record in _fixtures(log, query, at):
        if isinstance(record, Position):  # everything from there on was looked at
            at = record
        else:
            for match in _matches(log, seats, record, query):
                found.append(_row(seats, record, match))
                if len(found) == _ROWS:
                    return MatchPage(found, Position(record.fixture.id, match.number))
            at = Position(record.fixture.id)
        if time.monotonic() > end_s:
            break
    return MatchPage(found, at if at.fixture > 1 else None)


def _fixtures(log: RunLog, query: MatchQuery, start: Position) -> Iterator[FixtureRecord | Position]:
    """Yield the fixtures that a query finds, the newest first, and after every part of the log the place reached.

    A position within a fixture includes that fixture.
    """
    before = start.fixture + bool(start.number)
    while before > 1:
        yield from log.search(query.search, before=before, depth=_DEPTH)
        before = max(before - _DEPTH, 1)
        yield Position(before)


def _matches(log: RunLog, seats: Sequence[Seat], record: FixtureRecord, query: MatchQuery) -> Iterator[MatchRecord]:
    start, number = query.before, record.fixture.id
    below = start.number if start is not None and start.number and start.fixture == number else math.inf
    for match in reversed(list(log.matches(number))):
        if match.number < below and _has_outcome(seats, match, query):
            yield match


def _has_outcome(seats: Sequence[Seat], match: MatchRecord, query: MatchQuery) -> bool:
    """Return whether the first participant of the search has the outcome in one of its teams."""
    if not query.outcome:
        return True
    first = query.search.participants[0]
    teams = {
        seat.team
        for name, seat in zip(match.fixture.participants, seats, strict=True)
        if name == first or (first[-1] == "@" and name.startswith(first))
    }
    return any(_outcome(match.outcome, team) == query.outcome for team in teams)


def _outcome(points: tuple[float, ...], team: int) -> str:
    best = max((other for index, other in enumerate(points) if index != team), default=0.5)
    return "won" if points[team] > best else "lost" if points[team] < best else "drew"


def _row(seats: Sequence[Seat], record: FixtureRecord, match: MatchRecord) -> dict[str, Any]:
    fixture = match.fixture
    teams: dict[int, list[str]] = {}
    for name, seat in zip(fixture.participants, seats, strict=True):
        if name not in teams.setdefault(seat.team, []):
            teams[seat.team].append(name)
    return {
        "fixture": fixture.id,
        "number": match.number,
        "kind": fixture.kind,
        "created_s": record.created_s,
        "teams": [teams[team] for team in sorted(teams)],
        "outcome": match.outcome,
        "ticks": match.ticks,
        "seed": match.seed,
        "scenario": fixture.scenario.name,
        "parameters": dict(fixture.scenario.parameters),
        "reason": fixture.reason,
    }
