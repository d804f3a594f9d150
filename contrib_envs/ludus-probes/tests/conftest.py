"""Making and playing probes."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_probes.environment import ROLE
from ludus_probes.plugin import ludus_register_agents, ludus_register_environments

ENVIRONMENTS = {component.name: component for component in ludus_register_environments()}
AGENTS = {component.name: component for component in ludus_register_agents()}


@pytest.fixture
def make():
    """Return a function that makes a probe by name with options."""

    def make(name, num_matches=1, **options):
        component = ENVIRONMENTS[name]
        return component.load_factory()(component.load_config()(**options), num_matches=num_matches)

    return make


@pytest.fixture
def make_agent():
    """Return a function that makes an agent by name for a probe."""

    def make(name, environment, **options):
        component = AGENTS[name]
        config = component.load_config()
        return component.load_factory()(config and config(**options), spec=environment.spec, role=ROLE)

    return make


@pytest.fixture
def start():
    """Return a function that resets all matches, with seeds like those of a run, and returns the role's tick."""

    def start(environment, seed=0):
        seeds = np.random.default_rng(seed).integers(0, 2**64, environment.num_matches, np.uint64)
        return environment.reset(seeds).roles[ROLE]

    return start


@pytest.fixture
def play(start):
    """Return a function that plays all matches to the end and returns the return of every seat, ``[B, S] float64``.

    `decide` gives the actions ``[B, S, L]`` from the role's tick and the number of the tick.
    """

    def play(environment, decide, seed=0):
        player = start(environment, seed)
        total = np.zeros(player.reward.shape)
        for number in range(10_000):
            environment.step({ROLE: decide(player, number)})
            total += player.reward
            if not player.acting.any():
                return total
        raise AssertionError("the matches do not end")

    return play


@pytest.fixture
def by_agent():
    """Return a function that makes a `decide` for `play` of one agent in all seats."""

    def by(agent, rng=0):
        rng = np.random.default_rng(rng)

        def decide(player, number):
            rows, seats = player.acting.shape
            seat_ids = np.arange(rows * seats)
            if number == 0:
                agent.reset(seat_ids)
            leaves = {name: leaf.reshape(rows * seats, *leaf.shape[2:]) for name, leaf in player.observation.items()}
            mask = None if player.action_mask is None else player.action_mask.reshape(rows * seats, -1)
            return agent.act(leaves, action_mask=mask, seat_ids=seat_ids, rng=rng).reshape(rows, seats, -1)

        return decide

    return by
