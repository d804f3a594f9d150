"""Minibatches that need too much memory are computed in parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import Role
from ludus.algorithm import AlgorithmContext
from ludus.segment import SegmentBatch
from ludus_networks.config import ConvConfig, ModularConfig
from ludus_networks.modular import make_modular
from ludus_networks.network import make_conv
from ludus_ppo import trainer as trainer_module
from ludus_ppo.algorithm import PPO
from ludus_ppo.config import PPOConfig
from ludus_ppo.gradient_step import GradientStep
from ludus_torch.activation_memory import memory_budget, saved_bytes

LEAF = spaces.Box(0, 255, (9, 9, 2), np.uint8)


def build_conv(request):
    """Return a small convolutional network."""
    return make_conv(ConvConfig(channels=(4,), hidden=(8,)), request=request)


def build_recurrent(request):
    """Return a small recurrent network."""
    return make_modular(ModularConfig(torso=(8,), core="gru", core_size=8), request=request)


def make(build, **options):
    """Return PPO with normalized advantages and values."""
    role = Role(name="cat", observation_space=LEAF, action_space=spaces.MultiDiscrete([3, 2]), teams=(0, 1))
    options = {"epochs": 2, "num_minibatches": 2, "batch_decisions": 64, "precision": "fp32", **options}
    return PPO(PPOConfig(**options), context=AlgorithmContext(role=role, build_network=build))


def make_batch(ppo, *, steps=6, segments=11):
    """Return segments of different lengths, with masks."""
    rng, shape = np.random.default_rng(0), (steps + 1, segments)
    mask = np.ones((*shape, 5), bool)
    mask[..., 0] = rng.random(shape) < 0.5
    policy = ppo.make_policy()
    return SegmentBatch(
        observation={"obs": rng.integers(0, 256, (*shape, *LEAF.shape)).astype(np.uint8)},
        action=np.stack([rng.integers(1, 3, shape), rng.integers(0, 2, shape)], axis=-1),
        action_mask=mask,
        reward=rng.standard_normal(shape).astype(np.float32),
        terminated=rng.random(shape) < 0.1,
        truncated=np.zeros(shape, bool),
        decided=np.ones(shape, bool),
        elapsed_ticks=np.ones(shape, np.int32),
        extras={
            "log_prob": rng.uniform(-1, 0, (*shape, 2)).astype(np.float32),
            "value": rng.standard_normal(shape).astype(np.float32),
        },
        length=rng.integers(1, steps + 1, segments).astype(np.int32),
        version=np.zeros(segments, np.int64),
        initial_state=policy.initial_state(segments),
    )


def update(ppo, batch, monkeypatch, *, budget):
    """Return weights, metrics and numbers of parts after an update with a memory budget in bytes."""
    monkeypatch.setattr(trainer_module, "memory_budget", lambda *_: budget)
    parts, step = [], GradientStep.__call__

    def count(self, given, *arguments):
        parts.append(len(given.indices))
        return step(self, given, *arguments)

    monkeypatch.setattr(GradientStep, "__call__", count)
    trainer = ppo.make_trainer(seed=1)
    result = trainer.update(batch, progress=0.0)
    monkeypatch.undo()
    return trainer.weights(), result, parts


@pytest.mark.parametrize(
    ("build", "options", "budget"),
    [
        (build_conv, {}, 40_000),
        (build_conv, {"label_objective": "joint", "value_clip": 0.1}, 1),
        (build_recurrent, {}, 8_000),
        (build_recurrent, {"advantage": "vtrace", "burn_in": 1}, 1),
    ],
)
def test_parts_make_the_gradient_of_the_whole_minibatch(build, options, budget, monkeypatch):
    """With masks, normalized advantages, parts of different sizes and recurrent states, up to rounding."""
    ppo = make(build, **options)
    batch = make_batch(ppo)
    whole, whole_result, whole_parts = update(ppo, batch, monkeypatch, budget=1 << 40)
    divided, result, parts = update(ppo, batch, monkeypatch, budget=budget)
    assert set(whole_parts) == {1}
    assert min(parts) > 1
    for name, weight in whole.items():
        np.testing.assert_allclose(divided[name], weight, atol=2e-5, err_msg=name)
    assert (result.samples, result.gradient_steps) == (whole_result.samples, whole_result.gradient_steps)
    for name, value in whole_result.metrics.items():
        assert result.metrics[name] == pytest.approx(value, rel=1e-3, abs=1e-4), name


def test_a_budget_of_nothing_makes_parts_of_one_row(monkeypatch):
    """And no smaller ones."""
    ppo = make(build_conv)
    batch = make_batch(ppo)
    _, result, parts = update(ppo, batch, monkeypatch, budget=1)
    assert sum(parts) == result.samples


def test_activations_are_counted_once():
    """Tensors that share memory count once, results of layers without gradients do not."""
    linear = torch.nn.Linear(4, 8)
    rows = torch.rand(16, 4)
    kept = saved_bytes(lambda: [linear(rows).relu()])
    assert kept == 4 * (16 * 4 + 16 * 8)  # the input, and the result of the activation


@pytest.mark.parametrize(("activation_mb", "expected"), [(7, 7 << 20), (1000, 1000 << 20)])
def test_the_option_sets_the_budget(activation_mb, expected):
    """In MiB."""
    assert memory_budget(activation_mb, torch.device("cpu")) == expected


def test_the_default_budget_follows_the_machine():
    """Within bounds, and not by the memory that is free."""
    budget = memory_budget(0, torch.device("cpu"))
    assert 1 << 28 <= budget <= 1 << 32
    assert budget == memory_budget(0, torch.device("cpu"))
