"""Fixtures: roles, networks and batches."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus import Role
from ludus.algorithm import AlgorithmContext, PolicyInput
from ludus.segment import SegmentBatch
from ludus_minimax.algorithm import MinimaxPPO
from ludus_minimax.config import MinimaxPPOConfig
from ludus_networks.config import MLPConfig
from ludus_networks.network import make_mlp
from ludus_ppo.algorithm import PPO
from ludus_ppo.config import PPOConfig


@pytest.fixture
def context():
    """Return the context of a role with three numbers, four actions and a small network."""
    role = Role(
        name="cat",
        observation_space=spaces.Box(-1, 1, (3,), np.float32),
        action_space=spaces.Discrete(4),
        teams=(0, 1),
    )
    return AlgorithmContext(role=role, build_network=lambda request: make_mlp(MLPConfig(hidden=(16,)), request=request))


@pytest.fixture
def make_minimax(context):
    """Return a function that makes the algorithm, with options."""
    return lambda **options: MinimaxPPO(MinimaxPPOConfig(**options), context=context)


@pytest.fixture
def make_ppo(context):
    """Return a function that makes plain PPO, with options."""
    return lambda **options: PPO(PPOConfig(**options), context=context)


@pytest.fixture
def make_batch():
    """Return a function that plays N segments of T decisions, with evaluations by an opponent."""

    def make(algorithm, *, opponent_value=None, lowest=np.nan, steps=8, segments=6, seed=0) -> SegmentBatch:
        rng = np.random.default_rng(seed)
        policy = algorithm.make_policy()
        policy.load(algorithm.make_trainer(seed=1).weights())
        shape = (steps + 1, segments)
        observation = rng.uniform(-1, 1, (*shape, 3)).astype(np.float32)
        decision = policy.act(PolicyInput({"obs": observation.reshape(-1, 3)}), rng=rng)
        extras = {name: array.reshape(*shape, *array.shape[1:]) for name, array in decision.extras.items()}
        if opponent_value is not None:
            extras["opponent_value"] = np.broadcast_to(np.asarray(opponent_value, np.float32), shape).copy()
            extras["opponent_lowest"] = np.full(shape, lowest, np.float32)
        return SegmentBatch(
            observation={"obs": observation},
            action=decision.action.reshape(*shape, -1),
            reward=rng.standard_normal(shape).astype(np.float32),
            terminated=rng.random(shape) < 0.2,
            truncated=np.zeros(shape, bool),
            decided=np.ones(shape, bool),
            elapsed_ticks=rng.integers(1, 4, shape).astype(np.int32),
            extras=extras,
            length=np.full(segments, steps, np.int32),
            version=np.zeros(segments, np.int64),
        )

    return make
