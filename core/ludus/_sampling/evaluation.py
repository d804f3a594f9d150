"""Playing fixtures to their end in this process: what ``ludus eval`` and the last evaluation of a run do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ludus._sampling.actors import AgentActor
from ludus._sampling.engine import Actor, Play
from ludus.agent import Agent
from ludus.environment import Environment, Scenario
from ludus.errors import ContractError
from ludus.records import Fixture


def play_out(
    environment: Environment,
    fixtures: Sequence[Fixture],
    resolve: Callable[[Fixture, int], tuple[Actor, int]],
    *,
    stop: Callable[[], object] = lambda: None,
) -> dict[str, np.ndarray]:
    """Play all matches of the fixtures.

    Args:
        environment: A fresh batch; its caller closes it.
        fixtures: Which matches, and whose.
        resolve: Says who plays a seat of a fixture, see `Play`.
        stop: Asked before every tick; what is true ends the play.

    Returns:
        Arrays over all matches, as `Play` reports them; none where `stop` ended the play, since the matches that end
        first are no fair part of them.

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
        if stop():
            return {}
        play.step()
        ended = sum(part["number"].size for part in parts[seen:])
        missing, seen, since = missing - ended, len(parts), 0 if ended else since + 1
        if since > 1_000_000:
            raise ContractError(
                f"environment {environment.spec.name!r}: no match ended for a million ticks; expected every match to "
                f"end — give it a time limit"
            )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def play_matches(
    environment: Environment,
    seatings: Sequence[Sequence[Agent]],
    *,
    matches: int,
    seed: int,
    scenario: Scenario | None = None,
) -> list[dict[str, np.ndarray]]:
    """Play agents against each other, on the same seeds in every seating.

    Args:
        environment: A fresh batch; its caller closes it.
        seatings: For each the agent in every seat, in the environment's seat order; an agent may take several seats.
        matches: Of each seating.
        seed: Seeds of matches and sampling derive from it.
        scenario: What is played.

    Returns:
        For every seating arrays over its matches: ``ticks [n] int32``, ``outcome [n, teams] float32``, and
        ``returns [n, seats] float32``, the sum of each seat's rewards.
    """
    rng, seats = np.random.default_rng(seed), tuple(map(str, range(len(environment.spec.seats))))
    actors = {id(agent): AgentActor(agent, rng) for seating in seatings for agent in seating}
    start = scenario or Scenario()
    fixtures = [
        Fixture(id=i, kind="eval", player="", participants=seats, seed=seed, matches=matches, reason="", scenario=start)
        for i in range(len(seatings))
    ]
    played = play_out(environment, fixtures, lambda fixture, seat: (actors[id(seatings[fixture.id][seat])], 0))
    return [{name: array[played["fixture"] == i] for name, array in played.items()} for i in range(len(seatings))]
