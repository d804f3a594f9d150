"""Updates: what is learned, when, and what an update that fails leaves behind."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from ludus.errors import ConfigError, ContractError, ModelError
from ludus.testing import check_algorithm
from ludus_dqn.algorithm import DQN
from ludus_dqn.config import DQNConfig
from ludus_dqn.trainer import DQNTrainer
from ludus_networks.config import ModularConfig
from ludus_networks.modular import make_modular
from ludus_torch.testing import recorded_on_cpu
from torch import nn


def same(one, other):
    """Return whether named arrays are equal."""
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


def behind(trainer):
    """Return the weights of the target network."""
    return {name: tensor.clone() for name, tensor in trainer._target.named_parameters()}


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
def test_the_contract_is_kept(options):
    """With gradient steps from the first updates on."""
    config = DQNConfig(learning_starts=10, minibatch_size=16, updates_per_batch=2, replay_capacity=500, **options)
    check_algorithm(lambda context: DQN(config, context=context))


# -- one step by hand ----------------------------------------------------------------------------------------------


def by_hand(trainer, drawn, *, gamma_weight, loss):
    """Return loss and gradients of drawn transitions, straight from the definition."""
    model, target = trainer._model, trainer._target
    total = torch.zeros(())
    for row in range(len(drawn.reward)):

        def q(net, leaf, row=row):
            return net({"obs": torch.from_numpy(leaf["obs"][row : row + 1])})[0]

        with torch.no_grad():
            legal = np.flatnonzero(drawn.next_action_mask[row])
            online = q(model, drawn.next_observation)
            best = max(legal, key=lambda a: float(online[a]))
            later = q(target, drawn.next_observation)[best]
            wanted = float(drawn.reward[row]) + float(drawn.discount[row]) * later
        error = q(model, drawn.observation)[int(drawn.action[row, 0])] - wanted
        size = error.abs()
        one = error**2 if loss == "mse" else torch.where(size < 1, 0.5 * error**2, size - 0.5)
        total = total + gamma_weight[row] * one / len(drawn.reward)
    return total, torch.autograd.grad(total, list(trainer._model.parameters()))


@pytest.mark.parametrize("loss", ["huber", "mse"])
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_gradient_step_is_that_of_the_definition(make_dqn, make_batch, loss, prioritized):
    """Double Q-learning over legal actions, row by row, weighted where draws are prioritised."""
    trainer = make_dqn(loss=loss, prioritized=prioritized, max_grad_norm=1e9, n_step=2).make_trainer(seed=0)
    trainer._replay.add(trainer._collect(make_batch()))
    with torch.no_grad():
        for tensor in trainer._target.parameters():
            tensor.add_(0.3 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1)))
    drawn = trainer._replay.sample(20, np.random.default_rng(0), beta=0.5)
    if prioritized:
        trainer._replay.set_priorities(drawn.index, np.linspace(0.1, 2.0, 20))
        drawn = trainer._replay.sample(20, np.random.default_rng(1), beta=0.5)
        assert drawn.weight.min() < 0.9
    expected, gradients = by_hand(trainer, drawn, gamma_weight=drawn.weight, loss=loss)
    found = trainer._gradient_step(drawn, {"learning_rate": trainer._config.learning_rate})
    assert found[0].item() == pytest.approx(expected.item(), rel=1e-5)
    for parameter, gradient in zip(list(trainer._model.parameters()), gradients, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-6)


def test_errors_become_priorities(make_dqn, make_batch):
    """|TD error| of the transitions just seen."""
    trainer = make_dqn(prioritized=True, priority_exponent=1.0, learning_rate=1e-12).make_trainer(seed=0)
    trainer._replay.add(trainer._collect(make_batch()))
    drawn = trainer._replay.sample(20, np.random.default_rng(0))
    trainer._gradient_step(drawn, {"learning_rate": trainer._config.learning_rate})
    with torch.no_grad():
        q = trainer._model({"obs": torch.from_numpy(drawn.observation["obs"])})
        q = q.gather(1, torch.from_numpy(drawn.action)).squeeze(1)
        error = (q - trainer._target_of(drawn.mapped(torch.from_numpy), torch.from_numpy(drawn.reward))).abs().numpy()
    assert trainer._replay._tree.get(drawn.index) == pytest.approx(error, abs=1e-5)


def test_gradients_are_clipped(make_dqn, make_batch):
    """The norm reported is that before."""
    trainer = make_dqn(max_grad_norm=1e-3).make_trainer(seed=0)
    result = trainer.update(make_batch(), progress=0.0)
    norm = torch.stack([parameter.grad.norm() for parameter in list(trainer._model.parameters())]).norm()
    assert norm <= 1.001e-3 < result.metrics["grad_norm"]


# -- the course of training ----------------------------------------------------------------------------------------


def test_nothing_is_learned_before_there_is_enough_to_draw_from(make_dqn, make_batch):
    """Three batches of 48 decisions, with 100 to begin."""
    trainer = make_dqn(learning_starts=100).make_trainer(seed=0)
    results = [trainer.update(make_batch(seed=seed), progress=0.0) for seed in range(3)]
    assert [result.gradient_steps for result in results] == [0, 0, 2]
    assert [result.samples for result in results] == [0, 0, 16]
    assert [result.metrics["replay_size"] for result in results] == [48, 96, 144]
    assert "loss" not in results[0].metrics


def test_a_full_memory_is_enough_to_draw_from(make_dqn, make_batch):
    """It never holds as many transitions as rows: some of these only end one."""
    trainer = make_dqn(learning_starts=100, replay_capacity=100).make_trainer(seed=0)
    results = [trainer.update(make_batch(seed=seed), progress=0.0) for seed in range(3)]
    assert [result.gradient_steps for result in results] == [0, 2, 2]
    assert all(result.metrics["replay_size"] < 100 for result in results)


def test_metrics(make_dqn, make_batch):
    """Their names are a promise; reuse is samples per fresh decision."""
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


def test_epsilon_decays_with_decisions_and_travels_with_the_weights(make_dqn, make_batch):
    """From 1 to 0.2 over 96 decisions, then it stays."""
    trainer = make_dqn(epsilon=0.2, epsilon_decisions=96).make_trainer(seed=0)
    found = [float(trainer.weights()["epsilon"])]
    for seed in range(3):
        metrics = trainer.update(make_batch(seed=seed), progress=0.0).metrics
        found.append(float(trainer.weights()["epsilon"]))
        assert metrics["epsilon"] == pytest.approx(found[-1])
    assert found == pytest.approx([1.0, 0.6, 0.2, 0.2])


def test_epsilon_may_be_constant(make_dqn):
    """As in the paper: 0.01 throughout."""
    trainer = make_dqn(epsilon_decisions=0).make_trainer(seed=0)
    assert trainer.weights()["epsilon"] == pytest.approx(0.01)


def test_the_learning_rate_falls_with_progress(make_dqn, make_batch):
    """Linearly, to 0."""
    trainer = make_dqn(learning_rate=0.1, learning_rate_schedule="linear").make_trainer(seed=0)
    assert trainer.update(make_batch(), progress=0.75).metrics["learning_rate"] == pytest.approx(0.025)


def test_a_hard_target_is_copied_every_few_steps(make_dqn, make_batch):
    """Two gradient steps per update, a copy after the third."""
    trainer = make_dqn(target_update_steps=3).make_trainer(seed=0)
    start = behind(trainer)
    trainer.update(make_batch(seed=0), progress=0.0)
    assert same(start, behind(trainer))
    trainer.update(make_batch(seed=1), progress=0.0)
    assert not same(start, behind(trainer))
    assert not same(dict(trainer._model.named_parameters()), behind(trainer))  # it is one step further


def test_a_copy_is_exact(make_dqn, make_batch):
    """Right after it both networks are one."""
    trainer = make_dqn(target_update_steps=2).make_trainer(seed=0)
    trainer.update(make_batch(), progress=0.0)
    online = {name: tensor.detach() for name, tensor in trainer._model.named_parameters()}
    assert same(online, behind(trainer))


def test_polyak_averages(make_dqn, make_batch):
    """0.9 of what was, 0.1 of what is."""
    trainer = make_dqn(target_update_steps=1, tau=0.1, updates_per_batch=1).make_trainer(seed=0)
    start = behind(trainer)
    trainer.update(make_batch(), progress=0.0)
    for name, tensor in trainer._model.named_parameters():
        assert torch.allclose(behind(trainer)[name], 0.9 * start[name] + 0.1 * tensor, atol=1e-7)


def test_the_importance_exponent_reaches_one(make_dqn):
    """At the end of the budget the bias is gone."""
    schedules = make_dqn(importance_exponent=0.4).make_trainer(seed=0)._schedules
    assert [schedules(progress).beta for progress in (0.0, 0.5, 1.0)] == pytest.approx([0.4, 0.7, 1.0])


# -- safety --------------------------------------------------------------------------------------------------------


def test_a_batch_without_decisions_is_refused(make_dqn, make_batch):
    """There is nothing to remember."""
    batch = make_batch()
    batch.length[:] = 0
    with pytest.raises(ContractError, match="without a single trainable decision"):
        make_dqn().make_trainer(seed=0).update(batch, progress=0.0)


@pytest.mark.parametrize("options", [{}, {"prioritized": True}, {"minimax_alpha": 0.5}], ids=str)
@pytest.mark.parametrize("fault", ["reward", "observation", "loss", "action"])
def test_a_refused_update_leaves_everything_as_it_was(make_dqn, make_batch, options, fault):
    """Weights, optimiser, target, counters and the replay memory."""
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
    assert same(weights, trainer.weights())
    assert same(state, trainer.state())


def test_too_little_memory_is_refused_at_once(make_dqn):
    """Before anything is played."""
    with pytest.raises(ConfigError, match="at least 10000"):
        make_dqn(learning_starts=10_000, replay_capacity=500).make_trainer(seed=0)


# -- resuming ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_resumed_trainer_goes_on_bit_for_bit(make_dqn, make_batch, prioritized):
    """With a full replay memory, a target that lags, and Adam's moments."""
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
    assert same(trainer.weights(), resumed.weights())
    assert same(trainer.state(), resumed.state())


def test_a_checkpoint_may_leave_the_replay_out(make_dqn, make_batch):
    """It stays small; the memory fills anew, while counters and epsilon go on."""
    dqn = make_dqn(checkpoint_replay=False, learning_starts=40, epsilon_decisions=480)
    trainer = dqn.make_trainer(seed=0)
    for seed in range(3):
        trainer.update(make_batch(seed=seed), progress=0.0)
    assert not any(name.startswith("replay") for name in trainer.state())
    resumed = dqn.make_trainer(seed=7)
    resumed.load_weights(trainer.weights())
    resumed.load_state(trainer.state())
    metrics = resumed.update(make_batch(seed=3), progress=0.0).metrics
    assert metrics["replay_size"] == 48
    assert metrics["epsilon"] == pytest.approx(1 - 0.99 * 0.4)


def test_a_state_of_other_options_is_refused(make_dqn, make_batch):
    """A replay of another size, or a network of other heads."""
    trainer = make_dqn().make_trainer(seed=0)
    trainer.update(make_batch(), progress=0.0)
    for options in ({"replay_capacity": 400}, {"dueling": True}):
        with pytest.raises(ModelError):
            make_dqn(**options).make_trainer(seed=0).load_state(trainer.state())


def test_starting_from_a_model_starts_its_target_too(make_dqn):
    """Otherwise the first targets would be those of random weights."""
    dqn = make_dqn()
    trainer = dqn.make_trainer(seed=0)
    trainer.load_weights(dqn.make_trainer(seed=1).weights())
    assert same({name: tensor.detach() for name, tensor in trainer._model.named_parameters()}, behind(trainer))


def test_fresh_decisions_make_statistics(make_dqn, make_batch):
    """Those of a network that normalises: each decision once, before and after the first gradient step."""

    def build(request):
        return make_modular(ModularConfig(torso=(8,), normalize=True), request=request)

    trainer = make_dqn(build_network=build, learning_starts=60).make_trainer(seed=0)
    batches = [make_batch(seed=seed) for seed in range(2)]
    for batch in batches:
        trainer.update(batch, progress=0.0)
    seen = np.concatenate([batch.observation["obs"][batch.trainable()] for batch in batches])
    weights = trainer.weights()
    assert weights["network.trunk.encoders.rest.norm.count"] == len(seen)
    np.testing.assert_allclose(weights["network.trunk.encoders.rest.norm.mean"], seen.mean(0), atol=1e-5)


def test_a_minibatch_larger_than_any_memory_is_refused():
    """It is told at the start, not when the first one is drawn."""
    with pytest.raises(ValueError, match=r"expected a number in \[1, 1e\+06\]"):
        DQNConfig(minibatch_size=2**40)


@pytest.mark.parametrize("kernels", ["onednn", "torch"])
def test_kernels_make_no_difference(make_dqn, make_batch, kernels):
    """Two gradient steps end with the same weights up to rounding, whatever computes the layers."""
    options = {"adam_eps": 1e-3}  # tiny gradients keep their sign's noise down
    trainers = [make_dqn(cpu_kernels=name, **options).make_trainer(seed=0) for name in (kernels, "plain")]
    for trainer, name in zip(trainers, (kernels, None), strict=True):
        trainer.update(make_batch(), progress=0.0)
        assert {getattr(layer, "kernels", None) for layer in _linear(trainer._model, trainer._target)} == {name}
    fast, plain = (trainer.weights() for trainer in trainers)
    for name, array in plain.items():
        np.testing.assert_allclose(fast[name], array, rtol=1e-4, atol=1e-6, err_msg=name)


def _linear(*models):
    """Return their linear layers with several outputs."""
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
def test_recorded_steps_learn_the_same(make_dqn, make_batch, monkeypatch, caplog, device, options):
    """With targets, priorities, rates and a least evaluation that change from step to step, as on a CPU."""
    options = {"learning_rate_schedule": "linear", "target_update_steps": 3, "minimax_shift": "tracked", **options}
    batches = [make_batch(seed=seed, opponent_value=-1.0 - seed) for seed in range(4)]

    def learned(device, **more):
        trainer = make_dqn(**options, **more).make_trainer(seed=0, device=device)
        metrics = [trainer.update(batch, progress=i / 10).metrics for i, batch in enumerate(batches)]
        return [*metrics, trainer.weights(), trainer.state()]

    plain = learned("cpu", cuda_graphs=False)
    if device == "cpu":
        monkeypatch.setattr(DQNTrainer, "_records", True)
    with recorded_on_cpu() if device == "cpu" else nullcontext([None]) as made:
        recorded = learned(device)
    assert len(made) == 1
    for ours, theirs in zip(recorded, plain, strict=True):
        for name, expected in theirs.items():
            np.testing.assert_allclose(ours[name], expected, rtol=1e-3, atol=1e-4)
    assert not caplog.records
