"""Updates: what is learned, when, and what an update that fails leaves behind."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus.errors import ConfigError, ContractError, ModelError
from ludus.testing import check_algorithm
from ludus_networks.config import ModularConfig
from ludus_networks.modular import make_modular
from ludus_sac.algorithm import SAC
from ludus_sac.config import SACConfig
from ludus_sac.trainer import SACTrainer
from ludus_torch.testing import recorded_on_cpu
from torch import nn

BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
HIDDEN = spaces.Dict({"hidden": spaces.Box(-1, 1, (2,), np.float32)})


def same(one, other):
    """Return whether named arrays are equal."""
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


def copies(module):
    """Return copies of the parameters of a module."""
    return {name: tensor.detach().clone() for name, tensor in module.named_parameters()}


def drawn_by(trainer, batch, count=20):
    """Return transitions of a batch."""
    trainer._replay.add(trainer._collect(batch))
    return trainer._replay.sample(count, np.random.default_rng(0))


def stepped(trainer, drawn, *, seed=0, scale=1.0):
    """Make a gradient step and return its metrics."""
    (metrics,) = trainer._computed(
        drawn, {"scale": scale}, trainer._noise(len(drawn.reward), np.random.default_rng(seed))
    )
    return metrics


def target_of(trainer, drawn, *, seed, alpha):
    """Return the targets of transitions, with actions drawn by a seed."""
    noise = trainer._noise(len(drawn.reward), np.random.default_rng(seed))
    return trainer._target_of(trainer._minibatch(drawn, {}, noise), alpha=alpha)


@pytest.mark.parametrize(
    "options",
    [{}, {"n_step": 3, "discount_per": "tick", "decision_values": True}, {"learn_alpha": False, "tau": 1.0}],
    ids=["plain", "steps", "fixed"],
)
def test_the_contract_is_kept(options):
    """With gradient steps from the first updates on; Discrete, Box, and privileged leaves."""
    config = SACConfig(learning_starts=10, minibatch_size=16, updates_per_batch=2, replay_capacity=500, **options)
    check_algorithm(lambda context: SAC(config, context=context))


# -- one step by hand ----------------------------------------------------------------------------------------------


def test_discrete_targets_are_those_of_enumeration(make_sac, make_batch):
    """Row by row and action by action: r + d Σ π(a') (min Q(s', a') - alpha log π(a')) over legal a'."""
    trainer = make_sac(n_step=2).make_trainer(seed=0)
    drawn = drawn_by(trainer, make_batch())
    found = target_of(trainer, drawn, seed=0, alpha=torch.tensor(0.3))
    for row in range(20):
        leaf = {"obs": torch.from_numpy(drawn.next_observation["obs"][row : row + 1])}
        with torch.no_grad():
            logits = trainer._model.policy(leaf)[0]
            q = trainer._target(leaf, {}, None)[:, 0].amin(dim=0)
        legal = np.flatnonzero(drawn.next_action_mask[row])
        total = sum(math.exp(logits[a]) for a in legal)
        value = sum(
            math.exp(logits[a]) / total * (float(q[a]) - 0.3 * math.log(math.exp(logits[a]) / total)) for a in legal
        )
        assert found[row].item() == pytest.approx(drawn.reward[row] + drawn.discount[row] * value, abs=1e-5)


def test_masked_actions_have_no_influence_on_targets(make_sac, make_batch):
    """However good the target critics think they are, and however much the policy would like them."""
    trainer = make_sac().make_trainer(seed=0)
    drawn = drawn_by(trainer, make_batch())
    drawn.next_action_mask[:, 0] = False
    drawn.next_action_mask[:, 1] = True
    before = target_of(trainer, drawn, seed=0, alpha=torch.tensor(0.3))
    with torch.no_grad():
        trainer._model.actor.heads["policy"].bias[0] += 50
        for network in trainer._target.networks:
            network.heads["q"].bias[0] += 1000
    assert torch.equal(before, target_of(trainer, drawn, seed=0, alpha=torch.tensor(0.3)))
    drawn.next_action_mask[:, 0] = True
    assert not torch.allclose(before, target_of(trainer, drawn, seed=0, alpha=torch.tensor(0.3)))


def test_continuous_targets_are_those_of_the_definition(make_sac, make_batch):
    """That is r + d (min Q(s', a') - alpha log π(a'|s')), a' drawn anew, with torch's own density."""
    trainer = make_sac(BOX).make_trainer(seed=0)
    drawn = drawn_by(trainer, make_batch(BOX))
    found = target_of(trainer, drawn, seed=3, alpha=torch.tensor(0.3))
    noise = torch.from_numpy(np.random.default_rng(3).standard_normal((20, 2), dtype=np.float32))
    leaf = {"obs": torch.from_numpy(drawn.next_observation["obs"])}
    with torch.no_grad():
        mean, log_std = trainer._model.policy(leaf).chunk(2, dim=1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        squashed = torch.distributions.TransformedDistribution(normal, [torch.distributions.TanhTransform()])
        action = torch.tanh(mean + log_std.exp() * noise)
        value = trainer._target(leaf, {}, action).amin(dim=0)[:, 0] - 0.3 * squashed.log_prob(action).sum(dim=1)
    expected = torch.from_numpy(drawn.reward) + torch.from_numpy(drawn.discount) * value
    assert torch.allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize(("ends", "bootstraps"), [("terminated", False), ("truncated", True), ("neither", True)])
def test_truncated_matches_bootstrap_and_terminated_ones_do_not(make_sac, make_batch, space, ends, bootstraps):
    """The last decision of a match of two: its target moves with the target critics, or is its reward."""
    trainer = make_sac(space, gamma=0.5).make_trainer(seed=0)
    batch = make_batch(space, steps=2, segments=1)
    batch.terminated[...] = False
    batch.decided[2] = ends == "neither"
    if ends != "neither":
        getattr(batch, ends)[1] = True
    drawn = drawn_by(trainer, batch, count=40)
    last = np.isin(drawn.reward, batch.reward[1])
    assert 0 < last.sum() < 40
    target = target_of(trainer, drawn, seed=0, alpha=torch.tensor(0.0))
    with torch.no_grad():
        for network in trainer._target.networks:
            network.heads["q"].bias += 100
    moved = (target_of(trainer, drawn, seed=0, alpha=torch.tensor(0.0)) - target).numpy()
    assert moved[last] == pytest.approx(50.0 if bootstraps else 0.0, abs=1e-3)
    assert moved[~last] == pytest.approx(50.0, abs=1e-3)


def test_a_critic_step_is_that_of_the_definition(make_sac, make_batch, space):
    """½ (Q(s, a) - y)² of each critic at the recorded actions, with its gradient."""
    trainer = make_sac(space, max_grad_norm=1e9).make_trainer(seed=0)
    drawn = drawn_by(trainer, make_batch(space))
    alpha, critics = trainer._model.log_alpha.detach().exp(), list(trainer._model.critics.parameters())
    y = target_of(trainer, drawn, seed=5, alpha=alpha)
    loss = torch.zeros(())
    for network in trainer._model.critics.networks:
        for row in range(20):
            leaves = {"obs": torch.from_numpy(drawn.observation["obs"][row : row + 1])}
            if isinstance(space, spaces.Box):
                scaled = 2 * (drawn.action[row] - space.low) / (space.high - space.low) - 1
                leaves["action"] = torch.from_numpy(scaled[None])
                q = network(leaves, {}, {})[0]["q"][0, 0]
            else:
                q = network(leaves, {}, {})[0]["q"][0, int(drawn.action[row, 0])]
            loss = loss + 0.5 * (q - y[row]) ** 2 / 20
    expected = torch.autograd.grad(loss, critics)
    metrics = stepped(trainer, drawn, seed=5, scale=1e-9)
    assert metrics[0].item() == pytest.approx(loss.item(), rel=1e-4)
    for parameter, gradient in zip(critics, expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-5)


def policy_gradient(trainer, drawn, *, alpha, seed=5):
    """Return the policy loss of transitions, and its gradient in the biases of the last layer, ``[P]``."""
    noise = trainer._kind.noise(len(drawn.reward), np.random.default_rng(seed))
    minibatch = trainer._minibatch(drawn, {}, {} if noise is None else {"now": noise})
    loss, _ = trainer._policy_terms(minibatch, alpha=alpha)
    (gradient,) = torch.autograd.grad(loss, [trainer._model.actor.heads["policy"].bias])
    return loss.item(), gradient.numpy()


def opinionated(sac):
    """Return a trainer whose critics differ widely and whose policy is not uniform."""
    trainer = sac.make_trainer(seed=0)
    with torch.no_grad():
        for network in trainer._model.critics.networks:
            network.heads["q"].weight *= 30
        trainer._model.actor.heads["policy"].weight *= 100
    return trainer


def test_a_discrete_policy_gradient_by_hand(make_sac, make_batch):
    """In logit b: -π(b) (g(b) - Σ π(a) g(a)) with g = min Q - alpha log π over legal actions, the mean over rows."""
    trainer = opinionated(make_sac())
    drawn, alpha = drawn_by(trainer, make_batch()), 0.3
    loss, gradient = policy_gradient(trainer, drawn, alpha=torch.tensor(alpha))
    expected, total = np.zeros(4), 0.0
    for row in range(20):
        leaf = {"obs": torch.from_numpy(drawn.observation["obs"][row : row + 1])}
        with torch.no_grad():
            logits = trainer._model.policy(leaf)[0].double().numpy()
            q = [network(leaf, {}, {})[0]["q"][0].double().numpy() for network in trainer._model.critics.networks]
        legal = np.flatnonzero(drawn.action_mask[row])
        p = np.exp(logits[legal]) / np.exp(logits[legal]).sum()
        g = np.minimum(*q)[legal] - alpha * np.log(p)
        expected[legal] -= p * (g - (p * g).sum()) / 20
        total -= (p * g).sum() / 20
    assert loss == pytest.approx(total, rel=1e-4)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-5)


def test_a_continuous_policy_gradient_by_hand(make_sac, make_batch):
    """With a = tanh(u), u = m + s e: in m it is 2 alpha a - Q' (1 - a²), in log s it is that times s e, less alpha."""
    trainer = opinionated(make_sac(BOX))
    drawn, alpha = drawn_by(trainer, make_batch(BOX)), 0.3
    _, gradient = policy_gradient(trainer, drawn, alpha=torch.tensor(alpha), seed=5)
    noise = np.random.default_rng(5).standard_normal((20, 2), dtype=np.float32)
    expected, chosen = np.zeros(4), set()
    for row in range(20):
        leaf = {"obs": torch.from_numpy(drawn.observation["obs"][row : row + 1])}
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


def test_a_policy_step_leaves_the_critics_alone(make_sac, make_batch, space):
    """Although its gradient passes through them; and theirs leaves the policy alone."""
    for frozen, moved, rate in (("critics", "actor", "critic_learning_rate"), ("actor", "critics", "learning_rate")):
        trainer = make_sac(space, **{rate: 1e-50}).make_trainer(seed=0)
        before = {part: copies(getattr(trainer._model, part)) for part in (frozen, moved)}
        stepped(trainer, drawn_by(trainer, make_batch(space)))
        assert same(before[frozen], copies(getattr(trainer._model, frozen)))
        assert not same(before[moved], copies(getattr(trainer._model, moved)))


def test_the_policy_climbs_to_what_the_critics_prefer(make_sac, make_batch, space):
    """With critics that stand still and next to no temperature the values of its actions rise."""
    trainer = make_sac(
        space, critic_learning_rate=1e-50, alpha=1e-6, learn_alpha=False, learning_rate=0.01
    ).make_trainer(seed=0)
    with torch.no_grad():
        for network in trainer._model.critics.networks:
            network.heads["q"].weight *= 10
    drawn = drawn_by(trainer, make_batch(space), count=64)
    losses = [stepped(trainer, drawn)[3].item() for _ in range(100)]
    assert losses[-1] < losses[0] - 0.1


def test_gradients_are_clipped(make_sac, make_batch, space):
    """The norms reported are those before."""
    trainer = make_sac(space, max_grad_norm=1e-3).make_trainer(seed=0)
    metrics = trainer.update(make_batch(space), progress=0.0).metrics
    for part, name in (("actor", "grad_norm"), ("critics", "critic_grad_norm")):
        gradients = [parameter.grad.norm() for parameter in getattr(trainer._model, part).parameters()]
        assert torch.stack(gradients).norm() <= 1.001e-3 < metrics[name]


def test_targets_follow_slowly(make_sac, make_batch, space):
    """0.9 of what was, 0.1 of what is."""
    trainer = make_sac(space, tau=0.1, updates_per_batch=1).make_trainer(seed=0)
    start = copies(trainer._target)
    trainer.update(make_batch(space), progress=0.0)
    for name, tensor in trainer._model.critics.named_parameters():
        assert torch.allclose(copies(trainer._target)[name], 0.9 * start[name] + 0.1 * tensor, atol=1e-7)


def test_both_critics_are_different(make_sac, space):
    """Otherwise the smaller of both would be either of them."""
    one, other = make_sac(space).make_trainer(seed=0)._model.critics.networks
    assert not same(copies(one), copies(other))


# -- temperature ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [0.2, 1.2])
def test_the_temperature_brings_the_entropy_to_its_target(make_sac, make_batch, wanted):
    """From either side; four actions allow log 4 = 1.39 nats."""
    options = {"learning_rate": 0.01, "critic_learning_rate": 0.003, "alpha_learning_rate": 0.02, "gamma": 0.0}
    trainer = make_sac(target_entropy=wanted, minibatch_size=48, updates_per_batch=400, **options).make_trainer(seed=0)
    batch = make_batch()
    batch.action_mask[...] = True
    for _ in range(2):
        metrics = trainer.update(batch, progress=0.0).metrics
    drawn = trainer._replay.sample(200, np.random.default_rng(0))
    _, found = trainer._policy_terms(trainer._minibatch(drawn, {}, {}), alpha=torch.tensor(1.0))
    assert metrics["target_entropy"] == pytest.approx(wanted)
    assert found.mean().item() == pytest.approx(wanted, abs=0.15)


def test_the_temperature_may_be_fixed(make_sac, make_batch, space):
    """At what the options say."""
    trainer = make_sac(space, alpha=0.7, learn_alpha=False).make_trainer(seed=0)
    for seed in range(3):
        assert trainer.update(make_batch(space, seed=seed), progress=0.0).metrics["alpha"] == pytest.approx(0.7)
    assert trainer.weights()["log_alpha"] == pytest.approx(math.log(0.7))


def test_the_default_target_entropy(make_sac, make_batch, space):
    """-2 for two dimensions; a share of the log of legal actions, on average, for four labels."""
    trainer = make_sac(space, target_entropy_fraction=0.5, minibatch_size=48).make_trainer(seed=0)
    found = trainer.update(make_batch(space), progress=0.0).metrics["target_entropy"]
    if isinstance(space, spaces.Box):
        assert found == -2
    else:
        assert 0 < found < 0.5 * math.log(4)


# -- the course of training ----------------------------------------------------------------------------------------


def test_nothing_is_learned_before_there_is_enough_to_draw_from(make_sac, make_batch):
    """Three batches of 48 decisions, with 100 to begin."""
    trainer = make_sac(learning_starts=100).make_trainer(seed=0)
    results = [trainer.update(make_batch(seed=seed), progress=0.0) for seed in range(3)]
    assert [result.gradient_steps for result in results] == [0, 0, 2]
    assert [result.samples for result in results] == [0, 0, 16]
    assert [result.metrics["replay_size"] for result in results] == [48, 96, 144]
    assert "q_loss" not in results[0].metrics


def test_every_gradient_step_draws_anew(make_sac, make_batch, monkeypatch):
    """Also in the next update, whose stream is another one."""
    trainer, states = make_sac().make_trainer(seed=0), []
    sample = trainer._replay.sample

    def watched(count, rng):
        states.append(rng.bit_generator.state["state"]["state"])
        return sample(count, rng)

    monkeypatch.setattr(trainer._replay, "sample", watched)
    for seed in range(2):
        trainer.update(make_batch(seed=seed), progress=0.0)
    assert len(set(states)) == 4


def test_metrics(make_sac, make_batch, space):
    """Their names are a promise; reuse is samples per fresh decision."""
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


def test_learning_rates_fall_with_progress(make_sac, make_batch, space):
    """Linearly, all three; at the end nothing moves but the targets."""
    trainer = make_sac(space, learning_rate=0.1, learning_rate_schedule="linear").make_trainer(seed=0)
    assert trainer.update(make_batch(space), progress=0.75).metrics["learning_rate"] == pytest.approx(0.025)
    before = trainer.weights()
    trainer.update(make_batch(space), progress=1.0)
    assert same(before, trainer.weights())


def test_critics_learn_from_privileged_leaves(make_sac, make_batch, space):
    """They are remembered, and what they say changes the targets; a batch without them is refused."""
    trainer = make_sac(space, privileged=HIDDEN).make_trainer(seed=0)
    assert trainer.update(make_batch(space, privileged=True), progress=0.0).gradient_steps == 2
    drawn = trainer._replay.sample(20, np.random.default_rng(0))
    before = target_of(trainer, drawn, seed=0, alpha=torch.tensor(0.3)).numpy()
    drawn.next_privileged["hidden"][:] += 1
    after = target_of(trainer, drawn, seed=0, alpha=torch.tensor(0.3)).numpy()
    assert ((before != after) == (drawn.discount > 0)).all()
    with pytest.raises(ContractError, match="privileged/hidden"):
        trainer.update(make_batch(space), progress=0.0)


# -- safety --------------------------------------------------------------------------------------------------------


def test_a_batch_without_decisions_is_refused(make_sac, make_batch):
    """There is nothing to remember."""
    batch = make_batch()
    batch.length[:] = 0
    with pytest.raises(ContractError, match="without a single trainable decision"):
        make_sac().make_trainer(seed=0).update(batch, progress=0.0)


@pytest.mark.parametrize("fault", ["reward", "observation", "loss", "action"])
def test_a_refused_update_leaves_everything_as_it_was(make_sac, make_batch, space, fault):
    """Weights, optimisers, targets, counters and the replay memory."""
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
    assert same(weights, trainer.weights())
    assert same(state, trainer.state())


def test_too_little_memory_is_refused_at_once(make_sac):
    """Before anything is played."""
    with pytest.raises(ConfigError, match="at least 10000"):
        make_sac(learning_starts=10_000, replay_capacity=500).make_trainer(seed=0)


# -- resuming ------------------------------------------------------------------------------------------------------


def test_a_resumed_trainer_goes_on_bit_for_bit(make_sac, make_batch, space):
    """With a full replay memory, targets that lag, moments, and a temperature on its way."""
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
    assert same(trainer.weights(), resumed.weights())
    assert same(trainer.state(), resumed.state())


def test_a_checkpoint_may_leave_the_replay_out(make_sac, make_batch, space):
    """It stays small; the memory fills anew, while everything else goes on."""
    sac = make_sac(space, checkpoint_replay=False, learning_starts=40)
    trainer = sac.make_trainer(seed=0)
    for seed in range(3):
        trainer.update(make_batch(space, seed=seed), progress=0.0)
    state = trainer.state()
    assert not any(name.startswith("replay") for name in state)
    resumed = sac.make_trainer(seed=7)
    resumed.load_weights(trainer.weights())
    resumed.load_state(state)
    assert same(resumed.state(), state)
    assert resumed.update(make_batch(space, seed=3), progress=0.0).metrics["replay_size"] == 48


def test_a_state_of_other_options_is_refused(make_sac, make_batch):
    """A replay of another size."""
    trainer = make_sac().make_trainer(seed=0)
    trainer.update(make_batch(), progress=0.0)
    with pytest.raises(ModelError):
        make_sac(replay_capacity=400).make_trainer(seed=0).load_state(trainer.state())


def test_starting_from_a_model_starts_its_targets_too(make_sac, space):
    """Otherwise the first targets would be those of random weights."""
    sac = make_sac(space)
    trainer = sac.make_trainer(seed=0)
    trainer.load_weights(sac.make_trainer(seed=1).weights())
    assert same(copies(trainer._model.critics), copies(trainer._target))


@pytest.mark.parametrize("hidden", [False, True])
def test_fresh_decisions_make_statistics(make_sac, make_batch, space, hidden):
    """Of the policy's network and of both critics', which may read actions and privileged leaves too."""

    def build(request):
        return make_modular(ModularConfig(torso=(8,), normalize=True), request=request)

    sac = make_sac(space, build_network=build, privileged=HIDDEN if hidden else None)
    trainer, batch = sac.make_trainer(seed=0), make_batch(space, privileged=hidden)
    trainer.update(batch, progress=0.0)
    chosen = batch.trainable()
    seen, columns = batch.observation["obs"][chosen], batch.observation["obs"][chosen]
    if isinstance(space, spaces.Box):
        columns = np.hstack([seen, 2 * (batch.action[chosen] - space.low) / (space.high - space.low) - 1])
    found = {name: array for name, array in trainer.weights().items() if name.endswith("norm.mean")}
    assert len(found) == 1 + 2 * (1 + hidden)
    for name, mean in found.items():
        read = columns if "critics" in name else seen
        read = batch.privileged["hidden"][chosen] if ".privileged." in name else read
        np.testing.assert_allclose(mean, read.mean(0), atol=1e-5, err_msg=name)
        assert trainer.weights()[name.replace("mean", "count")] == batch.num_decisions


def test_a_minibatch_larger_than_any_memory_is_refused():
    """It is told at the start, not when the first one is drawn."""
    with pytest.raises(ValueError, match=r"expected a number in \[1, 1e\+06\]"):
        SACConfig(minibatch_size=2**40)


@pytest.mark.parametrize("kernels", ["onednn", "torch"])
def test_kernels_make_no_difference(make_sac, make_batch, space, kernels):
    """Two gradient steps end with the same weights up to rounding, whatever computes the layers."""
    options = {"adam_eps": 1e-3}  # tiny gradients keep their sign's noise down
    trainers = [make_sac(space, cpu_kernels=name, **options).make_trainer(seed=0) for name in (kernels, "plain")]
    for trainer, name in zip(trainers, (kernels, None), strict=True):
        trainer.update(make_batch(space), progress=0.0)
        assert {getattr(layer, "kernels", None) for layer in _linear(trainer._model, trainer._target)} == {name}
    fast, plain = (trainer.weights() for trainer in trainers)
    for name, array in plain.items():
        np.testing.assert_allclose(fast[name], array, rtol=1e-4, atol=1e-6, err_msg=name)


def _linear(*models):
    """Return their linear layers with several outputs."""
    layers = [layer for model in models for layer in model.modules() if isinstance(layer, nn.Linear)]
    return [layer for layer in layers if layer.out_features > 1]


# -- recorded steps ------------------------------------------------------------------------------------------------


def learned_from(sac, batches, *, device="cpu"):
    """Return the metrics of updates and the weights and state after them."""
    trainer = sac.make_trainer(seed=0, device=device)
    metrics = [trainer.update(batch, progress=i / 10).metrics for i, batch in enumerate(batches)]
    return metrics, trainer.weights(), trainer.state()


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)
def test_recorded_steps_learn_the_same(make_sac, make_batch, space, monkeypatch, caplog, device):
    """With noise, rates and a temperature that change from step to step, on a GPU as on a CPU."""
    options = {"learning_rate_schedule": "linear", "privileged": HIDDEN}
    batches = [make_batch(space, seed=seed, privileged=True) for seed in range(4)]
    plain = learned_from(make_sac(space, cuda_graphs=False, **options), batches)
    if device == "cpu":
        monkeypatch.setattr(SACTrainer, "_records", True)
    with recorded_on_cpu() if device == "cpu" else nullcontext([None]) as made:
        recorded = learned_from(make_sac(space, **options), batches, device=device)
    assert len(made) == 1
    for ours, theirs in zip([*recorded[0], *recorded[1:]], [*plain[0], *plain[1:]], strict=True):
        for name, expected in theirs.items():
            np.testing.assert_allclose(ours[name], expected, rtol=1e-3, atol=1e-4)
    assert not caplog.records
