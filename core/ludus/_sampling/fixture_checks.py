"""Checks of received fixtures, before any of their matches starts."""

from __future__ import annotations

from collections.abc import Container

from ludus._league.participants import parse
from ludus.environment import EnvironmentSpec
from ludus.errors import WireError
from ludus.records import Fixture

_MAX_MATCHES = 2**31
_MAX_ID, _MAX_SEED = 2**63, 2**64


def check_fixture(fixture: Fixture, spec: EnvironmentSpec, *, players: Container[str]) -> None:
    """Check that a fixture can be played: its numbers, its scenario, and a participant for every seat.

    Whether a model or an anchor can be loaded shows when the fixture starts.

    Args:
        fixture: The fixture.
        spec: Specification of the environment.
        players: Players with live weights.

    Raises:
        WireError: It cannot.
    """
    if not (0 <= fixture.id < _MAX_ID and 0 <= fixture.seed < _MAX_SEED and 0 < fixture.matches < _MAX_MATCHES):
        raise WireError(f"fixture {fixture.id}: seed {fixture.seed} or {fixture.matches} matches are impossible")
    if len(fixture.participants) != len(spec.seats):
        raise WireError(
            f"fixture {fixture.id}: {len(fixture.participants)} participants, expected one for each of the "
            f"{len(spec.seats)} seats"
        )
    scenario = fixture.scenario
    if scenario.name not in ("default", *spec.scenarios) or scenario.builtin:
        raise WireError(f"fixture {fixture.id}: {spec.name} has no scenario {scenario.name[:64]!r}, or it names bots")
    for participant in fixture.participants:
        name = parse(participant)
        if name.live and name.player not in players:
            raise WireError(f"fixture {fixture.id}: no player has the live weights {participant[:64]!r}")
