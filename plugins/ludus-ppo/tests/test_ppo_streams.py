"""Rewards of another kind, each with a value head, and a loss besides."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ludus.algorithm import PolicyInput
from ludus_ppo.advantages import Present, RewardStream, estimate
from ludus_ppo.algorithm import make_policy
from ludus_ppo.networks import ActorCritic
from ludus_ppo.trainer import PPOTrainer
from torch import nn

HEADS = ("value", "curious")


class Backwards(nn.Module):
    """A network that returns its heads in another order than it is asked for them."""

    def __init__(self, request):
        super().__init__()
        sizes = {**request.heads, **request.critic_heads}
        self.layers = nn.ModuleDict({name: nn.Linear(3, size) for name, size in reversed(sizes.items())})

    def forward(self, observation, privileged, state):
        """Return the heads of one layer each."""
        return {name: layer(observation["obs"]) for name, layer in self.layers.items()}, state


def two_headed(ppo, seed=1, **options):
    """Return a model with two value heads."""
    torch.manual_seed(seed)
    return ActorCritic(ppo._context, ppo._distribution, initial_log_std=0.0, values=HEADS, **options)


def trainer_of(ppo, *, auxiliary=None, **curious):
    """Return a trainer of the match's rewards and of 0.1 for every decision."""
    stream = RewardStream(
        head="curious", reward=lambda batch: np.full_like(batch.reward, 0.1), **{"gamma": 0.5, **curious}
    )
    streams = (RewardStream(gamma=ppo._config.gamma), stream)
    return PPOTrainer(
        ppo._config,
        two_headed(ppo),
        distribution=ppo._distribution,
        seed=1,
        streams=streams,
        auxiliary=auxiliary,
    )


def played(ppo, make_batch):
    """Return a batch with values of both heads."""
    batch = make_batch(ppo)
    batch.extras["curious"] = np.random.default_rng(3).standard_normal(batch.reward.shape).astype(np.float32)
    return batch


def test_a_policy_records_all_its_values(make_ppo):
    """The first one is what it expects to receive."""
    ppo = make_ppo()
    policy = make_policy(two_headed(ppo), ppo._distribution, ppo._context, values=HEADS)
    observation = {"obs": np.ones((2, 3), np.float32)}
    decision = policy.act(PolicyInput(observation), rng=np.random.default_rng(0))
    assert set(decision.extras) == {"log_prob", *HEADS}
    assert (decision.extras["value"] != decision.extras["curious"]).all()
    np.testing.assert_array_equal(decision.value, decision.extras["value"])


@pytest.mark.parametrize("options", [{}, {"build_network": Backwards}], ids=["in order", "backwards"])
def test_values_have_the_scales_of_their_heads(make_ppo, options):
    """Where samplers play and where the trainer learns, also of a network that returns heads in an order of its own."""
    ppo = make_ppo(**options)
    model = two_headed(ppo, normalize_value=True)
    model.value_scale.copy_(torch.tensor([[0.0, 1.0], [100.0, 10.0]]))
    observation = {"obs": np.ones((2, 3), np.float32)}
    policy = make_policy(model, ppo._distribution, ppo._context, values=HEADS)
    decision = policy.act(PolicyInput(observation), rng=np.random.default_rng(0))
    _, values = model({"obs": torch.ones(2, 3)}, {})
    assert list(values) == list(HEADS)
    for head in HEADS:
        np.testing.assert_allclose(values[head].detach(), decision.extras[head], rtol=1e-5)
    assert (decision.extras["curious"] > 50).all()


def test_advantages_are_weighted_sums(make_ppo, make_batch):
    """What the policy learns is the sum over rewards of weight times advantage."""
    ppo = make_ppo(normalize_advantage=False)
    batch = played(ppo, make_batch)
    trainer = trainer_of(ppo, weight=8.0)
    parts = [
        estimate(batch, stream, trainable=batch.trainable(), gae_lambda=0.95, per_tick=False)[0]
        for stream in trainer._streams
    ]
    source = trainer._source(batch, batch.trainable())
    expected = (parts[0] + 8 * parts[1])[torch.from_numpy(batch.trainable())]
    torch.testing.assert_close(source.pick("advantage"), expected)


def test_returns_may_go_on_after_a_match(make_ppo, make_batch):
    """At λ = 1 an endless reward of 0.1 with gamma 0.5 is worth what comes until the segment ends."""
    batch = played(make_ppo(), make_batch)
    batch.terminated[:] = False
    batch.terminated[3, :] = True
    batch.terminated[7, 0] = True
    batch.extras["curious"][:] = 0
    common = {"trainable": batch.trainable(), "gae_lambda": 1.0, "per_tick": False}
    endless, bound = (
        estimate(batch, RewardStream(head="curious", gamma=0.5, ends=ends, reward=reward), **common)[1]
        for ends, reward in ((False, tenth), (True, tenth))
    )
    assert endless[0].tolist() == pytest.approx([0.1 * (2 - 0.5**7)] * 6)
    assert bound[0].tolist() == pytest.approx([0.1 * (2 - 0.5**3)] * 6)


@pytest.mark.parametrize("today", [False, True])
def test_a_next_match_that_nobody_saw_is_worth_what_this_one_was(make_ppo, make_batch, today):
    """Where a segment ends with its match, the last decision's own value stands for what follows."""
    batch = played(make_ppo(), make_batch)
    batch.terminated[7, :2] = True, False
    values = torch.from_numpy(batch.extras["curious"])
    present = Present(log_ratio=torch.zeros(values.shape), values={"curious": values}) if today else None
    stream = RewardStream(head="curious", gamma=0.5, ends=False, reward=tenth)
    advantage, _ = estimate(batch, stream, trainable=batch.trainable(), gae_lambda=0.0, per_tick=False, present=present)
    assert advantage[7, 0] == pytest.approx(0.1 + 0.5 * values[7, 0] - values[7, 0])
    assert advantage[7, 1] == pytest.approx(0.1 + 0.5 * values[8, 1] - values[7, 1])


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_value_losses_have_weights(make_ppo, make_batch, weight):
    """A head that counts nothing stays as it is."""
    ppo = make_ppo(learning_rate=0.01)
    trainer, batch = trainer_of(ppo, value_weight=weight), played(ppo, make_batch)
    before = trainer.weights()
    trainer.update(batch, progress=0.0)
    name = "network.critic_heads.curious.out.bias"
    assert (trainer.weights()[name] != before[name]).all() == bool(weight)


def test_metrics_tell_of_every_head_and_loss(make_ppo, make_batch):
    """The auxiliary loss begins at 1, and values are named after their heads."""
    ppo = make_ppo(num_minibatches=1)
    trainer, batch = trainer_of(ppo, auxiliary=Guess()), played(ppo, make_batch)
    metrics = trainer.update(batch, progress=0.0).metrics
    assert metrics["auxiliary_loss"] == pytest.approx(1.0)
    assert metrics["value_mean"] == pytest.approx(batch.extras["value"][:8].mean(), abs=1e-5)
    assert metrics["curious_value_mean"] == pytest.approx(batch.extras["curious"][:8].mean(), abs=1e-5)
    assert "auxiliary_loss" not in trainer_of(ppo).update(batch, progress=0.0).metrics


def tenth(batch):
    """Reward every decision."""
    return np.full_like(batch.reward, 0.1)


def test_both_heads_are_learned(make_ppo, make_batch):
    """Each from its own returns."""
    ppo = make_ppo(learning_rate=0.01)
    trainer, batch = trainer_of(ppo), played(ppo, make_batch)
    before = trainer.weights()
    trainer.update(batch, progress=0.0)
    after = trainer.weights()
    for head in HEADS:
        name = f"network.critic_heads.{head}.out.bias"
        assert after[name] != before[name]


class Guess(nn.Module):
    """A loss with a weight of its own: its distance from 1."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, rows):
        """Return it, and count."""
        self.steps += 1
        return (self.weight - 1).square() + 0 * rows.advantage.sum()


def test_an_auxiliary_loss_is_trained_and_saved(make_ppo, make_batch):
    """But its weights do not travel with the model."""
    ppo = make_ppo(learning_rate=0.01, num_minibatches=2)
    trainer, batch = trainer_of(ppo, auxiliary=Guess()), played(ppo, make_batch)
    plain = trainer_of(ppo)
    for one in (trainer, plain):
        one.update(batch, progress=0.0)
    assert trainer.weights().keys() == plain.weights().keys()
    state = trainer.state()
    assert state["auxiliary/weight"] > 0
    assert state["auxiliary/steps"] == 2
    again = trainer_of(ppo, auxiliary=Guess())
    again.load_weights(trainer.weights())
    again.load_state(state)
    for one in (trainer, again):
        one.update(batch, progress=0.0)
    assert all(np.array_equal(array, again.state()[name]) for name, array in trainer.state().items())


@pytest.mark.parametrize("offset", [0.0, 1000.0, 100_000.0])
def test_normalised_values_learn_returns_of_any_scale(make_ppo, make_batch, offset):
    """Large returns are predicted as fast as small ones, and the scale travels with the model."""
    ppo = make_ppo(normalize_value=True, learning_rate=0.01, epochs=20, gamma=0.0)
    trainer, batch = ppo.make_trainer(seed=1), make_batch(ppo)
    batch.reward += offset
    trainer.update(batch, progress=0.0)
    policy = ppo.make_policy()
    policy.load(trainer.weights())
    mean, deviation = trainer.weights()["value_scale"][0]
    assert mean == pytest.approx(batch.reward[:8].mean(), abs=1e-3 * max(1, offset))
    assert deviation == pytest.approx(batch.reward[:8].std(dtype=np.float64), rel=0.02)
    observation = {"obs": batch.observation["obs"][:8].reshape(-1, 3)}
    value = policy.evaluate(PolicyInput(observation))
    assert value.mean() == pytest.approx(batch.reward[:8].mean(), abs=0.5)
    np.testing.assert_allclose(
        value,
        trainer._model({"obs": torch.from_numpy(observation["obs"])}, {})[1]["value"].detach(),
        rtol=1e-4,
        atol=1e-3,
    )


def test_the_scale_of_values_is_an_average_over_updates(make_ppo, make_batch):
    """The moments of one batch's returns do not replace those before: a hundredth comes, the rest stays."""
    ppo = make_ppo(normalize_value=True, gamma=0.0)
    trainer, returns = ppo.make_trainer(seed=1), []
    for seed, offset in enumerate((10.0, -2.0, 4.0)):
        batch = make_batch(ppo, seed=seed)
        batch.reward += offset
        trainer.update(batch, progress=0.0)
        returns.append(batch.reward[batch.trainable()].astype(np.float64))
    weights = np.array([0.99**2, 0.99, 1.0])
    weights /= weights.sum()
    expected = weights @ [of_batch.mean() for of_batch in returns]
    square = weights @ [np.square(of_batch).mean() for of_batch in returns]
    mean, deviation = trainer.weights()["value_scale"][0]
    assert mean == pytest.approx(expected, rel=1e-4)
    assert deviation == pytest.approx(np.sqrt(square - expected**2), rel=1e-4)
