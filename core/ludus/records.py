"""Records of a league: fixtures, matches and models.

A *fixture* is a pairing for a block of matches. The coordinator creates it, samplers play it, and the store keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from attrs.validators import instance_of

from ludus.environment import Scenario

__all__ = ["Fixture", "FixtureRecord", "MatchRecord", "ModelRecord"]


@frozen(kw_only=True)
class Fixture:
    """A pairing for a block of matches, with everything fixed before the first one starts.

    Attributes:
        id: Unique in the run.
        kind: ``"train"`` or ``"eval"``.
        player: Who learns from it; empty for evaluations.
        participants: Who holds every seat, in the environment's seat order.
        seed: Seeds of the matches derive from it, see `ludus._seeding.match_seeds`.
        paired: Id of the fixture with the same seed and swapped seats; empty if none.
        matches: How many to play.
        scenario: What is played.
        reason: Why these opponents.
        models: Participant to model hash for the frozen ones.
    """

    id: int
    kind: str
    player: str
    participants: tuple[str, ...]
    seed: int
    matches: int
    reason: str
    paired: str = ""
    scenario: Scenario = field(factory=Scenario)
    models: Mapping[str, str] = field(factory=dict)


@frozen(kw_only=True)
class ModelRecord:
    """A frozen model of the league."""

    participant: str
    player: str
    number: int = field(converter=int)  # of a row, SQLite keeps any value in any column
    hash: str
    parent: str | None
    decisions: int = field(converter=int)
    version: int = field(converter=int)
    created_s: float = field(converter=float)
    manifest: Mapping[str, Any] = field(validator=instance_of(dict))


@frozen(kw_only=True)
class MatchRecord:
    """One match of the log: everything that its fixture fixed before it started, and what came out."""

    fixture: Fixture
    number: int
    seed: int
    outcome: tuple[float, ...]
    ticks: int


@frozen(kw_only=True)
class FixtureRecord:
    """One fixture: what was asked for, when (Unix time), and how many of its matches are in the log."""

    fixture: Fixture
    created_s: float
    played: int
