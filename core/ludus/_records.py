"""Records of the league store, as they are read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from ludus._messages import Fixture
from ludus.environment import Scenario

__all__ = [
    "FIXTURE_COLUMNS",
    "CheckpointRecord",
    "MatchRecord",
    "ModelRecord",
    "PlayerRecord",
    "fixture_record",
]

#: The columns of the table of fixtures that make a `Fixture`.
FIXTURE_COLUMNS = "id, kind, player, seats, seed, matches, scenario, reason, paired"


@frozen(kw_only=True)
class PlayerRecord:
    """A learning identity: its role, and the team of that role where it has one fixed team."""

    name: str
    role: str
    team: int | None


@frozen(kw_only=True)
class ModelRecord:
    """A frozen model of the league."""

    participant: str
    player: str
    number: int
    hash: str
    parent: str | None
    decisions: int
    version: int
    created_s: float
    manifest: Mapping[str, Any]


@frozen(kw_only=True)
class MatchRecord:
    """One match of the log: everything that its fixture fixed before it started, and what came out."""

    fixture: Fixture
    number: int
    seed: int
    outcome: tuple[float, ...]
    ticks: int


@frozen(kw_only=True)
class CheckpointRecord:
    """The checkpoint from which a player's learner resumes."""

    player: str
    path: str
    hash: str
    version: int
    decisions: int
    counters: Mapping[str, float]


def fixture_record(row: Sequence[Any]) -> Fixture:
    """Return the fixture of a row of `FIXTURE_COLUMNS`; the hashes of its models are the league's to add."""
    values = dict(zip(FIXTURE_COLUMNS.split(", "), row, strict=True))
    name, parameters = json.loads(values["scenario"])
    values |= {"seats": tuple(json.loads(values["seats"])), "scenario": Scenario(name=name, parameters=parameters)}
    return Fixture(**values)
