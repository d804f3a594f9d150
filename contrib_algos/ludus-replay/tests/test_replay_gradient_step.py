"""Tests of gradient steps and of target networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ludus_replay.buffer import ReplayBuffer
from ludus_replay.gradient_step import GradientStep, StepResult
from ludus_replay.layout import ReplayLayout
from ludus_replay.rows import make_rows
from ludus_replay.target import TargetNetwork
from torch import nn


@pytest.fixture
def transitions(role, make_batch):
    """Return a sample with privileged leaves and a further sum."""
    layout = ReplayLayout.for_role(role, sums=("bonus",), privileged=True)
    replay, batch = ReplayBuffer(layout, capacity=100, memory_mb=1), make_batch(2)
    replay.add(make_rows(batch, layout, gamma=0.9, sums={"bonus": np.ones_like(batch.reward)}))
    return replay.sample(8, np.random.default_rng(0))


def test_step_returns_metrics_in_the_order_of_their_names(transitions):
    """And the TD errors."""

    def compute(minibatch):
        reward = minibatch.transitions.reward
        return StepResult({"mean": reward.mean() * minibatch.scalars["scale"], "largest": reward.max()}, reward.abs())

    step = GradientStep(compute, device=torch.device("cpu"), record=True)
    assert step.metric_names == ()
    metrics, error = step(transitions, step.scalars(scale=2.0))
    assert step.metric_names == ("mean", "largest")
    assert metrics.tolist() == pytest.approx([2 * transitions.reward.mean(), transitions.reward.max()])
    np.testing.assert_array_equal(error, np.abs(transitions.reward))


def test_minibatch_names_every_tensor(transitions):
    """A recorded step must copy each of them."""
    step = GradientStep(lambda _: StepResult({}), device=torch.device("cpu"), record=False)
    minibatch = step.minibatch(transitions, step.scalars(scale=1.0), {"next": torch.zeros(8, 2)})
    assert minibatch.named().keys() == {
        "observation/board",
        "observation/speed",
        "privileged/hidden",
        "action",
        "action_mask",
        "reward",
        "discount",
        "next_observation/board",
        "next_observation/speed",
        "next_privileged/hidden",
        "next_action_mask",
        "sums/bonus",
        "weight",
        "scalars/scale",
        "noise/next",
    }


def test_target_network_follows_the_online_module():
    """Parameters by a share, buffers at once; `reset` copies all."""
    online = nn.BatchNorm1d(1)
    target = TargetNetwork(online)
    with torch.no_grad():
        online.bias.fill_(1.0)
        online.running_mean.fill_(5.0)
    target.update(0.25)
    assert target.module.bias.item() == 0.25
    assert target.module.running_mean.item() == 5.0
    target.reset()
    assert target.module.bias.item() == 1.0
    assert not target.module.bias.requires_grad
    assert target.state()["target/bias"].data_ptr() == target.module.bias.data_ptr()
