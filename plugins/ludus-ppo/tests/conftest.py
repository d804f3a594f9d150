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
from ludus_ppo.algorithm import PPO
from ludus_ppo.config import PPOConfig


@pytest.fixture
def make_ppo():
    """Return a function that makes PPO for an action space, one pass and plain values by default."""

    def make(
        action_space=None, *, privileged=None, build_network=None, hidden=(16,), labels_used=None, **options
    ) -> PPO:
        role = Role(
            name="cat",
            observation_space=spaces.Box(-1, 1, (3,), np.float32),
            action_space=action_space or spaces.Discrete(4),
            teams=(0, 1),
            privileged_space=privileged,
            labels_used=labels_used,
        )
        build = build_network or (lambda request: make_mlp(MLPConfig(hidden=hidden), request=request))
        options = {"learning_rate": 3e-4, "num_minibatches": 4, "epochs": 1, "normalize_value": False, **options}
        return PPO(PPOConfig(**options), context=AlgorithmContext(role=role, build_network=build))

    return make


@pytest.fixture
def make_batch():
    """Return a function that plays N full segments of T decisions of a game of chance."""

    def make(ppo: PPO, *, steps: int = 8, segments: int = 6, seed: int = 0, privileged=None) -> SegmentBatch:
        rng = np.random.default_rng(seed)
        trainer, policy = ppo.make_trainer(seed=1), ppo.make_policy()
        policy.load(trainer.weights())
        shape = (steps + 1, segments)
        observation = rng.uniform(-1, 1, (*shape, 3)).astype(np.float32)
        hidden = {
            name: rng.uniform(-1, 1, (*shape, size)).astype(np.float32) for name, size in (privileged or {}).items()
        }
        decision = policy.act(
            PolicyInput(
                {"obs": observation.reshape(-1, 3)},
                privileged={name: leaf.reshape(-1, leaf.shape[-1]) for name, leaf in hidden.items()},
            ),
            rng=rng,
        )
        return SegmentBatch(
            observation={"obs": observation},
            privileged=hidden,
            action=decision.action.reshape(*shape, -1),
            reward=rng.standard_normal(shape).astype(np.float32),
            terminated=rng.random(shape) < 0.1,
            truncated=np.zeros(shape, bool),
            decided=np.ones(shape, bool),
            elapsed_ticks=np.ones(shape, np.int32),
            extras={name: array.reshape(*shape, *array.shape[1:]) for name, array in decision.extras.items()},
            length=np.full(segments, steps, np.int32),
            version=np.zeros(segments, np.int64),
        )

    return make
