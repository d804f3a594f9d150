"""Records of a league: fixtures, matches and models.

A *fixture* is a pairing for a block of matches. The coordinator creates it, samplers play it, the store keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from attrs.validators import instance_of

from ludus.environment import Scenario

__all__ = ["HUMAN", "Fixture", "FixtureRecord", "FixtureSearch", "MatchRecord", "ModelRecord"]

#: Kind of the matches that people play.
HUMAN = "human"


@frozen(kw_only=True)
class Fixture:
    """A pairing for a block of matches, with everything fixed before the first one starts.

    Attributes:
        id: Unique in the run.
        kind: ``"train"``, ``"eval"`` or ``"human"``.
        player: Player that learns from it; empty for other kinds.
        participants: Participant of every seat, in the environment's seat order.
        seed: Seed from which `ludus._seeding.match_seeds` derives the seeds of the matches.
        paired: Id of the fixture with the same seed and swapped seats; empty if none.
        matches: Number of matches to play.
        scenario: Scenario to play.
        reason: The matchmaker's reason for these opponents.
        models: Model hash by frozen participant.
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
    number: int = field(converter=int)  # converted because SQLite accepts any type in any column
    hash: str
    parent: str | None
    decisions: int = field(converter=int)
    version: int = field(converter=int)
    created_s: float = field(converter=float)
    manifest: Mapping[str, Any] = field(validator=instance_of(dict))


@frozen(kw_only=True)
class MatchRecord:
    """One match of the log.

    Attributes:
        fixture: The fixture.
        number: Number within the fixture.
        seed: Seed of the match.
        outcome: Points per team.
        ticks: Length.
        statistics: Values of the role's seats by ``"ROLE/NAME"``; of evaluation matches only.
    """

    fixture: Fixture
    number: int
    seed: int
    outcome: tuple[float, ...]
    ticks: int
    statistics: Mapping[str, tuple[float, ...]] = field(factory=dict)


@frozen(kw_only=True)
class FixtureRecord:
    """One fixture, the time of its creation (Unix time), and the number of its matches in the log."""

    fixture: Fixture
    created_s: float
    played: int


@frozen(kw_only=True)
class FixtureSearch:
    """What the fixtures have in common that a search of the log finds; without values it finds all.

    Attributes:
        kind: ``"train"``, ``"eval"`` or ``"human"``; None for all.
        participants: Participants that all have a seat; ``"PLAYER@"`` stands for any model of a player, or its live
            weights.
        reason: Part of the reason; upper and lower case are equal.
        scenario: Part of the scenario's name or parameters as JSON; upper and lower case are equal.
    """

    kind: str | None = None
    participants: tuple[str, ...] = ()
    reason: str = ""
    scenario: str = ""
