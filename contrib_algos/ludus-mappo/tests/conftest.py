"""Fixtures: roles, networks and batches."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus import Role
from ludus.algorithm import AlgorithmContext, PolicyInput
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
        return make_mappo(MAPPOConfig(**{"num_minibatches": 4, "epochs": 1, **options}), context=context)

    return make


@pytest.fixture
def make_batch():
    """Return a function that plays T decisions per group of three segments, one for each seat of a match.

    Segments begin so many ticks after their matches did; those of half of the matches end halfway, and others follow.
    """

    def make(mappo, *, steps=6, matches=4, seed=0, before=0, ends=False):
        rng, policy = np.random.default_rng(seed), mappo.make_policy()
        policy.load(mappo.make_trainer(seed=1).weights())
        ticks, count = before + steps + 1, matches * SEATS
        seen = rng.uniform(-1, 1, (ticks, matches, SEATS, 3)).astype(np.float32)
        everything = seen.reshape(ticks, matches, 1, 9).repeat(SEATS, axis=2).reshape(ticks, count, 9)
        seen = seen.reshape(ticks, count, 3)
        terminated = np.zeros((ticks, count), bool)
        terminated[before + steps // 2, : count // 2] = ends
        states, decisions = [policy.initial_state(count)], []
        for t in range(ticks):
            decisions.append(
                policy.act(PolicyInput({"obs": seen[t]}, privileged={"all": everything[t]}, state=states[t]), rng=rng)
            )
            ended = terminated[t][:, None]
            after, fresh = decisions[t].state, states[0]
            states.append({name: np.where(ended, fresh[name], leaf) for name, leaf in after.items()})
        played, shape = decisions[before:], (steps + 1, count)
        extras = {name: np.stack([decision.extras[name] for decision in played]) for name in played[0].extras}
        if "seat" in [field.name for field in mappo.fields]:
            extras["seat"] = np.broadcast_to(np.arange(count, dtype=np.int32) % SEATS, shape).copy()
        return SegmentBatch(
            observation={"obs": seen[before:]},
            privileged={"all": everything[before:]},
            action=np.stack([decision.action for decision in played]),
            reward=rng.standard_normal((steps + 1, matches)).repeat(SEATS, axis=1).astype(np.float32),
            terminated=terminated[before:],
            truncated=np.zeros(shape, bool),
            decided=np.ones(shape, bool),
            elapsed_ticks=np.ones(shape, np.int32),
            extras=extras,
            initial_state=states[before],
            length=np.full(count, steps, np.int32),
            version=np.zeros(count, np.int64),
        )

    return make
