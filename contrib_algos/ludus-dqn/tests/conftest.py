"""Roles, networks and batches for the tests of DQN."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus import Role
from ludus.algorithm import AlgorithmContext
from ludus.segment import SegmentBatch
from ludus_dqn.algorithm import DQN
from ludus_dqn.config import DQNConfig
from ludus_networks.config import MLPConfig
from ludus_networks.network import make_mlp

ACTIONS = 4


def _network(request):
    return make_mlp(MLPConfig(hidden=(16,)), request=request)


@pytest.fixture
def make_dqn():
    """Return a function that makes DQN with the given options."""

    def make(action_space=None, *, build_network=_network, **options) -> DQN:
        role = Role(
            name="cat",
            observation_space=spaces.Box(-1, 1, (3,), np.float32),
            action_space=action_space or spaces.Discrete(ACTIONS),
            teams=(0, 1),
        )
        small = {"learning_starts": 10, "minibatch_size": 8, "updates_per_batch": 2, "replay_capacity": 500}
        context = AlgorithmContext(role=role, build_network=build_network)
        return DQN(DQNConfig(**{**small, **options}), context=context)

    return make


@pytest.fixture
def make_batch():
    """Return a function that makes N full segments of T random decisions; some matches terminate."""

    def make(*, steps=8, segments=6, seed=0, opponent_value=None) -> SegmentBatch:
        rng = np.random.default_rng(seed)
        shape = (steps + 1, segments)
        action = rng.integers(0, ACTIONS, (*shape, 1))
        mask = rng.random((*shape, ACTIONS)) < 0.5
        np.put_along_axis(mask, action, values=True, axis=2)
        extras = {}
        if opponent_value is not None:
            extras["opponent_value"] = np.full(shape, opponent_value, np.float32)
            extras["opponent_lowest"] = np.full(shape, -2.0, np.float32)
        return SegmentBatch(
            observation={"obs": rng.uniform(-1, 1, (*shape, 3)).astype(np.float32)},
            action=action,
            action_mask=mask,
            reward=rng.standard_normal(shape).astype(np.float32),
            terminated=rng.random(shape) < 0.1,
            truncated=np.zeros(shape, bool),
            decided=np.ones(shape, bool),
            elapsed_ticks=np.ones(shape, np.int32),
            extras=extras,
            length=np.full(segments, steps, np.int32),
            version=np.zeros(segments, np.int64),
        )

    return make
