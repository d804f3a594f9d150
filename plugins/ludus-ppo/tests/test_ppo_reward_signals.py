"""Several reward signals, each with a value head."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
import torch
from ludus.algorithm import PolicyInput
from ludus.group import Alone
from ludus_ppo.advantages import Reevaluation, RewardSignal, estimate_signal
from ludus_ppo.algorithm import PPO
from ludus_ppo.networks import ActorCritic
from ludus_ppo.trainer import PPOTrainer
from torch import nn

HEADS = ("value", "curious")


class Backwards(nn.Module):
    """A network that returns its heads in another order than requested."""

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


def tenth(batch, group):
    """Return a reward of 0.1 for every decision."""
    return np.full_like(batch.reward, 0.1)


def trainer_of(ppo, **curious):
    """Return a trainer with the rewards of the game and with 0.1 for every decision."""
    signal = RewardSignal(head="curious", metric_prefix="curious_", reward=tenth, **{"gamma": 0.5, **curious})
    signals = (RewardSignal(gamma=ppo._config.gamma), signal)
    return PPOTrainer(ppo._config, two_headed(ppo), distribution=ppo._distribution, seed=1, reward_signals=signals)


class TwoHeadedPPO(PPO):
    """PPO with two value heads."""

    _value_heads = HEADS


def played(ppo, make_batch):
    """Return a batch with values of both heads."""
    batch = make_batch(ppo)
    batch.extras["curious"] = np.random.default_rng(3).standard_normal(batch.reward.shape).astype(np.float32)
    return batch


def test_a_policy_records_all_its_values(make_ppo):
    """The first one is the value of the decision."""
    ppo = make_ppo()
    policy = TwoHeadedPPO(ppo._config, context=ppo._context).make_policy()
    observation = {"obs": np.ones((2, 3), np.float32)}
    decision = policy.act(PolicyInput(observation), rng=np.random.default_rng(0))
    assert set(decision.extras) == {"log_prob", *HEADS}
    assert (decision.extras["value"] != decision.extras["curious"]).all()
    np.testing.assert_array_equal(decision.value, decision.extras["value"])


@pytest.mark.parametrize("options", [{}, {"build_network": Backwards}], ids=["in order", "backwards"])
def test_values_have_the_scales_of_their_heads(make_ppo, options):
    """In the policy and in the trainer, also if the network returns its heads in another order."""
    ppo = make_ppo(**options)
    model = two_headed(ppo, normalize_value=True)
    model.value_scale.copy_(torch.tensor([[0.0, 1.0], [100.0, 10.0]]))
    observation = {"obs": np.ones((2, 3), np.float32)}
    policy = TwoHeadedPPO(attrs.evolve(ppo._config, normalize_value=True), context=ppo._context).make_policy()
    policy.load({name: tensor.detach().numpy() for name, tensor in model.state_dict().items()})
    decision = policy.act(PolicyInput(observation), rng=np.random.default_rng(0))
    _, values = model({"obs": torch.ones(2, 3)}, {})
    assert list(values) == list(HEADS)
    for head in HEADS:
        np.testing.assert_allclose(values[head].detach(), decision.extras[head], rtol=1e-5)
    assert (decision.extras["curious"] > 50).all()


def test_advantages_are_weighted_sums(make_ppo, make_batch):
    """The advantage of the policy is the weighted sum over reward signals."""
    ppo = make_ppo(normalize_advantage=False)
    batch = played(ppo, make_batch)
    trainer = trainer_of(ppo, weight=8.0)
    parts = [
        estimate_signal(batch, signal, trainable=batch.trainable(), gae_lambda=0.95, per_tick=False, group=Alone())[0]
        for signal in trainer._signals
    ]
    targets = trainer._estimate_targets(batch, batch.trainable())
    torch.testing.assert_close(targets.advantage, parts[0] + 8 * parts[1])


def test_returns_may_go_on_after_a_match(make_ppo, make_batch):
    """With λ = 1 and gamma 0.5, returns of a reward of 0.1 sum up to the end of the segment."""
    batch = played(make_ppo(), make_batch)
    batch.terminated[:] = False
    batch.terminated[3, :] = True
    batch.terminated[7, 0] = True
    batch.extras["curious"][:] = 0
    common = {"trainable": batch.trainable(), "gae_lambda": 1.0, "per_tick": False, "group": Alone()}
    endless, bound = (
        estimate_signal(batch, RewardSignal(head="curious", gamma=0.5, ends_with_match=ends, reward=tenth), **common)[1]
        for ends in (False, True)
    )
    assert endless[0].tolist() == pytest.approx([0.1 * (2 - 0.5**7)] * 6)
    assert bound[0].tolist() == pytest.approx([0.1 * (2 - 0.5**3)] * 6)


@pytest.mark.parametrize("vtrace", [False, True])
def test_an_unseen_next_match_has_the_value_of_the_last_decision(make_ppo, make_batch, vtrace):
    """Where a segment ends with its match and returns continue."""
    batch = played(make_ppo(), make_batch)
    batch.terminated[7, :2] = True, False
    values = torch.from_numpy(batch.extras["curious"])
    reevaluation = Reevaluation(log_ratio=torch.zeros(values.shape), values={"curious": values}) if vtrace else None
    signal = RewardSignal(head="curious", gamma=0.5, ends_with_match=False, reward=tenth)
    advantage, _ = estimate_signal(
        batch,
        signal,
        trainable=batch.trainable(),
        gae_lambda=0.0,
        per_tick=False,
        group=Alone(),
        reevaluation=reevaluation,
    )
    assert advantage[7, 0] == pytest.approx(0.1 + 0.5 * values[7, 0] - values[7, 0])
    assert advantage[7, 1] == pytest.approx(0.1 + 0.5 * values[8, 1] - values[7, 1])


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_value_losses_have_weights(make_ppo, make_batch, weight):
    """The head of a signal with value weight 0 does not change."""
    ppo = make_ppo(learning_rate=0.01)
    trainer, batch = trainer_of(ppo, value_weight=weight), played(ppo, make_batch)
    before = trainer.weights()
    trainer.update(batch, progress=0.0)
    name = "network.critic_heads.curious.out.bias"
    assert (trainer.weights()[name] != before[name]).all() == bool(weight)


def test_every_signal_has_metrics(make_ppo, make_batch):
    """Their names begin with the prefix of the signal."""
    ppo = make_ppo(num_minibatches=1)
    trainer, batch = trainer_of(ppo), played(ppo, make_batch)
    metrics = trainer.update(batch, progress=0.0).metrics
    assert metrics["value_mean"] == pytest.approx(batch.extras["value"][:8].mean(), abs=1e-5)
    assert metrics["curious_value_mean"] == pytest.approx(batch.extras["curious"][:8].mean(), abs=1e-5)


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


@pytest.mark.parametrize("offset", [0.0, 1000.0, 100_000.0])
def test_normalized_values_learn_returns_of_any_scale(make_ppo, make_batch, offset):
    """Large returns are predicted as fast as small ones, and the scale is part of the model."""
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
    """The moments of a batch enter with a weight of a hundredth."""
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
