"""Roles, networks and batches that the tests of MAPPO share."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus import Role
from ludus.algorithm import AlgorithmContext
from ludus.segment import SegmentBatch
from ludus_mappo.algorithm import make_mappo
from ludus_mappo.config import MAPPOConfig
from ludus_networks.config import MLPConfig
from ludus_networks.network import make_mlp

SEATS = 3


def _network(request):
    return make_mlp(MLPConfig(hidden=(16,)), request=request)


def _role(*, privileged=True):
    return Role(
        name="mouse",
        observation_space=spaces.Box(-1, 1, (3,), np.float32),
        action_space=spaces.Discrete(4),
        teams=(0,) * SEATS,
        privileged_space=spaces.Dict({"all": spaces.Box(-1, 1, (9,), np.float32)}) if privileged else None,
    )


@pytest.fixture
def make_mappo_of():
    """Return a function that makes MAPPO for a team of three seats, with options."""

    def make(*, privileged=True, build_network=_network, build_inference=None, **options):
        runtime = {} if build_inference is None else {"build_inference": build_inference}
        context = AlgorithmContext(role=_role(privileged=privileged), build_network=build_network, **runtime)
        return make_mappo(MAPPOConfig(**options), context=context)

    return make


@pytest.fixture
def make_batch():
    """Return a function that plays a match of T decisions per group of three segments, one for each seat."""

    def make(mappo, *, steps=6, matches=4, seed=0):
        rng = np.random.default_rng(seed)
        trainer, policy = mappo.make_trainer(seed=1), mappo.make_policy()
        policy.load(trainer.weights())
        shape = (steps + 1, matches, SEATS)
        seen = rng.uniform(-1, 1, (*shape, 3)).astype(np.float32)
        everything = seen.reshape(steps + 1, matches, 1, 9).repeat(SEATS, axis=2)
        shape = (steps + 1, matches * SEATS)
        state = policy.initial_state(1)
        decision = policy.act(
            {"obs": seen.reshape(-1, 3)},
            action_mask=None,
            privileged={"all": everything.reshape(-1, 9)},
            state={name: leaf.repeat(seen.size // 3, axis=0) for name, leaf in state.items()},
            rng=rng,
        )
        return SegmentBatch(
            observation={"obs": seen.reshape(*shape, 3)},
            privileged={"all": everything.reshape(*shape, 9)},
            action=decision.action.reshape(*shape, 1),
            reward=rng.standard_normal((steps + 1, matches)).repeat(SEATS, axis=1).astype(np.float32),
            terminated=np.zeros(shape, bool),
            truncated=np.zeros(shape, bool),
            decided=np.ones(shape, bool),
            elapsed_ticks=np.ones(shape, np.int32),
            extras={name: array.reshape(*shape, *array.shape[1:]) for name, array in decision.extras.items()},
            initial_state=policy.initial_state(matches * SEATS),
            length=np.full(matches * SEATS, steps, np.int32),
            version=np.zeros(matches * SEATS, np.int64),
        )

    return make
