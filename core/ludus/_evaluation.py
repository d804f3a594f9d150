"""Playing fixtures to their end in this process: what ``ludus eval`` and the last evaluation of a run do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from attrs import evolve, frozen

from ludus._messages import Fixture
from ludus._play import Actor, Play
from ludus.agent import Agent
from ludus.environment import Environment, EnvironmentSpec, Scenario
from ludus.errors import ContractError


@frozen(kw_only=True)
class Record:
    """How the first of two sides fared.

    Attributes:
        wins: Matches in which its team had the higher outcome.
        draws: Equal outcomes.
        losses: The rest.
        mean_return: Mean sum of rewards of its seats per match.
        mean_ticks: Mean length of a match.
    """

    wins: int
    draws: int
    losses: int
    mean_return: float
    mean_ticks: float


def play_out(
    environment: Environment, fixtures: Sequence[Fixture], resolve: Callable[[Fixture, int], tuple[Actor, int]]
) -> dict[str, np.ndarray]:
    """Play all matches of the fixtures.

    Returns:
        Arrays over all matches, as `Play` reports them.

    Raises:
        ContractError: The environment stalls: nobody acts or nothing ends for a million ticks.
    """
    parts: list[dict[str, np.ndarray]] = []
    play = Play(
        environment=environment,
        resolve=resolve,
        on_results=parts.append,
        rows_per_fixture=max(1, environment.num_matches // max(len(fixtures), 1)),
    )
    for fixture in fixtures:
        play.add(fixture)
    missing, seen, since = sum(fixture.matches for fixture in fixtures), 0, 0
    while missing:
        play.step()
        ended = sum(part["number"].size for part in parts[seen:])
        missing, seen, since = missing - ended, len(parts), 0 if ended else since + 1
        if since > 1_000_000:
            raise ContractError(
                f"environment {environment.spec.name!r}: no match ended for a million ticks; expected every match to "
                f"end — give it a time limit"
            )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def play_pair(
    environment: Environment,
    sides: Sequence[Mapping[str, Agent]],
    *,
    matches: int,
    seed: int,
    scenario: Scenario | None = None,
) -> Record:
    """Play sides against each other, one per team, on the same seeds from every team they can take.

    Args:
        environment: A fresh batch; its caller closes it.
        sides: For every team one mapping from role name to the agent that fills the seats of that role. Teams
            are exchanged between the halves where the game has a single role.
        matches: In total, shared evenly among the exchanges and rounded up.
        seed: Seeds of matches and sampling derive from it.
        scenario: What is played.

    Returns:
        The record of ``sides[0]``.
    """
    from ludus._actors import AgentActor  # noqa: PLC0415 - imports torch

    spec = environment.spec
    shifts = len(sides) if len(spec.roles) == 1 else 1
    each = -(-matches // shifts)
    rng = np.random.default_rng(seed)
    base = Fixture(
        id=1, kind="eval", player="", seats=(), seed=seed, matches=each, reason="", scenario=scenario or Scenario()
    )
    fixtures = [evolve(base, id=shift + 1, seats=_seats(spec, len(sides), shift)) for shift in range(shifts)]
    actors = {
        (str(side), role): AgentActor(agent, rng) for side, agents in enumerate(sides) for role, agent in agents.items()
    }
    seats = spec.seats
    played = play_out(environment, fixtures, lambda fixture, seat: (actors[fixture.seats[seat], seats[seat].role], 0))
    return _record(spec, fixtures, played)


def _seats(spec: EnvironmentSpec, sides: int, shift: int) -> tuple[str, ...]:
    """Return the side in every seat: team t is held by side t + shift."""
    return tuple(str((seat.team + shift) % sides) for seat in spec.seats)


def _record(spec: EnvironmentSpec, fixtures: Sequence[Fixture], played: dict[str, np.ndarray]) -> Record:
    leads: list[np.ndarray] = []
    returns: list[np.ndarray] = []
    for fixture in fixtures:
        chosen = played["fixture"] == fixture.id
        mine = [i for i, side in enumerate(fixture.seats) if side == "0"]
        team = spec.seats[mine[0]].team
        outcome = played["outcome"][chosen]
        others = np.delete(outcome, team, axis=1) if outcome.shape[1] > 1 else np.full_like(outcome, 0.5)
        leads.append(outcome[:, team] - others.max(axis=1))
        returns.append(played["returns"][chosen][:, mine].mean(axis=1))
    lead = np.concatenate(leads)
    return Record(
        wins=int(np.count_nonzero(lead > 0)),
        draws=int(np.count_nonzero(lead == 0)),
        losses=int(np.count_nonzero(lead < 0)),
        mean_return=float(np.concatenate(returns).mean()),
        mean_ticks=float(played["ticks"].mean()),
    )
