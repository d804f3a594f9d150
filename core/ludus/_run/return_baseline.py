"""Measure the returns of random play, which outcomes of games with different sides and scored by return refer to."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ludus._league.return_outcome import BASELINE, ReturnOutcome
from ludus._plugins.error_wrapping import close_environment
from ludus._run.context import RunContext
from ludus._run.factories import make_environment
from ludus._sampling.actors import make_agent_actor
from ludus._sampling.evaluation import play_out
from ludus._seeding import generator, seed_for
from ludus._store.store import Store
from ludus.agent import RandomAgent
from ludus.environment import EnvironmentSpec
from ludus.matchmaker import team_sides
from ludus.records import Fixture

_MATCHES = 64
_LIMIT_S = 60.0


def measure_return_baseline(
    run: RunContext, store: Store, *, stop: Callable[[], object], print_line: Callable[[str], None]
) -> None:
    """Store how the outcomes of a run's matches follow from returns, if they do and it is not stored yet.

    Where the sides differ, returns are compared relative to those of random play, which are measured here.

    Args:
        run: The run.
        store: Its store, open for writing.
        stop: Called before every tick; a true value ends the measurement, and nothing is stored.
        print_line: Prints one line for the user.
    """
    spec = run.spec
    if not spec.compares_returns or store.meta(BASELINE) is not None:
        return
    outcome = ReturnOutcome.plain(spec.seats)
    if any(team_sides(spec.seats)):
        print_line(f"returns of random play: {_MATCHES} matches, at most {_LIMIT_S:.0f} s")
        returns = _play_randomly(run, stop)
        if stop():
            return
        if len(returns) < 2:
            print_line(
                f"returns of random play: fewer than 2 matches ended within {_LIMIT_S:.0f} s, so returns of different "
                f"sides are compared as they are; expected shorter matches, such as by an option max_ticks"
            )
        outcome = ReturnOutcome.measured(spec.seats, returns)
    store.set_meta(BASELINE, outcome.json())
    store.commit()


def stored_return_outcome(spec: EnvironmentSpec, store: Store) -> ReturnOutcome | None:
    """Return how outcomes follow from returns, as the store holds it; None if the environment gives outcomes."""
    if not spec.compares_returns:
        return None
    stored = store.meta(BASELINE)
    return ReturnOutcome.plain(spec.seats) if stored is None else ReturnOutcome.of(spec.seats, stored)


def _play_randomly(run: RunContext, stop: Callable[[], object]) -> np.ndarray:
    """Return the returns ``[n, seats]`` of matches in which all seats take random actions."""
    spec, seed = run.spec, run.config.run.seed
    names = tuple(map(str, range(len(spec.seats))))
    fixture = Fixture(
        id=0,
        kind="eval",
        player="",
        participants=names,
        seed=seed_for(seed, "random play"),
        matches=_MATCHES,
        reason="",
    )
    rng = generator(seed, "random play", "actions")
    actors = {role.name: make_agent_actor(RandomAgent(None, spec=spec, role=role.name), rng) for role in spec.roles}
    environment = make_environment(run.config.environment, min(_MATCHES, run.config.evaluation_matches))
    try:
        results = play_out(
            environment,
            [fixture],
            lambda _, seat: (actors[spec.seats[seat].role], 0),
            stop=stop,
            end_s=time.monotonic() + _LIMIT_S,
        )
    finally:
        close_environment(environment)
    if not results:
        return np.zeros((0, len(spec.seats)), np.float32)
    return np.asarray(results["returns"][results["number"].argsort()])
