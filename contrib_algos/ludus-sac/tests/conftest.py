"""Roles, networks and batches for the tests of SAC."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus import Role
from ludus.algorithm import AlgorithmContext
from ludus.segment import SegmentBatch
from ludus_networks.config import MLPConfig
from ludus_networks.network import make_mlp
from ludus_sac.algorithm import SAC
from ludus_sac.config import SACConfig

ACTIONS = 4
BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))


def _network(request):
    return make_mlp(MLPConfig(hidden=(16,)), request=request)


@pytest.fixture
def make_sac():
    """Return a function that makes SAC for an action space with the given options."""

    def make(action_space=None, *, privileged=None, observation=None, build_network=_network, **options) -> SAC:
        role = Role(
            name="cat",
            observation_space=observation or spaces.Box(-1, 1, (3,), np.float32),
            action_space=spaces.Discrete(ACTIONS) if action_space is None else action_space,
            teams=(0, 1),
            privileged_space=privileged,
        )
        small = {"learning_starts": 10, "minibatch_size": 8, "updates_per_batch": 2, "replay_capacity": 500}
        context = AlgorithmContext(role=role, build_network=build_network)
        return SAC(SACConfig(**{**small, **options}), context=context)

    return make


@pytest.fixture(params=["discrete", "continuous"])
def space(request):
    """Return an action space of each kind."""
    return spaces.Discrete(ACTIONS) if request.param == "discrete" else BOX


@pytest.fixture
def make_batch():
    """Return a function that makes N full segments of T random decisions; some matches terminate."""

    def make(space=None, *, steps=8, segments=6, seed=0, privileged=False) -> SegmentBatch:
        rng = np.random.default_rng(seed)
        shape = (steps + 1, segments)
        action, mask = rng.integers(0, ACTIONS, (*shape, 1)), rng.random((*shape, ACTIONS)) < 0.5
        np.put_along_axis(mask, action, values=True, axis=2)
        if isinstance(space, spaces.Box):
            action, mask = rng.uniform(space.low, space.high, (*shape, 2)).astype(np.float32), None
        hidden = {"hidden": rng.uniform(-1, 1, (*shape, 2)).astype(np.float32)} if privileged else {}
        return SegmentBatch(
            observation={"obs": rng.uniform(-1, 1, (*shape, 3)).astype(np.float32)},
            privileged=hidden,
            action=action,
            action_mask=mask,
            reward=rng.standard_normal(shape).astype(np.float32),
            terminated=rng.random(shape) < 0.1,
            truncated=np.zeros(shape, bool),
            decided=np.ones(shape, bool),
            elapsed_ticks=np.ones(shape, np.int32),
            length=np.full(segments, steps, np.int32),
            version=np.zeros(segments, np.int64),
        )

    return make
