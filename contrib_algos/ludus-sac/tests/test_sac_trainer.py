"""Tests of the SAC trainer."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.testing import check_algorithm
from ludus_networks.config import ModularConfig
from ludus_networks.modular import make_modular
from ludus_sac.algorithm import SAC
from ludus_sac.config import SACConfig
from ludus_torch.cuda_graphs import GraphedCallable
from ludus_torch.testing import recorded_on_cpu
from torch import nn

BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
HIDDEN = spaces.Dict({"hidden": spaces.Box(-1, 1, (2,), np.float32)})


def arrays_equal(one, other):
    """Return whether named arrays are equal."""
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


def copy_parameters(module):
    """Return copies of the parameters of a module."""
    return {name: tensor.detach().clone() for name, tensor in module.named_parameters()}


def sample_from(trainer, batch, count=20):
    """Store a batch and return a sample of its transitions."""
    trainer._replay.add(trainer._make_rows(batch))
    return trainer._replay.sample(count, np.random.default_rng(0))


def gradient_step(trainer, sample, *, seed=0, scale=1.0):
    """Make a gradient step and return its metrics by name."""
    noise = trainer._noise(len(sample.reward), np.random.default_rng(seed))
    metrics, _ = trainer._step(sample, trainer._step.scalars(learning_rate_scale=scale), noise)
    return dict(zip(trainer._step.metric_names, metrics.tolist(), strict=True))


def compute_target(trainer, sample, *, seed, alpha):
    """Return the targets of transitions, with next actions sampled by a seed."""
    noise = trainer._noise(len(sample.reward), np.random.default_rng(seed))
    return trainer._soft_target(trainer._step.minibatch(sample, {}, noise), alpha=alpha)


@pytest.mark.parametrize(
    "options",
    [{}, {"n_step": 3, "discount_per": "tick", "decision_values": True}, {"learn_alpha": False, "tau": 1.0}],
    ids=["plain", "steps", "fixed"],
)
def test_contract(options):
    """With gradient steps from the first updates on; Discrete, Box, and privileged leaves."""
    config = SACConfig(learning_starts=10, minibatch_size=16, updates_per_batch=2, replay_capacity=500, **options)
    check_algorithm(lambda context: SAC(config, context=context))


# -- one step by hand ----------------------------------------------------------------------------------------------


def test_discrete_target_equals_enumeration(make_sac, make_batch):
    """Row by row and action by action: r + d Σ π(a') (min Q(s', a') - alpha log π(a')) over legal a'."""
    trainer = make_sac(n_step=2).make_trainer(seed=0)
    sample = sample_from(trainer, make_batch())
    found = compute_target(trainer, sample, seed=0, alpha=torch.tensor(0.3))
    for row in range(20):
        leaf = {"obs": torch.from_numpy(sample.next_observation["obs"][row : row + 1])}
        with torch.no_grad():
            logits = trainer._model.policy(leaf)[0]
            q = trainer._target.module(leaf, {}, None)[:, 0].amin(dim=0)
        legal = np.flatnonzero(sample.next_action_mask[row])
        total = sum(math.exp(logits[a]) for a in legal)
        value = sum(
            math.exp(logits[a]) / total * (float(q[a]) - 0.3 * math.log(math.exp(logits[a]) / total)) for a in legal
        )
        assert found[row].item() == pytest.approx(sample.reward[row] + sample.discount[row] * value, abs=1e-5)


def test_masked_actions_do_not_affect_targets(make_sac, make_batch):
    """Even with large Q-values and large logits."""
    trainer = make_sac().make_trainer(seed=0)
    sample = sample_from(trainer, make_batch())
    sample.next_action_mask[:, 0] = False
    sample.next_action_mask[:, 1] = True
    before = compute_target(trainer, sample, seed=0, alpha=torch.tensor(0.3))
    with torch.no_grad():
        trainer._model.actor.heads["policy"].out.bias[0] += 50
        for network in trainer._target.module.networks:
            network.heads["q"].out.bias[0] += 1000
    assert torch.equal(before, compute_target(trainer, sample, seed=0, alpha=torch.tensor(0.3)))
    sample.next_action_mask[:, 0] = True
    assert not torch.allclose(before, compute_target(trainer, sample, seed=0, alpha=torch.tensor(0.3)))


def test_continuous_target_equals_the_definition(make_sac, make_batch):
    """R + d (min Q(s', a') - alpha log π(a'|s')) with sampled a' and torch's own density."""
    trainer = make_sac(BOX).make_trainer(seed=0)
    sample = sample_from(trainer, make_batch(BOX))
    found = compute_target(trainer, sample, seed=3, alpha=torch.tensor(0.3))
    noise = torch.from_numpy(np.random.default_rng(3).standard_normal((20, 2), dtype=np.float32))
    leaf = {"obs": torch.from_numpy(sample.next_observation["obs"])}
    with torch.no_grad():
        mean, log_std = trainer._model.policy(leaf).chunk(2, dim=1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        squashed = torch.distributions.TransformedDistribution(normal, [torch.distributions.TanhTransform()])
        action = torch.tanh(mean + log_std.exp() * noise)
        value = trainer._target.module(leaf, {}, action).amin(dim=0)[:, 0] - 0.3 * squashed.log_prob(action).sum(dim=1)
    expected = torch.from_numpy(sample.reward) + torch.from_numpy(sample.discount) * value
    assert torch.allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize(("ends", "bootstraps"), [("terminated", False), ("truncated", True), ("neither", True)])
def test_truncated_matches_bootstrap_and_terminated_ones_do_not(make_sac, make_batch, space, ends, bootstraps):
    """The target of the last of two decisions follows the target critics only if the match did not terminate."""
    trainer = make_sac(space, gamma=0.5).make_trainer(seed=0)
    batch = make_batch(space, steps=2, segments=1)
    batch.terminated[...] = False
    batch.decided[2] = ends == "neither"
    if ends != "neither":
        getattr(batch, ends)[1] = True
    sample = sample_from(trainer, batch, count=40)
    last = np.isin(sample.reward, batch.reward[1])
    assert 0 < last.sum() < 40
    target = compute_target(trainer, sample, seed=0, alpha=torch.tensor(0.0))
    with torch.no_grad():
        for network in trainer._target.module.networks:
            network.heads["q"].out.bias += 100
    moved = (compute_target(trainer, sample, seed=0, alpha=torch.tensor(0.0)) - target).numpy()
    assert moved[last] == pytest.approx(50.0 if bootstraps else 0.0, abs=1e-3)
    assert moved[~last] == pytest.approx(50.0, abs=1e-3)


def test_critic_step_equals_the_definition(make_sac, make_batch, space):
    """½ (Q(s, a) - y)² of each critic at the recorded actions, with its gradient."""
    trainer = make_sac(space, max_grad_norm=1e9).make_trainer(seed=0)
    sample = sample_from(trainer, make_batch(space))
    alpha, critics = trainer._model.log_alpha.detach().exp(), list(trainer._model.critics.parameters())
    y = compute_target(trainer, sample, seed=5, alpha=alpha)
    loss = torch.zeros(())
    for network in trainer._model.critics.networks:
        for row in range(20):
            leaves = {"obs": torch.from_numpy(sample.observation["obs"][row : row + 1])}
            if isinstance(space, spaces.Box):
                scaled = 2 * (sample.action[row] - space.low) / (space.high - space.low) - 1
                leaves["action"] = torch.from_numpy(scaled[None])
                q = network(leaves, {}, {})[0]["q"][0, 0]
            else:
                q = network(leaves, {}, {})[0]["q"][0, int(sample.action[row, 0])]
            loss = loss + 0.5 * (q - y[row]) ** 2 / 20
    expected = torch.autograd.grad(loss, critics)
    metrics = gradient_step(trainer, sample, seed=5, scale=1e-9)
    assert metrics["q_loss"] == pytest.approx(loss.item(), rel=1e-4)
    for parameter, gradient in zip(critics, expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-5)


def compute_policy_gradient(trainer, sample, *, alpha, seed=5):
    """Return the policy loss of transitions, and its gradient in the biases of the last layer, ``[P]``."""
    noise = trainer._kind.noise(len(sample.reward), np.random.default_rng(seed))
    minibatch = trainer._step.minibatch(sample, {}, {} if noise is None else {"current": noise})
    loss, _ = trainer._policy_terms(minibatch, alpha=alpha)
    (gradient,) = torch.autograd.grad(loss, [trainer._model.actor.heads["policy"].out.bias])
    return loss.item(), gradient.numpy()


def make_nonuniform_trainer(sac):
    """Return a trainer with large differences between Q-values and a policy that is not uniform."""
    trainer = sac.make_trainer(seed=0)
    with torch.no_grad():
        for network in trainer._model.critics.networks:
            network.heads["q"].out.weight *= 30
        trainer._model.actor.heads["policy"].out.weight *= 100
    return trainer


def test_discrete_policy_gradient(make_sac, make_batch):
    """In logit b: -π(b) (g(b) - Σ π(a) g(a)) with g = min Q - alpha log π over legal actions, the mean over rows."""
    trainer = make_nonuniform_trainer(make_sac())
    sample, alpha = sample_from(trainer, make_batch()), 0.3
    loss, gradient = compute_policy_gradient(trainer, sample, alpha=torch.tensor(alpha))
    expected, total = np.zeros(4), 0.0
    for row in range(20):
        leaf = {"obs": torch.from_numpy(sample.observation["obs"][row : row + 1])}
        with torch.no_grad():
            logits = trainer._model.policy(leaf)[0].double().numpy()
            q = [network(leaf, {}, {})[0]["q"][0].double().numpy() for network in trainer._model.critics.networks]
        legal = np.flatnonzero(sample.action_mask[row])
        p = np.exp(logits[legal]) / np.exp(logits[legal]).sum()
        g = np.minimum(*q)[legal] - alpha * np.log(p)
        expected[legal] -= p * (g - (p * g).sum()) / 20
        total -= (p * g).sum() / 20
    assert loss == pytest.approx(total, rel=1e-4)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-5)


def test_continuous_policy_gradient(make_sac, make_batch):
    """With a = tanh(u), u = m + s e: in m it is 2 alpha a - Q' (1 - a²), in log s it is that times s e, less alpha."""
    trainer = make_nonuniform_trainer(make_sac(BOX))
    sample, alpha = sample_from(trainer, make_batch(BOX)), 0.3
    _, gradient = compute_policy_gradient(trainer, sample, alpha=torch.tensor(alpha), seed=5)
    noise = np.random.default_rng(5).standard_normal((20, 2), dtype=np.float32)
    expected, chosen = np.zeros(4), set()
    for row in range(20):
        leaf = {"obs": torch.from_numpy(sample.observation["obs"][row : row + 1])}
        with torch.no_grad():
            mean, log_std = trainer._model.policy(leaf)[0].double().numpy().reshape(2, 2)
        spread = np.exp(log_std) * noise[row]
        a = np.tanh(mean + spread)
        action = torch.from_numpy(a[None].astype(np.float32)).requires_grad_()
        q = [network({**leaf, "action": action}, {}, {})[0]["q"][0, 0] for network in trainer._model.critics.networks]
        chosen.add(q[0].item() < q[1].item())
        (slope,) = torch.autograd.grad(min(q), [action])
        in_mean = 2 * alpha * a - slope[0].numpy() * (1 - a**2)
        expected += np.concatenate([in_mean, in_mean * spread - alpha]) / 20
    assert chosen == {False, True}
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-5)


def test_policy_step_does_not_change_the_critics(make_sac, make_batch, space):
    """And the critic step does not change the policy."""
    for frozen, moved, rate in (("critics", "actor", "critic_learning_rate"), ("actor", "critics", "learning_rate")):
        trainer = make_sac(space, **{rate: 1e-50}).make_trainer(seed=0)
        before = {part: copy_parameters(getattr(trainer._model, part)) for part in (frozen, moved)}
        gradient_step(trainer, sample_from(trainer, make_batch(space)))
        assert arrays_equal(before[frozen], copy_parameters(getattr(trainer._model, frozen)))
        assert not arrays_equal(before[moved], copy_parameters(getattr(trainer._model, moved)))


def test_policy_improves_its_values(make_sac, make_batch, space):
    """With fixed critics and hardly any temperature."""
    trainer = make_sac(
        space, critic_learning_rate=1e-50, alpha=1e-6, learn_alpha=False, learning_rate=0.01
    ).make_trainer(seed=0)
    with torch.no_grad():
        for network in trainer._model.critics.networks:
            network.heads["q"].out.weight *= 10
    sample = sample_from(trainer, make_batch(space), count=64)
    losses = [gradient_step(trainer, sample)["policy_loss"] for _ in range(100)]
    assert losses[-1] < losses[0] - 0.1


def test_gradients_are_clipped(make_sac, make_batch, space):
    """The metrics are the norms before clipping."""
    trainer = make_sac(space, max_grad_norm=1e-3).make_trainer(seed=0)
    metrics = trainer.update(make_batch(space), progress=0.0).metrics
    for part, name in (("actor", "grad_norm"), ("critics", "critic_grad_norm")):
        gradients = [parameter.grad.norm() for parameter in getattr(trainer._model, part).parameters()]
        assert torch.stack(gradients).norm() <= 1.001e-3 < metrics[name]


def test_target_critics_move_by_polyak_averages(make_sac, make_batch, space):
    """0.9 of the old targets, 0.1 of the critics."""
    trainer = make_sac(space, tau=0.1, updates_per_batch=1).make_trainer(seed=0)
    start = copy_parameters(trainer._target.module)
    trainer.update(make_batch(space), progress=0.0)
    for name, tensor in trainer._model.critics.named_parameters():
        assert torch.allclose(
            copy_parameters(trainer._target.module)[name], 0.9 * start[name] + 0.1 * tensor, atol=1e-7
        )


def test_critics_start_with_different_weights(make_sac, space):
    """Otherwise the minimum of both would have no effect."""
    one, other = make_sac(space).make_trainer(seed=0)._model.critics.networks
    assert not arrays_equal(copy_parameters(one), copy_parameters(other))


# -- temperature ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target_entropy", [0.2, 1.2])
def test_temperature_moves_the_entropy_to_its_target(make_sac, make_batch, target_entropy):
    """From either side; four actions allow log 4 = 1.39 nats."""
    options = {"learning_rate": 0.01, "critic_learning_rate": 0.003, "alpha_learning_rate": 0.02, "gamma": 0.0}
    trainer = make_sac(target_entropy=target_entropy, minibatch_size=48, updates_per_batch=400, **options).make_trainer(
        seed=0
    )
    batch = make_batch()
    batch.action_mask[...] = True
    for _ in range(2):
        metrics = trainer.update(batch, progress=0.0).metrics
    sample = trainer._replay.sample(200, np.random.default_rng(0))
    _, found = trainer._policy_terms(trainer._step.minibatch(sample, {}), alpha=torch.tensor(1.0))
    assert metrics["target_entropy"] == pytest.approx(target_entropy)
    assert found.mean().item() == pytest.approx(target_entropy, abs=0.15)


def test_temperature_is_constant_without_learn_alpha(make_sac, make_batch, space):
    """At the value of the option."""
    trainer = make_sac(space, alpha=0.7, learn_alpha=False).make_trainer(seed=0)
    for seed in range(3):
        assert trainer.update(make_batch(space, seed=seed), progress=0.0).metrics["alpha"] == pytest.approx(0.7)
    assert trainer.weights()["log_alpha"] == pytest.approx(math.log(0.7))


def test_default_target_entropy(make_sac, make_batch, space):
    """-2 for two dimensions; on average a share of the log of legal actions for a label of four."""
    trainer = make_sac(space, target_entropy_fraction=0.5, minibatch_size=48).make_trainer(seed=0)
    found = trainer.update(make_batch(space), progress=0.0).metrics["target_entropy"]
    if isinstance(space, spaces.Box):
        assert found == -2
    else:
        assert 0 < found < 0.5 * math.log(4)


# -- the course of training ----------------------------------------------------------------------------------------


def test_every_gradient_step_samples_other_transitions(make_sac, make_batch, monkeypatch):
    """In the next update too."""
    trainer, states = make_sac().make_trainer(seed=0), []
    sample = trainer._replay.sample

    def record_state(count, rng):
        states.append(rng.bit_generator.state["state"]["state"])
        return sample(count, rng)

    monkeypatch.setattr(trainer._replay, "sample", record_state)
    for seed in range(2):
        trainer.update(make_batch(seed=seed), progress=0.0)
    assert len(set(states)) == 4


def test_metric_names(make_sac, make_batch, space):
    """Renaming a metric breaks users; reuse is samples per fresh decision."""
    result = make_sac(space).make_trainer(seed=0).update(make_batch(space), progress=0.0)
    assert result.metrics.keys() == {
        "alpha",
        "critic_grad_norm",
        "entropy",
        "grad_norm",
        "learning_rate",
        "policy_loss",
        "q_loss",
        "q_mean",
        "replay_size",
        "reuse",
        "target_entropy",
    }
    assert result.metrics["reuse"] == pytest.approx(2 * 8 / 48)


def test_linear_schedule_scales_all_learning_rates(make_sac, make_batch, space):
    """At the end of the budget only the targets change."""
    trainer = make_sac(space, learning_rate=0.1, learning_rate_schedule="linear").make_trainer(seed=0)
    assert trainer.update(make_batch(space), progress=0.75).metrics["learning_rate"] == pytest.approx(0.025)
    before = trainer.weights()
    trainer.update(make_batch(space), progress=1.0)
    assert arrays_equal(before, trainer.weights())


def test_critics_read_privileged_leaves(make_sac, make_batch, space):
    """Targets depend on them; a batch without them raises."""
    trainer = make_sac(space, privileged=HIDDEN).make_trainer(seed=0)
    assert trainer.update(make_batch(space, privileged=True), progress=0.0).gradient_steps == 2
    sample = trainer._replay.sample(20, np.random.default_rng(0))
    before = compute_target(trainer, sample, seed=0, alpha=torch.tensor(0.3)).numpy()
    sample.next_privileged["hidden"][:] += 1
    after = compute_target(trainer, sample, seed=0, alpha=torch.tensor(0.3)).numpy()
    assert ((before != after) == (sample.discount > 0)).all()
    with pytest.raises(ContractError, match="privileged/hidden"):
        trainer.update(make_batch(space), progress=0.0)


# -- safety --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["reward", "observation", "loss", "action"])
def test_failed_update_changes_nothing(make_sac, make_batch, space, fault):
    """Weights, optimizers, targets, counters and replay buffer."""
    trainer = make_sac(space).make_trainer(seed=0)
    for seed in range(3):
        trainer.update(make_batch(space, seed=seed), progress=0.0)
    if fault == "loss":  # finite weights, but not what comes of them
        trainer.load_weights({name: np.full_like(array, 3e38) for name, array in trainer.weights().items()})
    weights, state = trainer.weights(), trainer.state()
    batch = make_batch(space, seed=4)
    if fault == "reward":
        batch.reward[2] = np.inf
    elif fault == "observation":
        batch.observation["obs"][2] = np.nan
    elif fault == "action" and batch.action_mask is not None:
        batch.action_mask[...] = False
    elif fault == "action":
        batch.action[3] = np.nan
    with pytest.raises(ContractError, match="the update was dropped" if fault == "loss" else "replay|mask"):
        trainer.update(batch, progress=0.0)
    assert arrays_equal(weights, trainer.weights())
    assert arrays_equal(state, trainer.state())


# -- resuming ------------------------------------------------------------------------------------------------------


def test_resumed_trainer_continues_bit_for_bit(make_sac, make_batch, space):
    """With a full replay buffer, delayed targets, moments and temperature."""
    sac = make_sac(space, replay_capacity=100, n_step=2)
    trainer = sac.make_trainer(seed=0)
    for seed in range(5):
        trainer.update(make_batch(space, seed=seed), progress=0.1)
    resumed = sac.make_trainer(seed=7)
    resumed.load_weights(trainer.weights())
    resumed.load_state(trainer.state())
    for seed in range(5, 9):
        one, other = (each.update(make_batch(space, seed=seed), progress=0.5).metrics for each in (trainer, resumed))
        assert one == other
    assert arrays_equal(trainer.weights(), resumed.weights())
    assert arrays_equal(trainer.state(), resumed.state())


@pytest.mark.parametrize("hidden", [False, True])
def test_statistics_get_fresh_decisions_once(make_sac, make_batch, space, hidden):
    """Those of the policy's network and of the critics, which may include actions and privileged leaves."""

    def build(request):
        return make_modular(ModularConfig(torso=(8,), normalize=True), request=request)

    sac = make_sac(space, build_network=build, privileged=HIDDEN if hidden else None)
    trainer, batch = sac.make_trainer(seed=0), make_batch(space, privileged=hidden)
    trainer.update(batch, progress=0.0)
    chosen = batch.trainable()
    decided, columns = batch.observation["obs"][chosen], batch.observation["obs"][chosen]
    if isinstance(space, spaces.Box):
        columns = np.hstack([decided, 2 * (batch.action[chosen] - space.low) / (space.high - space.low) - 1])
    found = {name: array for name, array in trainer.weights().items() if name.endswith("norm.mean")}
    assert len(found) == 1 + 2 * (1 + hidden)
    for name, mean in found.items():
        read = columns if "critics" in name else decided
        read = batch.privileged["hidden"][chosen] if ".privileged." in name else read
        np.testing.assert_allclose(mean, read.mean(0), atol=1e-5, err_msg=name)
        assert trainer.weights()[name.replace("mean", "count")] == batch.num_decisions


@pytest.mark.parametrize("kernels", ["onednn", "torch"])
def test_kernels_give_equal_weights(make_sac, make_batch, space, kernels):
    """After two gradient steps, up to rounding."""
    options = {"adam_eps": 1e-3}  # tiny gradients keep their sign's noise down
    trainers = [make_sac(space, cpu_kernels=name, **options).make_trainer(seed=0) for name in (kernels, "plain")]
    for trainer, name in zip(trainers, (kernels, None), strict=True):
        trainer.update(make_batch(space), progress=0.0)
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


def train(sac, batches, *, device="cpu", record_on_cpu=False):
    """Return the metrics of updates, and the weights and state after them."""
    trainer = sac.make_trainer(seed=0, device=device)
    if record_on_cpu:
        trainer._step._run = GraphedCallable(trainer._step._compute_flat)
    metrics = [trainer.update(batch, progress=i / 10).metrics for i, batch in enumerate(batches)]
    return metrics, trainer.weights(), trainer.state()


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)
def test_recorded_steps_give_equal_results(make_sac, make_batch, space, caplog, device):
    """With noise, rates and a temperature that change from step to step."""
    options = {"learning_rate_schedule": "linear", "privileged": HIDDEN}
    batches = [make_batch(space, seed=seed, privileged=True) for seed in range(4)]
    plain = train(make_sac(space, cuda_graphs=False, **options), batches)
    with recorded_on_cpu() if device == "cpu" else nullcontext([None]) as made:
        recorded = train(make_sac(space, **options), batches, device=device, record_on_cpu=device == "cpu")
    assert len(made) == 1
    for found, reference in zip([*recorded[0], *recorded[1:]], [*plain[0], *plain[1:]], strict=True):
        for name, expected in reference.items():
            np.testing.assert_allclose(found[name], expected, rtol=1e-3, atol=1e-4)
    assert not caplog.records
