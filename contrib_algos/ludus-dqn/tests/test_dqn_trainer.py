"""Tests of the DQN trainer."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from ludus.errors import ContractError, ModelError
from ludus.testing import check_algorithm
from ludus_dqn.algorithm import DQN
from ludus_dqn.config import DQNConfig
from ludus_networks.config import ModularConfig
from ludus_networks.modular import make_modular
from ludus_torch.cuda_graphs import GraphedCallable
from ludus_torch.testing import recorded_on_cpu
from torch import nn


def arrays_equal(one, other):
    """Return whether named arrays are equal."""
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


def copy_target(trainer):
    """Return copies of the parameters of the target network."""
    return {name: tensor.clone() for name, tensor in trainer._target.module.named_parameters()}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prioritized": True, "n_step": 3, "dueling": True},
        {"minimax_alpha": 0.1, "checkpoint_replay": True},
        {"double": False, "loss": "mse", "tau": 0.5, "target_update_steps": 1, "discount_per": "tick"},
    ],
    ids=["plain", "rainbow", "minimax", "others"],
)
def test_contract(options):
    """With gradient steps from the first updates on."""
    config = DQNConfig(learning_starts=10, minibatch_size=16, updates_per_batch=2, replay_capacity=500, **options)
    check_algorithm(lambda context: DQN(config, context=context))


# -- one step by hand ----------------------------------------------------------------------------------------------


def compute_reference(trainer, sample, *, weight, loss):
    """Return loss and gradients of sampled transitions, row by row from the definition."""
    model, target = trainer._model, trainer._target.module
    total = torch.zeros(())
    for row in range(len(sample.reward)):

        def q(net, leaf, row=row):
            return net({"obs": torch.from_numpy(leaf["obs"][row : row + 1])})[0]

        with torch.no_grad():
            legal = np.flatnonzero(sample.next_action_mask[row])
            online = q(model, sample.next_observation)
            best = max(legal, key=lambda a: float(online[a]))
            later = q(target, sample.next_observation)[best]
            target_q = float(sample.reward[row]) + float(sample.discount[row]) * later
        error = q(model, sample.observation)[int(sample.action[row, 0])] - target_q
        size = error.abs()
        one = error**2 if loss == "mse" else torch.where(size < 1, 0.5 * error**2, size - 0.5)
        total = total + weight[row] * one / len(sample.reward)
    return total, torch.autograd.grad(total, list(trainer._model.parameters()))


@pytest.mark.parametrize("loss", ["huber", "mse"])
@pytest.mark.parametrize("prioritized", [False, True])
def test_gradient_step_equals_the_definition(make_dqn, make_batch, loss, prioritized):
    """Double Q-learning over legal actions, with importance weights if samples are prioritized."""
    trainer = make_dqn(loss=loss, prioritized=prioritized, max_grad_norm=1e9, n_step=2).make_trainer(seed=0)
    trainer._replay.add(trainer._make_rows(make_batch()))
    with torch.no_grad():
        for tensor in trainer._target.module.parameters():
            tensor.add_(0.3 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1)))
    sample = trainer._replay.sample(20, np.random.default_rng(0), beta=0.5)
    if prioritized:
        trainer._replay.set_priorities(sample.index, np.linspace(0.1, 2.0, 20))
        sample = trainer._replay.sample(20, np.random.default_rng(1), beta=0.5)
        assert sample.weight.min() < 0.9
    expected, gradients = compute_reference(trainer, sample, weight=sample.weight, loss=loss)
    found = trainer._step_and_prioritize(sample, trainer._step.scalars(learning_rate=trainer._config.learning_rate))
    assert found[0].item() == pytest.approx(expected.item(), rel=1e-5)
    for parameter, gradient in zip(list(trainer._model.parameters()), gradients, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-6)


def test_td_errors_become_priorities(make_dqn, make_batch):
    """Of the sampled transitions."""
    trainer = make_dqn(prioritized=True, priority_exponent=1.0, learning_rate=1e-12).make_trainer(seed=0)
    trainer._replay.add(trainer._make_rows(make_batch()))
    sample = trainer._replay.sample(20, np.random.default_rng(0))
    trainer._step_and_prioritize(sample, trainer._step.scalars(learning_rate=trainer._config.learning_rate))
    with torch.no_grad():
        q = trainer._model({"obs": torch.from_numpy(sample.observation["obs"])})
        q = q.gather(1, torch.from_numpy(sample.action)).squeeze(1)
        error = (q - trainer._td_target(sample.map(torch.from_numpy), torch.from_numpy(sample.reward))).abs().numpy()
    assert trainer._replay._tree.get(sample.index) == pytest.approx(error, abs=1e-5)


def test_gradients_are_clipped(make_dqn, make_batch):
    """The metric is the norm before clipping."""
    trainer = make_dqn(max_grad_norm=1e-3).make_trainer(seed=0)
    result = trainer.update(make_batch(), progress=0.0)
    norm = torch.stack([parameter.grad.norm() for parameter in list(trainer._model.parameters())]).norm()
    assert norm <= 1.001e-3 < result.metrics["grad_norm"]


# -- the course of training ----------------------------------------------------------------------------------------


def test_metric_names(make_dqn, make_batch):
    """Renaming a metric breaks users; reuse is samples per fresh decision."""
    result = make_dqn().make_trainer(seed=0).update(make_batch(), progress=0.0)
    assert result.metrics.keys() == {
        "epsilon",
        "grad_norm",
        "learning_rate",
        "loss",
        "q_mean",
        "replay_size",
        "reuse",
        "td_error",
    }
    assert result.metrics["reuse"] == pytest.approx(2 * 8 / 48)


def test_epsilon_decays_with_decisions_and_is_part_of_the_weights(make_dqn, make_batch):
    """From 1 to 0.2 over 96 decisions, then constant."""
    trainer = make_dqn(epsilon=0.2, epsilon_decisions=96).make_trainer(seed=0)
    found = [float(trainer.weights()["epsilon"])]
    for seed in range(3):
        metrics = trainer.update(make_batch(seed=seed), progress=0.0).metrics
        found.append(float(trainer.weights()["epsilon"]))
        assert metrics["epsilon"] == pytest.approx(found[-1])
    assert found == pytest.approx([1.0, 0.6, 0.2, 0.2])


def test_epsilon_is_constant_without_decay(make_dqn):
    """As in the paper: 0.01 throughout."""
    trainer = make_dqn(epsilon_decisions=0).make_trainer(seed=0)
    assert trainer.weights()["epsilon"] == pytest.approx(0.01)


def test_linear_schedule_scales_the_learning_rate(make_dqn, make_batch):
    """At ¾ of the budget a quarter remains."""
    trainer = make_dqn(learning_rate=0.1, learning_rate_schedule="linear").make_trainer(seed=0)
    assert trainer.update(make_batch(), progress=0.75).metrics["learning_rate"] == pytest.approx(0.025)


def test_target_is_copied_every_target_update_steps(make_dqn, make_batch):
    """Two gradient steps per update, a copy after the third."""
    trainer = make_dqn(target_update_steps=3).make_trainer(seed=0)
    start = copy_target(trainer)
    trainer.update(make_batch(seed=0), progress=0.0)
    assert arrays_equal(start, copy_target(trainer))
    trainer.update(make_batch(seed=1), progress=0.0)
    assert not arrays_equal(start, copy_target(trainer))
    assert not arrays_equal(dict(trainer._model.named_parameters()), copy_target(trainer))  # it is one step further


def test_copied_target_equals_the_online_network(make_dqn, make_batch):
    """Right after the copy."""
    trainer = make_dqn(target_update_steps=2).make_trainer(seed=0)
    trainer.update(make_batch(), progress=0.0)
    online = {name: tensor.detach() for name, tensor in trainer._model.named_parameters()}
    assert arrays_equal(online, copy_target(trainer))


def test_target_moves_by_polyak_averages(make_dqn, make_batch):
    """0.9 of the old target, 0.1 of the online network."""
    trainer = make_dqn(target_update_steps=1, tau=0.1, updates_per_batch=1).make_trainer(seed=0)
    start = copy_target(trainer)
    trainer.update(make_batch(), progress=0.0)
    for name, tensor in trainer._model.named_parameters():
        assert torch.allclose(copy_target(trainer)[name], 0.9 * start[name] + 0.1 * tensor, atol=1e-7)


def test_importance_exponent_reaches_one(make_dqn):
    """At the end of the budget."""
    schedules = make_dqn(importance_exponent=0.4).make_trainer(seed=0)._schedules
    assert [schedules(progress).beta for progress in (0.0, 0.5, 1.0)] == pytest.approx([0.4, 0.7, 1.0])


# -- safety --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"prioritized": True}, {"minimax_alpha": 0.5}], ids=str)
@pytest.mark.parametrize("fault", ["reward", "observation", "loss", "action"])
def test_failed_update_changes_nothing(make_dqn, make_batch, options, fault):
    """Weights, optimizer, target, counters and replay buffer."""
    trainer = make_dqn(**options).make_trainer(seed=0)
    value = 0.5 if "minimax_alpha" in options else None
    for seed in range(3):
        trainer.update(make_batch(seed=seed, opponent_value=value), progress=0.0)
    if fault == "loss":  # finite weights, but not what comes of them
        trainer.load_weights({name: np.full_like(array, 3e38) for name, array in trainer.weights().items()})
    weights, state = trainer.weights(), trainer.state()
    batch = make_batch(seed=4, opponent_value=-0.75 if value else None)
    if fault == "reward":
        batch.reward[2] = np.inf
    elif fault == "observation":
        batch.observation["obs"][2] = np.nan
    elif fault == "action":
        batch.action_mask[...] = False
    with pytest.raises(ContractError, match="dropped — .*lower learning_rate" if fault == "loss" else "replay|mask"):
        trainer.update(batch, progress=0.0)
    assert arrays_equal(weights, trainer.weights())
    assert arrays_equal(state, trainer.state())


# -- resuming ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prioritized", [False, True])
def test_resumed_trainer_continues_bit_for_bit(make_dqn, make_batch, prioritized):
    """With a full replay buffer, a delayed target and Adam's moments."""
    dqn = make_dqn(prioritized=prioritized, replay_capacity=100, target_update_steps=3, n_step=2)
    trainer = dqn.make_trainer(seed=0)
    for seed in range(5):
        trainer.update(make_batch(seed=seed), progress=0.1)
    resumed = dqn.make_trainer(seed=7)
    resumed.load_weights(trainer.weights())
    resumed.load_state(trainer.state())
    for seed in range(5, 9):
        one, other = (each.update(make_batch(seed=seed), progress=0.5).metrics for each in (trainer, resumed))
        assert one == other
    assert arrays_equal(trainer.weights(), resumed.weights())
    assert arrays_equal(trainer.state(), resumed.state())


def test_state_of_another_network_raises(make_dqn, make_batch):
    """The saved target has other heads."""
    trainer = make_dqn().make_trainer(seed=0)
    trainer.update(make_batch(), progress=0.0)
    with pytest.raises(ModelError):
        make_dqn(dueling=True).make_trainer(seed=0).load_state(trainer.state())


def test_statistics_get_fresh_decisions_once(make_dqn, make_batch):
    """Of a normalizing network, before and after the first gradient step."""

    def build(request):
        return make_modular(ModularConfig(torso=(8,), normalize=True), request=request)

    trainer = make_dqn(build_network=build, learning_starts=60).make_trainer(seed=0)
    batches = [make_batch(seed=seed) for seed in range(2)]
    for batch in batches:
        trainer.update(batch, progress=0.0)
    observed = np.concatenate([batch.observation["obs"][batch.trainable()] for batch in batches])
    weights = trainer.weights()
    assert weights["network.trunk.encoders.rest.norm.count"] == len(observed)
    np.testing.assert_allclose(weights["network.trunk.encoders.rest.norm.mean"], observed.mean(0), atol=1e-5)


@pytest.mark.parametrize("kernels", ["onednn", "torch"])
def test_kernels_give_equal_weights(make_dqn, make_batch, kernels):
    """After two gradient steps, up to rounding."""
    options = {"adam_eps": 1e-3}  # tiny gradients keep their sign's noise down
    trainers = [make_dqn(cpu_kernels=name, **options).make_trainer(seed=0) for name in (kernels, "plain")]
    for trainer, name in zip(trainers, (kernels, None), strict=True):
        trainer.update(make_batch(), progress=0.0)
        assert {
            getattr(layer, "kernels", None) for layer in _linear_layers(trainer._model, trainer._target.module)
        } == {name}
    fast, plain = (trainer.weights() for trainer in trainers)
    for name, array in plain.items():
        np.testing.assert_allclose(fast[name], array, rtol=1e-4, atol=1e-6, err_msg=name)


def _linear_layers(*models):
    """Return linear layers with several outputs."""
    layers = [layer for model in models for layer in model.modules() if isinstance(layer, nn.Linear)]
    return [layer for layer in layers if layer.out_features > 1]


# -- recorded steps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)
@pytest.mark.parametrize(
    "options", [{"minimax_alpha": 0.3, "minimax_shift": "tracked"}, {"prioritized": True}], ids=str
)
def test_recorded_steps_give_equal_results(make_dqn, make_batch, caplog, device, options):
    """With targets, priorities, rates and R_min that change from step to step."""
    options = {"learning_rate_schedule": "linear", "target_update_steps": 3, "minimax_shift": "tracked", **options}
    batches = [make_batch(seed=seed, opponent_value=-1.0 - seed) for seed in range(4)]

    def train(device, *, record_on_cpu=False, **more):
        trainer = make_dqn(**options, **more).make_trainer(seed=0, device=device)
        if record_on_cpu:
            trainer._step._run = GraphedCallable(trainer._step._compute_flat)
        metrics = [trainer.update(batch, progress=i / 10).metrics for i, batch in enumerate(batches)]
        return [*metrics, trainer.weights(), trainer.state()]

    plain = train("cpu", cuda_graphs=False)
    with recorded_on_cpu() if device == "cpu" else nullcontext([None]) as made:
        recorded = train(device, record_on_cpu=device == "cpu")
    assert len(made) == 1
    for found, reference in zip(recorded, plain, strict=True):
        for name, expected in reference.items():
            np.testing.assert_allclose(found[name], expected, rtol=1e-3, atol=1e-4)
    assert not caplog.records
