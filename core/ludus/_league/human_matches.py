"""Matches that people played: in the match log under the kind ``human``, and nowhere else in the league.

They are in no rating and in no payoff that a matchmaker reads, and nothing is learned from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from attrs import field, frozen
from attrs.validators import instance_of

from ludus._league.return_outcome import BASELINE, ReturnOutcome
from ludus._store.store import Store
from ludus.environment import Scenario
from ludus.errors import WireError
from ludus.records import HUMAN, Fixture

_PERSON = "human:"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
_PARTICIPANT = re.compile(r"[!-~]{1,200}")
_MAX_TICKS = 2**31 - 1


def name_person(name: str) -> str:
    """Return the participant of a person, ``"human:NAME"``.

    Raises:
        ValueError: The name is none of 1 to 32 lower-case letters, digits, dots, dashes and underscores.
    """
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"name {name[:40]!r}: expected 1 to 32 lower-case letters, digits, '.', '-' or '_'")
    return f"{_PERSON}{name}"


def is_person(participant: str) -> bool:
    """Return whether a participant is a person."""
    return participant.startswith(_PERSON)


def _as_tuple(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)


@frozen(kw_only=True)
class HumanMatch:
    """A match that people played, as it is added to the log.

    Attributes:
        participants: Participant of every seat; at least one is a person, and none is a live player.
        seed: Seed of the fixture, below 2^63.
        scenario: Name of the scenario.
        outcome: Points per team.
        returns: Return of every seat.
        ticks: Length.
        reason: Why it was played.
    """

    participants: tuple[str, ...] = field(converter=_as_tuple)
    seed: int = field(validator=instance_of(int))
    scenario: str
    outcome: Sequence[float]
    returns: Sequence[float]
    ticks: int = field(validator=instance_of(int))
    reason: str = field(validator=instance_of(str))


def add_human_match(store: Store, match: HumanMatch) -> None:
    """Add a match to the log; the caller commits.

    Raises:
        WireError: It does not fit the league.
    """
    _check(store, match)
    arrays: dict[str, np.ndarray] = {
        "number": np.zeros(1, np.int64),
        "ticks": np.array([match.ticks], np.int32),
        "outcome": np.array([match.outcome], np.float32),
    }
    if baseline := store.meta(BASELINE):
        returns = np.array([match.returns], np.float32)
        arrays["outcome"] = ReturnOutcome.of(store.seats(), baseline).points(returns)
    fixture = store.fixtures.add(
        Fixture(
            id=0,
            kind=HUMAN,
            player="",
            participants=match.participants,
            seed=match.seed,
            matches=1,
            scenario=Scenario(name=match.scenario),
            reason=match.reason,
        )
    )
    store.matches.add_results({"fixture": np.array([fixture.id], np.int64), **arrays})


def _check(store: Store, match: HumanMatch) -> None:
    """Check what the log does not check by itself.

    Raises:
        WireError: A value is wrong.
    """
    seats = store.seats()
    _check_participants(match.participants, len(seats))
    if not 0 <= match.seed < 2**63 or not 0 < match.ticks <= _MAX_TICKS:
        raise WireError("expected a seed of 63 bits, and at least one tick")
    num_teams = 1 + max(seat.team for seat in seats)
    outcome, returns = (np.asarray(values, np.float64) for values in (match.outcome, match.returns))
    if outcome.shape != (num_teams,) or not np.all((outcome >= 0) & (outcome <= 1)):
        raise WireError(f"expected the points of {num_teams} teams in [0, 1]")
    if returns.shape != (len(seats),) or not np.isfinite(returns).all():
        raise WireError(f"expected finite returns of {len(seats)} seats")


def _check_participants(names: Sequence[str], num_seats: int) -> None:
    if not num_seats or len(names) != num_seats or not all(map(_is_participant, names)):
        raise WireError(f"expected the participants of {num_seats} seats, none of them a live player")
    if not any(map(is_person, names)):
        raise WireError("expected a person in one seat")


def _is_participant(name: object) -> bool:
    return isinstance(name, str) and _PARTICIPANT.fullmatch(name) is not None and not name.endswith("+")
