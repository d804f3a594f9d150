"""Search of the match log in pages, the newest match first. A page takes bounded time, however long the log is."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen
from ludus.matchmaker import rated_names
from ludus.runs import FixtureRecord, FixtureSearch, MatchRecord, Run

__all__ = ["MatchPage", "MatchQuery", "Position", "find_matches"]

_ROWS = 50  # of a page
_DEPTH = 20_000  # fixtures that one statement looks at
_SEARCH_S = 0.4  # then the page ends, and a link continues
_MAX_TEXT = 200
OUTCOMES = ("won", "drew", "lost")


@frozen
class Position:
    """A place in the log: everything before match `number` of fixture `fixture` comes next, newest first."""

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
                kind=kind if kind in ("train", "eval") else None,
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


def find_matches(run: Run, query: MatchQuery) -> MatchPage:
    """Return one page of matches of an open run."""
    end_s = time.monotonic() + _SEARCH_S
    found: list[dict[str, Any]] = []
    before = query.before or Position(run.last_fixture() + 1)
    if before.number:  # the rest of a fixture that the last page has begun
        before = Position(before.fixture + 1, before.number)
    while before.fixture > 1:
        for record in run.search_fixtures(query.search, before=before.fixture, depth=_DEPTH):
            limit = before.number if record.fixture.id == before.fixture - 1 and before.number else None
            for match in _matches(run, record, query, below=limit):
                found.append(match)
                if len(found) == _ROWS:
                    return MatchPage(found, Position(record.fixture.id, match["number"]))
            if time.monotonic() > end_s:
                return MatchPage(found, Position(record.fixture.id))
        before = Position(max(before.fixture - _DEPTH, 1))
        if time.monotonic() > end_s:
            break
    return MatchPage(found, before if before.fixture > 1 else None)


def _matches(run: Run, record: FixtureRecord, query: MatchQuery, *, below: int | None) -> Iterator[dict[str, Any]]:
    for match in reversed(list(run.matches_of(record.fixture.id))):
        if (below is None or match.number < below) and _has_outcome(run, match, query):
            yield _row(run, record, match)


def _has_outcome(run: Run, match: MatchRecord, query: MatchQuery) -> bool:
    """Return whether the first participant of the search has the outcome in one of its teams."""
    if not query.outcome:
        return True
    first = query.search.participants[0]
    seated = zip(match.fixture.participants, run.seats, strict=True)
    teams = {seat.team for name, seat in seated if name == first or (first[-1] == "@" and name.startswith(first))}
    return any(_outcome(match.outcome, team) == query.outcome for team in teams)


def _outcome(points: tuple[float, ...], team: int) -> str:
    best = max((other for index, other in enumerate(points) if index != team), default=0.5)
    return "won" if points[team] > best else "lost" if points[team] < best else "drew"


def _row(run: Run, record: FixtureRecord, match: MatchRecord) -> dict[str, Any]:
    fixture = match.fixture
    teams: dict[int, list[str]] = {}
    for name, seat in zip(fixture.participants, run.seats, strict=True):
        if name not in teams.setdefault(seat.team, []):
            teams[seat.team].append(name)
    return {
        "fixture": fixture.id,
        "number": match.number,
        "kind": fixture.kind,
        "created_s": record.created_s,
        "teams": [teams[team] for team in sorted(teams)],
        "rated": rated_names(fixture.participants, run.seats),
        "outcome": match.outcome,
        "ticks": match.ticks,
        "seed": match.seed,
        "scenario": fixture.scenario.name,
        "parameters": dict(fixture.scenario.parameters),
        "reason": fixture.reason,
    }
