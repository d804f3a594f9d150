"""The tables of fixtures, frozen models, pool changes and checkpoints, in which mappings are JSON."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import attrs
from attrs import frozen

from ludus._messaging.messages import Checkpoint
from ludus._store.database import Database, reading
from ludus.environment import Scenario
from ludus.errors import StoreError
from ludus.matchmaker import PoolChange
from ludus.records import Fixture, FixtureRecord, FixtureSearch, ModelRecord

#: Columns of the table of fixtures that make a `Fixture`; `seats` holds its participants.
FIXTURE_COLUMNS = ("id", "kind", "player", "seats", "seed", "matches", "scenario", "reason", "paired")
_COLUMNS = ", ".join(FIXTURE_COLUMNS)
_MODEL_COLUMNS = ", ".join(field.name for field in attrs.fields(ModelRecord))
_ADD_MODEL = f"INSERT INTO models ({_MODEL_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constants
_SELECT_MODELS = f"SELECT {_MODEL_COLUMNS} FROM models ORDER BY id"  # noqa: S608 - constants
_JSON = {"manifest", "scenario", "seats"}
_SELECT_RECORDS = (
    f"SELECT created_s, (SELECT ifnull(sum(played), 0) FROM matches WHERE fixture = id), {_COLUMNS} FROM fixtures"  # noqa: S608 - constants
)
_KEPT_CHECKPOINTS = 2  # per player: if the newest is damaged, the learner resumes from the other

R = TypeVar("R", bound=attrs.AttrsInstance)


@frozen(kw_only=True)
class PoolRecord:
    """A change of a pool, and its time (Unix time)."""

    change: PoolChange
    created_s: float


def _row_of(record: attrs.AttrsInstance) -> list[Any]:
    """Return the row of a record: one column per field, in their order."""
    values = attrs.asdict(record, recurse=False)
    return [json.dumps(dict(value)) if name in _JSON else value for name, value in values.items()]


def _record_of(cls: type[R], row: Sequence[Any], *, table: str) -> R:
    """Return the record of a row with one column per field, in their order.

    Args:
        cls: The class of the record.
        row: The row; its first value identifies it in messages.
        table: The row's table, for messages.

    Raises:
        sqlite3.DatabaseError: The row is malformed.
    """
    names = [attribute.name for attribute in attrs.fields(cls)]
    with reading(f"row {row[0]} of table {table}"):
        return cls(**_parsed(names, row))


def fixture_of(row: Sequence[Any]) -> Fixture:
    """Return the fixture of a row of `FIXTURE_COLUMNS`, without the hashes of its models.

    Raises:
        sqlite3.DatabaseError: The row is malformed.
    """
    with reading(f"row {row[0]} of table fixtures"):
        values = _parsed(FIXTURE_COLUMNS, row)
        name, parameters = values["scenario"]
        values["scenario"] = Scenario(name=name, parameters=parameters)
        return Fixture(participants=tuple(values.pop("seats")), **values)


def _parsed(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    return {name: json.loads(value) if name in _JSON else value for name, value in zip(names, row, strict=True)}


def _quoted(name: str) -> str:
    """Return the text that stands in the column of seats for a participant, or for any model of a player."""
    return json.dumps(name)[:-1] if name.endswith("@") else json.dumps(name)


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
        return attrs.evolve(f, id=number)

    def close(self, fixture_id: int) -> None:
        """Mark a fixture of which no more matches will be played; results that still arrive are kept."""
        self._db.write("UPDATE fixtures SET closed = 1 WHERE id = ?", fixture_id)

    def unfinished(self) -> list[Fixture]:
        """Return the fixtures that are neither finished nor closed."""
        return self._select("closed = 0")

    def get(self, ids: Sequence[int]) -> dict[int, Fixture]:
        """Return the fixtures with these ids that exist, by id."""
        found = self._select("id IN (SELECT value FROM json_each(?))", json.dumps(ids))
        return {fixture.id: fixture for fixture in found}

    def records(self, *, kind: str | None = None, first: int = 0) -> Iterator[FixtureRecord]:
        """Return all fixtures ordered by id, also those without a match.

        Args:
            kind: Only ``"train"`` or only ``"eval"`` fixtures.
            first: Only fixtures from this id on.
        """
        sql = f"{_SELECT_RECORDS} WHERE id >= :first AND (:kind IS NULL OR kind = :kind) ORDER BY id"
        yield from self._records(sql, {"kind": kind, "first": first})

    def last_id(self) -> int:
        """Return the id of the newest fixture; 0 if there is none."""
        return int(self._db.execute("SELECT ifnull(max(id), 0) FROM fixtures").fetchone()[0])

    def search(self, search: FixtureSearch, *, before: int, depth: int) -> Iterator[FixtureRecord]:
        """Return the fixtures that a search finds, the newest first.

        Args:
            search: The search.
            before: Only fixtures with smaller ids.
            depth: Number of ids below `before` that are looked at, which bounds the time that a call takes.
        """
        names = {f"name{i}": _quoted(name) for i, name in enumerate(search.participants)}
        tests = (
            "id >= :before - :depth AND id < :before",
            "kind = ifnull(:kind, kind)",
            "instr(lower(reason), lower(:reason))",
            "instr(lower(scenario), lower(:scenario))",
            *(f"instr(seats, :{key})" for key in names),
        )
        values = {"before": before, "depth": depth, "kind": search.kind, "reason": search.reason, **names}
        sql = f"{_SELECT_RECORDS} WHERE {' AND '.join(tests)} ORDER BY id DESC"
        yield from self._records(sql, {**values, "scenario": search.scenario})

    def _records(self, sql: str, values: Mapping[str, Any]) -> Iterator[FixtureRecord]:
        for created_s, played, *rest in self._db.execute(sql, values):
            yield FixtureRecord(fixture=fixture_of(rest), created_s=created_s, played=played)

    def _select(self, where: str, *values: Any) -> list[Fixture]:
        sql = f"SELECT {_COLUMNS} FROM fixtures WHERE {where} ORDER BY id"  # noqa: S608 - constants
        return [fixture_of(row) for row in self._db.execute(sql, values)]


class ModelTable:
    """Reads and adds frozen models."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, model: ModelRecord) -> None:
        """Add a frozen model whose file is already on the disk.

        Raises:
            StoreError: There is a model of that name already.
        """
        try:
            self._db.write(_ADD_MODEL, *_row_of(model))
        except sqlite3.IntegrityError as error:
            raise StoreError(f"model {model.participant} is already in the league") from error

    def records(self) -> tuple[ModelRecord, ...]:
        """Return the models, in the order in which they were frozen."""
        rows = self._db.execute(_SELECT_MODELS)
        return tuple(_record_of(ModelRecord, row, table="models") for row in rows)


class PoolLog:
    """Reads and adds changes of pools."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, change: PoolChange) -> None:
        """Log that a model enters or leaves a pool."""
        sql = "INSERT INTO pools (pool, model, enters, created_s) VALUES (?, ?, ?, ?)"
        self._db.write(sql, change.pool, change.model, int(change.enters), time.time())

    def records(self) -> Iterator[PoolRecord]:
        """Return the changes, oldest first."""
        rows = self._db.execute("SELECT pool, model, enters, created_s FROM pools ORDER BY id")
        for pool, model, enters, created_s in rows:
            yield PoolRecord(change=PoolChange(pool=pool, model=model, enters=bool(enters)), created_s=created_s)


class CheckpointTable:
    """Reads and replaces the checkpoints that learners resume from, the newest two of every player."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def put(self, checkpoint: Checkpoint) -> None:
        """Make a checkpoint, whose file is already on the disk, the newest of its player."""
        self.drop(checkpoint)
        sql = "INSERT INTO checkpoints (player, path, hash, version, decisions) VALUES (?, ?, ?, ?, ?)"
        self._db.write(sql, *_row_of(checkpoint))
        for superseded in self.kept(checkpoint.player)[_KEPT_CHECKPOINTS:]:
            self.drop(superseded)

    def drop(self, checkpoint: Checkpoint) -> None:
        """Remove a checkpoint of this player and path, if there is one."""
        self._db.write("DELETE FROM checkpoints WHERE player = ? AND path = ?", checkpoint.player, checkpoint.path)

    def kept(self, player: str) -> list[Checkpoint]:
        """Return the checkpoints of a player, newest first."""
        return self._select("WHERE player = ? ORDER BY id DESC", player)

    def latest(self) -> dict[str, Checkpoint]:
        """Return the newest checkpoint by player."""
        return {checkpoint.player: checkpoint for checkpoint in self._select("ORDER BY id")}

    def _select(self, clause: str, *values: Any) -> list[Checkpoint]:
        sql = f"SELECT player, path, hash, version, decisions FROM checkpoints {clause}"  # noqa: S608 - constants
        return [_record_of(Checkpoint, row, table="checkpoints") for row in self._db.execute(sql, values)]

    def saved_decisions(self) -> dict[str, int]:
        """Return the decisions that checkpoints and models hold, by player; a crash loses those learned since."""
        sql = """
            SELECT player, max(decisions)
            FROM (SELECT player, decisions FROM checkpoints UNION ALL SELECT player, decisions FROM models)
            GROUP BY player
        """
        with reading("table checkpoints or models"):
            return {player: int(decisions) for player, decisions in self._db.execute(sql)}
