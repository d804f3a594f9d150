"""Tests of the common part of trainers, with a trainer that learns the mean reward."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from ludus.algorithm import OffPolicyTrainer
from ludus.errors import ConfigError, ContractError, ModelError
from ludus_replay.config import ReplayOptions
from ludus_replay.gradient_step import StepResult
from ludus_replay.layout import ReplayLayout
from ludus_replay.optimizer import LossMinimizer
from ludus_replay.trainer import ReplayTrainer
from torch import nn


class Model(nn.Module):
    """A module with a part that the target network follows, a buffer, and a separate parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.BatchNorm1d(1, affine=True)
        self.other = nn.Parameter(torch.zeros(()))


class MeanTrainer(ReplayTrainer[ReplayOptions, Model]):
    """Learns the mean reward."""

    def __init__(self, options, role, *, seed=0, sums=()):
        model = Model()
        self.minimizer = LossMinimizer(dict(model.named_parameters()), eps=1e-8, max_grad_norm=1.0)
        self.fault: str | None = None
        self.counted: list[dict[str, torch.Tensor]] = []
        self.sums = sums
        super().__init__(
            options,
            model,
            online=model.mean,
            minimizers=[self.minimizer],
            algorithm="mean",
            role=role,
            layout=ReplayLayout.for_role(role, sums=sums),
            seed=seed,
        )
        self._state["decisions"] = torch.tensor(0)

    def _update_statistics(self, observation, privileged, action):
        self.counted.append({**observation, **privileged, "action": action})
        self._model.mean.running_var += len(action)
        if self.fault == "statistics raise":
            raise ContractError("too large for statistics")

    def _columns_to_sum(self, batch):
        return {name: np.ones_like(batch.reward) for name in self.sums}

    def _compute_step(self, minibatch):
        reward = minibatch.transitions.reward
        loss = (self._model.mean.bias - reward).square().mean() + self._model.other.square()
        norm = self.minimizer.step(loss, learning_rate=0.1 * minibatch.scalars["scale"])
        self._model.mean.running_mean += 1
        self._target.update(self._config.tau)
        return StepResult({"loss": loss.detach(), "norm": norm})

    def _train(self, batch, *, progress):
        self._state["decisions"] += batch.num_decisions
        scalars = self._step.scalars(scale=self._learning_rate_scale(progress))

        def step(rng):
            metrics, _ = self._step(self._replay.sample(self._config.minibatch_size, rng), scalars)
            if self.fault == "step raises":
                raise RuntimeError("a defect")
            return metrics * torch.tensor([np.nan if self.fault == "nan" else 1.0, 1.0])

        return self._run_steps(step, advice="do something else") | {"progress": progress}


@pytest.fixture
def make_trainer(role):
    """Return a function that makes the trainer with the given options."""

    def make(*, seed=0, sums=(), **options) -> MeanTrainer:
        small = {
            "gamma": 0.9,
            "tau": 0.25,
            "batch_decisions": 32,
            "updates_per_batch": 3,
            "minibatch_size": 8,
            "learning_starts": 10,
            "replay_capacity": 200,
            "replay_memory_mb": 1.0,
        }
        return MeanTrainer(ReplayOptions(**{**small, **options}), role, seed=seed, sums=sums)

    return make


@pytest.fixture
def batch(make_batch):
    """Return a batch of random segments."""
    return make_batch(seed=1, steps=8, segments=8)


def arrays_equal(one, other):
    """Return whether named arrays are equal."""
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


# -- updates -------------------------------------------------------------------------------------------------------


def test_update_stores_the_batch_and_makes_gradient_steps(make_trainer, batch):
    """Three steps of eight samples each."""
    trainer = make_trainer()
    result = trainer.update(batch, progress=0.5)
    fresh = batch.num_decisions
    assert (result.gradient_steps, result.samples) == (3, 24)
    assert result.metrics["replay_size"] == fresh
    assert result.metrics["reuse"] == pytest.approx(24 / fresh)
    assert int(trainer.state()["updates"]) == 1
    assert trainer.batch_decisions == 32


def test_trainer_is_off_policy(make_trainer):
    """Learners drop no segment as too old."""
    trainer = make_trainer()
    assert isinstance(trainer, OffPolicyTrainer)
    assert trainer.off_policy


def test_no_gradient_step_before_learning_starts(make_trainer, batch):
    """The replay buffer fills meanwhile."""
    trainer = make_trainer(learning_starts=batch.num_decisions + 1)
    first, second = (trainer.update(batch, progress=0.0) for _ in range(2))
    assert (first.gradient_steps, first.samples) == (0, 0)
    assert "loss" not in first.metrics
    assert second.gradient_steps == 3


def test_full_buffer_suffices_for_gradient_steps(make_trainer, make_batch):
    """Some rows start no transition, so that a full buffer has fewer transitions than learning_starts."""
    trainer = make_trainer(learning_starts=100, replay_capacity=100)
    results = [trainer.update(make_batch(seed=seed, steps=8, segments=16), progress=0.0) for seed in range(3)]
    assert trainer._replay.full
    assert results[-1].metrics["replay_size"] < 100
    assert results[-1].gradient_steps == 3


def test_minibatch_size_above_the_limit_raises():
    """At the start, and not when the first minibatch is sampled."""
    with pytest.raises(ValueError, match=r"expected a number in \[1, 1e\+06\]"):
        ReplayOptions(minibatch_size=2**40)


@pytest.mark.parametrize(("progress", "scale"), [(-1.0, 1.0), (0.25, 0.75), (2.0, 0.0)])
def test_progress_is_clipped(make_trainer, batch, progress, scale):
    """To [0, 1]; the learning rate follows it."""
    trainer = make_trainer(learning_rate_schedule="linear")
    clipped = trainer.update(batch, progress=progress).metrics["progress"]
    assert trainer._learning_rate_scale(clipped) == pytest.approx(scale)


def test_constant_learning_rate_does_not_depend_on_progress(make_trainer):
    """The scale is 1 at the end."""
    assert make_trainer()._learning_rate_scale(1.0) == 1.0


def test_target_follows_the_online_module(make_trainer, batch):
    """By a share of ¼ at every step; buffers are copied."""
    trainer = make_trainer(updates_per_batch=1)
    start = float(trainer._target.module.bias)
    trainer.update(batch, progress=0.0)
    assert float(trainer._target.module.bias) == pytest.approx(0.75 * start + 0.25 * trainer._model.mean.bias.item())
    assert float(trainer._target.module.running_mean) == 1.0
    assert not any(parameter.requires_grad for parameter in trainer._target.module.parameters())


def test_further_columns_are_summed(make_trainer, batch):
    """Discounted like the reward."""
    trainer = make_trainer(sums=("ones",), n_step=2)
    trainer.update(batch, progress=0.0)
    sample = trainer._replay.sample(100, np.random.default_rng(0))
    assert set(np.unique(sample.sums["ones"]).round(6)) == {np.float32(1.0), np.float32(1.9)}


def test_statistics_get_every_decision_once(make_trainer, batch):
    """In the order of the segments, also before the first gradient step."""
    trainer = make_trainer(updates_per_batch=20, learning_starts=batch.num_decisions + 1)
    for _ in range(2):
        trainer.update(batch, progress=0.0)
    assert len(trainer.counted) == 2
    arrays = {**batch.observation, **batch.privileged, "action": batch.action}
    for counted in trainer.counted:
        assert counted.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(counted[name], array[batch.trainable()])


def test_batch_without_decisions_raises(make_trainer, batch):
    """The message names the algorithm."""
    batch.length[:] = 0
    with pytest.raises(ContractError, match="mean: the batch has no trainable decision"):
        make_trainer().update(batch, progress=0.0)


def test_masked_recorded_action_raises(make_trainer, batch):
    """The mask differs from that of the decision."""
    batch.action_mask[...] = True
    np.put_along_axis(batch.action_mask, batch.action, values=False, axis=2)
    with pytest.raises(ContractError, match="role player, label 0: the action mask forbids a recorded action"):
        make_trainer().update(batch, progress=0.0)


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("step raises", RuntimeError, "a defect"),
        ("nan", ContractError, "mean: loss not finite; .* do something else"),
        ("statistics raise", ContractError, "too large for statistics"),
    ],
)
def test_failed_update_is_undone(make_trainer, make_batch, batch, fault, error, message):
    """Weights, buffers, moments, counters, target and replay buffer; later updates are unaffected."""
    trainer, untouched = make_trainer(), make_trainer()
    for each in (trainer, untouched):
        each._model.load_state_dict(untouched._model.state_dict())
        each.update(batch, progress=0.0)
    weights, state = trainer.weights(), trainer.state()
    trainer.fault = fault
    with pytest.raises(error, match=message):
        trainer.update(make_batch(seed=2), progress=0.0)
    assert arrays_equal(trainer.weights(), weights)
    assert arrays_equal(trainer.state(), state)
    trainer.fault = None
    for each in (trainer, untouched):
        each.update(make_batch(seed=3), progress=0.0)
    assert arrays_equal(trainer.weights(), untouched.weights())


def test_too_small_buffer_raises_at_construction(make_trainer):
    """Before any match is played."""
    with pytest.raises(ConfigError, match="at least 500"):
        make_trainer(learning_starts=500)


# -- weights and state ---------------------------------------------------------------------------------------------


def test_load_weights_resets_the_target(make_trainer, batch):
    """The first targets are those of the loaded weights."""
    other = make_trainer(seed=1)
    other.update(batch, progress=0.0)
    trainer = make_trainer()
    trainer.load_weights(other.weights())
    assert arrays_equal(trainer.weights(), other.weights())
    assert float(trainer._target.module.bias) == other._model.mean.bias.item()


@pytest.mark.parametrize("checkpoint_replay", [True, False])
def test_resumed_trainer_continues(make_trainer, make_batch, batch, checkpoint_replay):
    """Bit for bit with the replay buffer; otherwise the buffer alone starts empty."""
    trainer = make_trainer(checkpoint_replay=checkpoint_replay)
    trainer.update(batch, progress=0.0)
    resumed = make_trainer(seed=5, checkpoint_replay=checkpoint_replay)
    resumed.load_weights(trainer.weights())
    resumed.load_state(trainer.state())
    assert arrays_equal(resumed.state(), trainer.state())
    assert any(name.startswith("replay/") for name in trainer.state()) == checkpoint_replay
    for each in (trainer, resumed):
        each.update(make_batch(seed=2), progress=0.0)
    assert arrays_equal(trainer.weights(), resumed.weights()) == checkpoint_replay


def test_state_of_another_buffer_raises(make_trainer, batch):
    """The message names the capacity."""
    trainer = make_trainer()
    trainer.update(batch, progress=0.0)
    with pytest.raises(ModelError, match="capacity"):
        make_trainer(replay_capacity=199).load_state(trainer.state())


# -- the optimizer -------------------------------------------------------------------------------------------------


def test_minimizer_equals_adam_on_a_clipped_gradient():
    """The returned norm is that before clipping; other parameters of the loss are unchanged."""
    torch.manual_seed(0)
    parameter, reference_parameter, other = (
        nn.Parameter(tensor) for tensor in (torch.ones(3), torch.ones(3), torch.ones(3))
    )
    minimizer = LossMinimizer({"p": parameter}, eps=1e-5, max_grad_norm=0.5)
    reference = torch.optim.Adam([reference_parameter], lr=0.1, eps=1e-5)
    for _ in range(3):
        norm = minimizer.step((parameter * other).square().sum(), learning_rate=0.1)
        reference.zero_grad()
        gradient = 2 * reference_parameter.detach()
        reference_parameter.grad = gradient * (0.5 / gradient.norm())
        assert norm.item() == pytest.approx(gradient.norm().item(), rel=1e-5)
        reference.step()
    assert torch.allclose(parameter, reference_parameter, atol=1e-6)
    assert other.grad is None
    assert torch.equal(other, torch.ones(3))


def test_minimizer_does_not_import_the_compiler():
    """Importing torch's compiler takes as long as importing torch."""
    code = """
import sys, torch
from ludus_replay.optimizer import LossMinimizer
parameter = torch.nn.Parameter(torch.ones(2))
LossMinimizer({"p": parameter}, eps=1e-8, max_grad_norm=1.0).step(parameter.sum(), learning_rate=0.1)
print("torch._dynamo" in sys.modules)
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False"]


def test_minimizer_state_is_complete_before_the_first_step():
    """Steps write to the same tensors."""
    parameter = nn.Parameter(torch.ones(2))
    minimizer = LossMinimizer({"p": parameter}, eps=1e-8, max_grad_norm=1.0)
    assert minimizer.state.keys() == {"adam/step/p", "adam/exp_avg/p", "adam/exp_avg_sq/p"}
    minimizer.step(parameter.sum(), learning_rate=0.1)
    assert float(minimizer.state["adam/step/p"]) == 1.0
    assert (minimizer.state["adam/exp_avg/p"] != 0).all()
