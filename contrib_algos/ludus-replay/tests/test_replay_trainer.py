"""What trainers with a replay memory share, by one that learns the mean reward."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from attrs import frozen
from ludus.algorithm import OffPolicyTrainer
from ludus.errors import ConfigError, ContractError, ModelError
from ludus_replay import ReplayLayout
from ludus_replay.optimizer import PartOptimizer
from ludus_replay.trainer import Learned, ReplayTrainer
from torch import nn


@frozen(kw_only=True)
class Options:
    """What the common part reads."""

    learning_rate_schedule: str = "constant"
    gamma: float = 0.9
    discount_per: str = "decision"
    n_step: int = 1
    tau: float = 0.25
    batch_decisions: int = 32
    updates_per_batch: int = 3
    minibatch_size: int = 8
    learning_starts: int = 10
    replay_capacity: int = 200
    replay_memory_mb: float = 1.0
    checkpoint_replay: bool = True
    cpu_kernels: str = "auto"
    cuda_graphs: bool = True


class Model(nn.Module):
    """One part that has a slow copy and a buffer, and one that has none."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.BatchNorm1d(1, affine=True)
        self.other = nn.Parameter(torch.zeros(()))


class MeanTrainer(ReplayTrainer[Options, Model]):
    """Learns how large rewards are."""

    def __init__(self, options, role, *, seed=0, sums=()):
        model = Model()
        self.optimizer = PartOptimizer(dict(model.named_parameters()), eps=1e-8, max_grad_norm=1.0)
        self.fault: str | None = None
        self.counted: list[dict[str, torch.Tensor]] = []
        self.summed = sums
        super().__init__(
            options,
            model,
            slow=model.mean,
            optimizers=[self.optimizer],
            algorithm="mean",
            role=role,
            layout=ReplayLayout.of(role, sums=sums),
            seed=seed,
        )
        self._state["learned"] = torch.tensor(0)

    def _update_statistics(self, observation, privileged, action):
        self.counted.append({**observation, **privileged, "action": action})
        self._model.mean.running_var += len(action)
        if self.fault == "refuses to count":
            raise ContractError("too large for statistics")

    def _sums(self, batch):
        return {name: np.ones_like(batch.reward) for name in self.summed}

    def _compute(self, minibatch):
        loss = (self._model.mean.bias - minibatch.drawn.reward).square().mean() + self._model.other.square()
        norm = self.optimizer.step(loss, learning_rate=0.1 * minibatch.knobs["scale"])
        self._model.mean.running_mean += 1
        self._update_target()
        return (torch.stack([loss.detach(), norm]),)

    def _learn(self, batch, *, progress):
        self._state["learned"] += batch.num_decisions
        knobs = self._knobs(scale=self._learning_rate_scale(progress))

        def step(rng):
            drawn = self._replay.sample(self._config.minibatch_size, rng)
            (found,) = self._computed(drawn, knobs, {})
            if self.fault == "raises":
                raise RuntimeError("a defect")
            return found * torch.tensor([np.nan if self.fault == "nan" else 1.0, 1.0])

        learned = self._steps(step, metrics=("loss", "norm"), advice="do something else")
        return Learned({**learned.metrics, "progress": progress}, learned.gradient_steps)


@pytest.fixture
def make_trainer(role):
    """Return a function that makes the trainer, with options."""

    def make(*, seed=0, sums=(), **options) -> MeanTrainer:
        return MeanTrainer(Options(**options), role, seed=seed, sums=sums)

    return make


@pytest.fixture
def batch(make_batch):
    """Return a batch of some decisions, all of them defined."""
    return make_batch(seed=1, steps=8, segments=8)


def same(one, other):
    """Return whether named arrays are equal."""
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


# -- updates -------------------------------------------------------------------------------------------------------


def test_an_update_remembers_and_learns(make_trainer, batch):
    """Three steps of eight samples each, on all decisions of the batch."""
    trainer = make_trainer()
    result = trainer.update(batch, progress=0.5)
    fresh = batch.num_decisions
    assert (result.gradient_steps, result.samples) == (3, 24)
    assert result.metrics["replay_size"] == fresh
    assert result.metrics["reuse"] == pytest.approx(24 / fresh)
    assert int(trainer.state()["updates"]) == 1
    assert trainer.batch_decisions == 32


def test_it_learns_from_decisions_of_any_weights(make_trainer):
    """So learners drop none for its age: every gradient step makes a version, and a memory holds thousands of them."""
    trainer = make_trainer()
    assert isinstance(trainer, OffPolicyTrainer)
    assert trainer.off_policy


def test_nothing_is_learned_before_there_is_enough_to_draw_from(make_trainer, batch):
    """The memory fills all the same."""
    trainer = make_trainer(learning_starts=batch.num_decisions + 1)
    first, second = (trainer.update(batch, progress=0.0) for _ in range(2))
    assert (first.gradient_steps, first.samples) == (0, 0)
    assert "loss" not in first.metrics
    assert second.gradient_steps == 3


@pytest.mark.parametrize(("progress", "scale"), [(-1.0, 1.0), (0.25, 0.75), (2.0, 0.0)])
def test_progress_lies_between_0_and_1(make_trainer, batch, progress, scale):
    """Whatever the learner says, and what is left of the learning rate follows from it."""
    trainer = make_trainer(learning_rate_schedule="linear")
    told = trainer.update(batch, progress=progress).metrics["progress"]
    assert trainer._learning_rate_scale(told) == pytest.approx(scale)


def test_a_constant_learning_rate_stays(make_trainer):
    """However far training is."""
    assert make_trainer()._learning_rate_scale(1.0) == 1.0


def test_the_target_follows_its_part(make_trainer, batch):
    """A quarter of the way at every step; buffers are copied."""
    trainer = make_trainer(updates_per_batch=1)
    start = float(trainer._target.bias)
    trainer.update(batch, progress=0.0)
    assert float(trainer._target.bias) == pytest.approx(0.75 * start + 0.25 * trainer._model.mean.bias.item())
    assert float(trainer._target.running_mean) == 1.0
    assert not any(parameter.requires_grad for parameter in trainer._target.parameters())


def test_further_sums_are_remembered(make_trainer, batch):
    """Discounted like the reward."""
    trainer = make_trainer(sums=("ones",), n_step=2)
    trainer.update(batch, progress=0.0)
    drawn = trainer._replay.sample(100, np.random.default_rng(0))
    assert set(np.unique(drawn.sums["ones"]).round(6)) == {np.float32(1.0), np.float32(1.9)}


def test_every_decision_is_counted_once(make_trainer, batch):
    """In the order of the segments, however often it is drawn, and before there is enough to draw from."""
    trainer = make_trainer(updates_per_batch=20, learning_starts=batch.num_decisions + 1)
    for _ in range(2):
        trainer.update(batch, progress=0.0)
    assert len(trainer.counted) == 2
    arrays = {**batch.observation, **batch.privileged, "action": batch.action}
    for counted in trainer.counted:
        assert counted.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(counted[name], array[batch.trainable()])


def test_a_batch_without_decisions_is_refused(make_trainer, batch):
    """There is nothing to remember."""
    batch.length[:] = 0
    with pytest.raises(ContractError, match="mean: a batch without a single trainable decision"):
        make_trainer().update(batch, progress=0.0)


def test_a_forbidden_action_is_refused(make_trainer, batch):
    """Its mask was another when it was taken."""
    batch.action_mask[...] = True
    np.put_along_axis(batch.action_mask, batch.action, values=False, axis=2)
    with pytest.raises(ContractError, match="role player, label 0: a recorded action is forbidden"):
        make_trainer().update(batch, progress=0.0)


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("raises", RuntimeError, "a defect"),
        ("nan", ContractError, "mean: loss not finite; .* do something else"),
        ("refuses to count", ContractError, "too large for statistics"),
    ],
)
def test_an_update_that_fails_is_undone(make_trainer, make_batch, batch, fault, error, message):
    """Weights, buffers, moments, counters, target and memory; then training goes on as if it had not been."""
    trainer, untouched = make_trainer(), make_trainer()
    for each in (trainer, untouched):
        each._model.load_state_dict(untouched._model.state_dict())
        each.update(batch, progress=0.0)
    weights, state = trainer.weights(), trainer.state()
    trainer.fault = fault
    with pytest.raises(error, match=message):
        trainer.update(make_batch(seed=2), progress=0.0)
    assert same(trainer.weights(), weights)
    assert same(trainer.state(), state)
    trainer.fault = None
    for each in (trainer, untouched):
        each.update(make_batch(seed=3), progress=0.0)
    assert same(trainer.weights(), untouched.weights())


def test_too_little_memory_is_refused_at_once(make_trainer):
    """Before anything is played."""
    with pytest.raises(ConfigError, match="at least 500"):
        make_trainer(learning_starts=500)


# -- weights and state ---------------------------------------------------------------------------------------------


def test_starting_from_a_model_starts_its_target_too(make_trainer, batch):
    """Otherwise the first targets would be those of other weights."""
    other = make_trainer(seed=1)
    other.update(batch, progress=0.0)
    trainer = make_trainer()
    trainer.load_weights(other.weights())
    assert same(trainer.weights(), other.weights())
    assert float(trainer._target.bias) == other._model.mean.bias.item()


@pytest.mark.parametrize("checkpoint_replay", [True, False])
def test_a_resumed_trainer_goes_on(make_trainer, make_batch, batch, checkpoint_replay):
    """Bit for bit with its memory; without it the memory alone begins anew."""
    trainer = make_trainer(checkpoint_replay=checkpoint_replay)
    trainer.update(batch, progress=0.0)
    resumed = make_trainer(seed=5, checkpoint_replay=checkpoint_replay)
    resumed.load_weights(trainer.weights())
    resumed.load_state(trainer.state())
    assert same(resumed.state(), trainer.state())
    assert any(name.startswith("replay/") for name in trainer.state()) == checkpoint_replay
    for each in (trainer, resumed):
        each.update(make_batch(seed=2), progress=0.0)
    assert same(trainer.weights(), resumed.weights()) == checkpoint_replay


def test_the_state_of_another_memory_is_refused(make_trainer, batch):
    """Its rows would not fit."""
    trainer = make_trainer()
    trainer.update(batch, progress=0.0)
    with pytest.raises(ModelError, match="capacity"):
        make_trainer(replay_capacity=199).load_state(trainer.state())


# -- the optimiser -------------------------------------------------------------------------------------------------


def test_the_optimiser_is_adam_on_a_clipped_gradient():
    """The norm returned is that before; other parameters of the loss stay."""
    torch.manual_seed(0)
    ours, theirs, other = (nn.Parameter(tensor) for tensor in (torch.ones(3), torch.ones(3), torch.ones(3)))
    optimizer = PartOptimizer({"ours": ours}, eps=1e-5, max_grad_norm=0.5)
    reference = torch.optim.Adam([theirs], lr=0.1, eps=1e-5)
    for _ in range(3):
        norm = optimizer.step((ours * other).square().sum(), learning_rate=0.1)
        reference.zero_grad()
        gradient = 2 * theirs.detach()
        theirs.grad = gradient * (0.5 / gradient.norm())
        assert norm.item() == pytest.approx(gradient.norm().item(), rel=1e-5)
        reference.step()
    assert torch.allclose(ours, theirs, atol=1e-6)
    assert other.grad is None
    assert torch.equal(other, torch.ones(3))


def test_the_optimiser_does_not_import_the_compiler():
    """That takes as long as importing torch."""
    code = """
import sys, torch
from ludus_replay.optimizer import PartOptimizer
parameter = torch.nn.Parameter(torch.ones(2))
PartOptimizer({"p": parameter}, eps=1e-8, max_grad_norm=1.0).step(parameter.sum(), learning_rate=0.1)
print("torch._dynamo" in sys.modules)
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False"]


def test_the_optimiser_has_its_state_from_the_start():
    """By name, and it is the one that steps write to."""
    parameter = nn.Parameter(torch.ones(2))
    optimizer = PartOptimizer({"p": parameter}, eps=1e-8, max_grad_norm=1.0)
    assert optimizer.state.keys() == {"adam/step/p", "adam/exp_avg/p", "adam/exp_avg_sq/p"}
    optimizer.step(parameter.sum(), learning_rate=0.1)
    assert float(optimizer.state["adam/step/p"]) == 1.0
    assert (optimizer.state["adam/exp_avg/p"] != 0).all()
