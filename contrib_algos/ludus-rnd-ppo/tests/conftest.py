"""Fixtures: roles, networks and batches."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus import Role
from ludus.algorithm import AlgorithmContext, PolicyInput
from ludus.segment import SegmentBatch
from ludus_networks.config import MLPConfig
from ludus_networks.network import make_mlp
from ludus_rnd_ppo.algorithm import RNDPPO
from ludus_rnd_ppo.config import RNDPPOConfig
from ludus_rnd_ppo.networks import Novelty


def _network(request):
    return make_mlp(MLPConfig(hidden=(16,)), request=request)


@pytest.fixture
def make_rnd():
    """Return a function that makes RND-PPO for an observation space, with options."""

    def make(observation_space=None, *, build_network=_network, **options) -> RNDPPO:
        role = Role(
            name="cat",
            observation_space=observation_space or spaces.Box(-1, 1, (3,), np.float32),
            action_space=spaces.Discrete(4),
            teams=(0, 1),
        )
        single_pass = {"num_minibatches": 4, "epochs": 1, "normalize_value": False}
        options = {**single_pass, "predictor_share": 1.0, "rnd_features": 5, **options}
        return RNDPPO(RNDPPOConfig(**options), context=AlgorithmContext(role=role, build_network=build_network))

    return make


@pytest.fixture
def make_novelty():
    """Return a function that makes predictor and target of an algorithm."""
    return lambda rnd: Novelty(rnd._config, context=rnd._context)


@pytest.fixture
def make_batch():
    """Return a function that plays N segments of T decisions of a game of chance; some matches terminate."""

    def make(rnd: RNDPPO, *, steps: int = 8, segments: int = 6, seed: int = 0) -> SegmentBatch:
        rng = np.random.default_rng(seed)
        trainer, policy = rnd.make_trainer(seed=1), rnd.make_policy()
        policy.load(trainer.weights())
        shape = (steps + 1, segments)
        observation = rng.uniform(-1, 1, (*shape, 3)).astype(np.float32)
        start = policy.initial_state(1)
        decision = policy.act(
            PolicyInput(
                {"obs": observation.reshape(-1, 3)},
                state={name: leaf.repeat(observation.size // 3, axis=0) for name, leaf in start.items()},
            ),
            rng=rng,
        )
        return SegmentBatch(
            observation={"obs": observation},
            action=decision.action.reshape(*shape, -1),
            reward=rng.standard_normal(shape).astype(np.float32),
            terminated=rng.random(shape) < 0.2,
            truncated=np.zeros(shape, bool),
            decided=np.ones(shape, bool),
            elapsed_ticks=rng.integers(1, 4, shape).astype(np.int32),
            extras={name: array.reshape(*shape, *array.shape[1:]) for name, array in decision.extras.items()},
            initial_state=policy.initial_state(segments),
            length=np.full(segments, steps, np.int32),
            version=np.zeros(segments, np.int64),
        )

    return make
