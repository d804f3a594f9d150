"""Evaluation matches in this process, for ``ludus eval`` and the last evaluation of a run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ludus._replays.recorder import ReplayRecorder
from ludus._sampling.actors import make_agent_actor
from ludus._sampling.fixture_scheduling import ResolveSeat
from ludus._sampling.match_engine import MatchEngine
from ludus.agent import Agent
from ludus.environment import Environment, Scenario
from ludus.errors import ContractError
from ludus.records import Fixture

_MAX_TICKS_WITHOUT_END = 1_000_000


def play_out(
    environment: Environment,
    fixtures: Sequence[Fixture],
    resolve: ResolveSeat,
    *,
    stop: Callable[[], object] = lambda: None,
    end_s: float = math.inf,
    on_progress: Callable[[int, int], None] = lambda _ended, _total: None,
    replays: ReplayRecorder | None = None,
) -> dict[str, np.ndarray]:
    """Play all matches of the fixtures.

    Args:
        environment: A new batch; the caller closes it.
        fixtures: The fixtures.
        resolve: Returns actor and slot of a seat of a fixture, see `MatchEngine`.
        stop: Called before every tick; a true result ends the evaluation.
        end_s: Time of the monotonic clock at which the evaluation ends. Of every fixture the same first matches count
            then, all up to the first one that has not ended: the matches that end first are no unbiased sample.
        on_progress: Called with the number of matches that have ended, and of all, when some end.
        replays: Records the matches; the caller flushes it.

    Returns:
        Arrays over all matches, see `MatchEngine.on_results`. Empty if `stop` ended the evaluation, or none counts.

    Raises:
        ContractError: No match ended for a million ticks.
    """
    results: list[dict[str, np.ndarray]] = []
    engine = MatchEngine(
        environment=environment,
        resolve=resolve,
        on_results=results.append,
        matches_per_lane=max(1, environment.num_matches // max(len(fixtures), 1)),
        replays=replays,
    )
    for fixture in fixtures:
        engine.add_fixture(fixture)
    missing, num_read, ticks = (total := sum(fixture.matches for fixture in fixtures)), 0, 0
    while missing:
        if stop():
            return {}
        if time.monotonic() > end_s:
            return _complete_part(_join(results), fixtures)
        engine.step()
        ended = sum(arrays["number"].size for arrays in results[num_read:])
        missing, num_read, ticks = missing - ended, len(results), 0 if ended else ticks + 1
        if ended:
            on_progress(total - missing, total)
        if ticks > _MAX_TICKS_WITHOUT_END:
            raise ContractError(
                f"environment {environment.spec.name!r}: no match ended for a million ticks; expected every match to "
                f"end — give it a time limit"
            )
    return _join(results)


def _join(results: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    names = results[0] if results else ()
    return {name: np.concatenate([arrays[name] for arrays in results]) for name in names}


def _complete_part(results: dict[str, np.ndarray], fixtures: Sequence[Fixture]) -> dict[str, np.ndarray]:
    """Return the results of the matches whose number is below that of the first one that has not ended."""
    if not results:
        return {}
    counts = []
    for fixture in fixtures:
        numbers = np.sort(results["number"][results["fixture"] == fixture.id])
        counts.append(int((numbers == np.arange(numbers.size)).sum()))
    counted = results["number"] < min(counts)
    return {name: array[counted] for name, array in results.items()} if counted.any() else {}


def play_matches(
    environment: Environment,
    seatings: Sequence[Sequence[Agent]],
    *,
    matches: int,
    seed: int,
    scenario: Scenario | None = None,
) -> list[dict[str, np.ndarray]]:
    """Play matches between agents, with the same match seeds for every seating.

    Args:
        environment: A new batch; the caller closes it.
        seatings: Agents of all seats, in the environment's seat order; an agent may have several seats.
        matches: Number of matches of each seating.
        seed: Seed of matches and of sampling.
        scenario: The scenario; None for the default one.

    Returns:
        For each seating arrays over its matches: ``ticks [n] int32``, ``outcome [n, teams] float32`` and
        ``returns [n, seats] float32``, the sum of each seat's rewards; and ``"statistic/ROLE/NAME" [n, S] float32``,
        the statistics of the seats of each role.
    """
    rng, seats = np.random.default_rng(seed), tuple(map(str, range(len(environment.spec.seats))))
    actors = {id(agent): make_agent_actor(agent, rng) for seating in seatings for agent in seating}
    start = scenario or Scenario()
    fixtures = [
        Fixture(id=i, kind="eval", player="", participants=seats, seed=seed, matches=matches, reason="", scenario=start)
        for i in range(len(seatings))
    ]
    results = play_out(environment, fixtures, lambda fixture, seat: (actors[id(seatings[fixture.id][seat])], 0))
    return [{name: array[results["fixture"] == i] for name, array in results.items()} for i in range(len(seatings))]
