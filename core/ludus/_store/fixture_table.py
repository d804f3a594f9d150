"""The table of fixtures."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from attrs import evolve

from ludus._store.records import FIXTURE_COLUMNS, fixture_of
from ludus._store.transaction import Database
from ludus.records import Fixture, FixtureRecord

_COLUMNS = ", ".join(FIXTURE_COLUMNS)


class FixtureTable:
    """Reads and writes fixtures."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, fixture: Fixture) -> Fixture:
        """Add a fixture and return it with its id.

        Args:
            fixture: The fixture; its `id` and `models` are ignored.
        """
        f = fixture
        scenario = json.dumps([f.scenario.name, dict(f.scenario.parameters)])
        participants = json.dumps(f.participants)
        values = (f.kind, f.player, participants, f.seed, f.matches, scenario, f.reason, f.paired, time.time())
        number = self._db.write("INSERT INTO fixtures VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)", *values)
        return evolve(f, id=number)

    def close(self, fixture_id: int) -> None:
        """Mark a fixture of which no more matches will be played; results that still arrive are kept."""
        self._db.write("UPDATE fixtures SET closed = 1 WHERE id = ?", fixture_id)

    def unfinished(self) -> list[Fixture]:
        """Return the fixtures that are neither finished nor closed."""
        return self._select("closed = 0")

    def get(self, first: int, last: int) -> dict[int, Fixture]:
        """Return the fixtures of a range of ids, both ends included, by id."""
        return {fixture.id: fixture for fixture in self._select("id BETWEEN ? AND ?", first, last)}

    def records(self, *, kind: str | None = None) -> Iterator[FixtureRecord]:
        """Return all fixtures ordered by id, also those without a match.

        Args:
            kind: Only ``"train"`` or only ``"eval"`` fixtures.
        """
        sql = (
            f"SELECT created_s, (SELECT count(*) FROM matches WHERE fixture = id), {_COLUMNS}"  # noqa: S608 - constants
            " FROM fixtures WHERE :kind IS NULL OR kind = :kind ORDER BY id"
        )
        for created_s, played, *rest in self._db.execute(sql, {"kind": kind}):
            yield FixtureRecord(fixture=fixture_of(rest), created_s=created_s, played=played)

    def _select(self, where: str, *values: Any) -> list[Fixture]:
        sql = f"SELECT {_COLUMNS} FROM fixtures WHERE {where} ORDER BY id"  # noqa: S608 - constants
        return [fixture_of(row) for row in self._db.execute(sql, values)]
