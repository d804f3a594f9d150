"""Loss terms of plugins: trained, saved and reported with those of PPO."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
import torch
from ludus_ppo.algorithm import PPO
from ludus_ppo.minibatches import evaluate
from ludus_ppo.trainer import PPOTrainer
from torch import nn
from torch.nn.functional import kl_div

README = Path(__file__).parents[1] / "README.md"


class Guess(nn.Module):
    """A term with a parameter of its own: its squared distance from 1."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, minibatch, outputs):
        """Return the loss, and count the calls."""
        self.steps += 1
        loss = (self.weight - 1).square()
        return loss, {"guess_loss": loss.detach(), "guess_rows": torch.tensor(float(minibatch.num_rows))}


class TeacherKL(nn.Module):
    def __init__(self, teacher, *, coefficient):
        super().__init__()
        self.teacher, self.coefficient = teacher.requires_grad_(False), coefficient

    def forward(self, minibatch, outputs):
        with torch.no_grad():
            teacher_logits, _ = evaluate(self.teacher, minibatch)
        student, teacher = outputs.parameters.log_softmax(1), teacher_logits.log_softmax(1)
        kl = kl_div(student, teacher, log_target=True, reduction="batchmean")  # KL(teacher ‖ student)
        return self.coefficient * kl, {"teacher_kl": kl.detach()}


def trainer_of(ppo, **loss_terms):
    """Return a trainer with loss terms."""
    torch.manual_seed(1)
    model = ppo._make_model()
    return PPOTrainer(ppo._config, model, distribution=ppo._distribution, seed=1, loss_terms=loss_terms)


def test_a_module_is_trained_and_saved(make_ppo, make_batch):
    """Its tensors belong to the state of the trainer, not to the weights."""
    ppo = make_ppo(learning_rate=0.01, num_minibatches=2)
    trainer, plain, batch = trainer_of(ppo, guess=Guess()), trainer_of(ppo), make_batch(ppo)
    for one in (trainer, plain):
        one.update(batch, progress=0.0)
    assert trainer.weights().keys() == plain.weights().keys()
    state = trainer.state()
    assert state["guess.weight"] > 0
    assert state["guess.steps"] == 2
    resumed = trainer_of(ppo, guess=Guess())
    resumed.load_weights(trainer.weights())
    resumed.load_state(state)
    for one in (trainer, resumed):
        one.update(batch, progress=0.0)
    assert all(np.array_equal(array, resumed.state()[name]) for name, array in trainer.state().items())


def test_algorithms_make_loss_terms(make_ppo):
    """By overriding a method of PPO; terms that are modules follow the seed."""

    class WithTerm(PPO):
        def make_loss_terms(self):
            return {"term": nn.Linear(2, 2)}

    ppo = make_ppo()
    one, same_seed, other = (
        WithTerm(ppo._config, context=ppo._context).make_trainer(seed=seed).state()["term.weight"] for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same_seed)
    assert not np.array_equal(one, other)


def test_metrics_are_means_over_gradient_steps(make_ppo, make_batch):
    """Under the names that the term reports."""
    ppo = make_ppo(num_minibatches=4)
    metrics = trainer_of(ppo, guess=Guess()).update(make_batch(ppo), progress=0.0).metrics
    assert metrics["guess_loss"] == pytest.approx(1.0, abs=0.01)
    assert metrics["guess_rows"] == 12
    assert "guess_loss" not in trainer_of(ppo).update(make_batch(ppo), progress=0.0).metrics


def test_terms_get_the_outputs_of_the_policy(make_ppo, make_batch):
    """With gradients: a term that only rewards entropy raises it as the bonus of PPO does."""
    options = {"learning_rate": 0.01, "num_minibatches": 2}
    bonus = make_ppo(ent_coef=0.3, **options)
    batch = make_batch(bonus)
    term = trainer_of(make_ppo(ent_coef=0.0, **options), entropy=lambda _, outputs: (-0.3 * outputs.entropy.mean(), {}))
    expected = trainer_of(bonus)
    for one in (term, expected):
        one.update(batch, progress=0.0)
    for name, array in term.weights().items():
        np.testing.assert_allclose(array, expected.weights()[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_the_example_of_the_readme_imitates_its_teacher(make_ppo, make_batch):
    """The divergence from the teacher shrinks, and its weights do not change."""
    assert inspect.getsource(TeacherKL) in README.read_text()
    ppo = make_ppo(learning_rate=0.01, epochs=20)
    teacher = ppo._make_model()
    with torch.no_grad():
        teacher.network.heads["policy"].out.bias.copy_(torch.tensor([2.0, 0.0, -2.0, 0.0]))
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    trainer, batch = trainer_of(ppo, teacher=TeacherKL(teacher, coefficient=10.0)), make_batch(ppo)
    first, last = (trainer.update(batch, progress=0.0).metrics["teacher_kl"] for _ in range(2))
    assert 0 < last < 0.1 * first
    assert all(torch.equal(tensor, before[name]) for name, tensor in teacher.state_dict().items())
