"""Parts that agents share."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus import EnvironmentSpec, Role
from ludus.agent import RandomAgent, grow_states


def test_states_grow_with_the_seat_ids():
    """Existing seats keep their values, new seats start with zeros."""
    states = grow_states(np.zeros(0, [("aim", np.float64, (2,)), ("known", np.bool_)]), np.array([1]))
    states[1] = ([3.0, 4.0], True)
    grown = grow_states(states, np.array([5, 1]))
    assert grown["aim"].tolist() == [[0, 0], [3, 4], [0, 0], [0, 0], [0, 0], [0, 0]]
    assert np.flatnonzero(grown["known"]).tolist() == [1]
    assert grow_states(grown, np.array([5])) is grown
    assert grow_states(grown, np.zeros(0, np.int64)) is grown


def test_the_random_agent_chooses_legal_actions():
    """One action for every seat, of the space of its role."""
    role = Role(
        name="guest", observation_space=spaces.Discrete(1), action_space=spaces.MultiDiscrete([2, 3]), teams=(0,)
    )
    agent = RandomAgent(None, spec=EnvironmentSpec(name="any", roles=(role,), turn="simultaneous"), role="guest")
    mask = np.tile([True, False, False, True, True], (50, 1))
    agent.reset(np.arange(50))
    actions = agent.act({}, action_mask=mask, seat_ids=np.arange(50), rng=np.random.default_rng(0))
    assert [sorted(set(column)) for column in actions.T.tolist()] == [[0], [1, 2]]
