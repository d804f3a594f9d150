"""The trainer: the contract, one update against a plain re-implementation, metrics, refusals, resuming."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import ContractError
from ludus.errors import ConfigError
from ludus.group import Alone
from ludus.spaces import leaf_spaces
from ludus.testing import check_algorithm, update_together
from ludus_networks.config import EntityPart, ModularConfig
from ludus_networks.modular import make_modular
from ludus_rnd_ppo.algorithm import RNDPPO
from ludus_rnd_ppo.config import RNDPPOConfig


@pytest.mark.parametrize(
    "options",
    [
        {"intrinsic_ends": True, "discount_per": "tick", "predictor_share": 1.0},
        {"advantage": "vtrace", "normalize_value": True},
    ],
    ids=str,
)
def test_the_algorithm_keeps_its_contract(options):
    """Segments with every case there is, resuming bit for bit, NaN refused."""
    check_algorithm(lambda context: RNDPPO(RNDPPOConfig(**options), context=context))


def same(one, other) -> bool:
    """Return whether two sets of arrays are equal to the bit."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def copy_of(rnd, trainer):
    """Return a trainer that goes on from the state of another."""
    again = rnd.make_trainer(seed=99)
    again.load_weights(trainer.weights())
    again.load_state(trainer.state())
    return again


def plain_advantage(batch, reward, value, *, gamma, ends):
    """Return GAE at λ = 0.8, entry by entry and seat by seat."""
    advantage = np.zeros(batch.reward.shape)
    for seat in range(advantage.shape[1]):
        after = 0.0
        for t in reversed(range(8)):
            over = batch.terminated[t, seat]
            if over and ends:
                next_value, after = 0.0, 0.0
            elif over and t == 7:  # the next match is in another segment: worth what this one was
                next_value, after = value[t, seat], 0.0
            else:
                next_value = value[t + 1, seat]
            after = reward[t, seat] + gamma * next_value - value[t, seat] + gamma * 0.8 * after
            advantage[t, seat] = after
    return advantage


@pytest.mark.parametrize("ends", [False, True])
def test_one_update_is_the_textbook_one(make_rnd, make_batch, ends):
    """2 Â_e + 8 Â_i, two value losses and the predictor's, written down with torch.distributions [DIS eq. 3-5]."""
    rnd = make_rnd(
        num_minibatches=1, gamma=0.9, gae_lambda=0.8, max_grad_norm=0.3, learning_rate=1e-2,
        intrinsic_ends=ends, intrinsic_value_weight=0.7, predictor_coef=0.4, normalize_advantage=False,
    )  # fmt: skip
    batch = make_batch(rnd)
    batch.terminated[3:, :3] |= np.eye(6, 3, dtype=bool)
    batch.terminated[7, :2] = True
    trainer, plain = rnd.make_trainer(seed=1), rnd.make_trainer(seed=1)
    trainer.update(batch, progress=0.0)

    model, novelty = plain._model, plain._novelty
    intrinsic = novelty.reward(batch, Alone())
    value, intrinsic_value = batch.extras["value"], batch.extras["intrinsic_value"]
    extrinsic_part = plain_advantage(batch, batch.reward, value, gamma=0.9, ends=True)
    intrinsic_part = plain_advantage(batch, intrinsic, intrinsic_value, gamma=0.99, ends=ends)

    def flat(array):
        return torch.from_numpy(array[:8].reshape(48, *array.shape[2:]).astype(np.float32))

    advantage = flat(2 * extrinsic_part + 8 * intrinsic_part)
    observation = flat(batch.observation["obs"])
    logits, values = model({"obs": observation}, {})
    distribution = torch.distributions.Categorical(logits=logits)
    ratio = (distribution.log_prob(flat(batch.action)[:, 0]) - flat(batch.extras["log_prob"])[:, 0]).exp()
    gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
    gain = torch.where(advantage < 0, torch.maximum(gain, 3 * advantage), gain).mean()
    moments = novelty.observations[0]
    read = {"obs": ((observation - moments.mean) / moments.deviation).float().clamp(-5, 5)}
    wrong = novelty.predictor(read, {}, {})[0]["rnd"] - novelty.target(read, {}, {})[0]["rnd"]
    loss = -gain - 0.01 * distribution.entropy().mean() + 0.4 * wrong.square().mean()
    loss += 0.5 * (values["value"] - flat(extrinsic_part + value)).square().mean()
    loss += 0.5 * 0.7 * (values["intrinsic_value"] - flat(intrinsic_part + intrinsic_value)).square().mean()
    parameters = [*model.parameters(), *novelty.predictor.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-2, eps=1e-5)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 0.3)
    optimizer.step()
    model.value_min.fill_(min(0.0, batch.extras["value"][batch.trainable()].min()))
    for name, array in trainer.weights().items():
        np.testing.assert_allclose(array, model.state_dict()[name], rtol=1e-3, atol=1e-5, err_msg=name)
    for name, tensor in novelty.state_dict().items():
        learned = trainer.state()[f"rnd.{name}"]
        np.testing.assert_allclose(learned, tensor, rtol=1e-3, atol=1e-5, err_msg=name)


def test_metrics_describe_novelty(make_rnd, make_batch):
    """In addition to the metrics of PPO."""
    rnd = make_rnd()
    trainer = rnd.make_trainer(seed=1)
    metrics = trainer.update(make_batch(rnd), progress=0.0).metrics
    new = {"predictor_loss", "intrinsic_reward_mean", "intrinsic_explained_variance"}
    new |= {"intrinsic_value_mean", "intrinsic_return_mean"}
    assert new | {"policy_loss", "value_mean", "explained_variance"} < metrics.keys()
    assert metrics["predictor_loss"] > 0
    assert metrics["intrinsic_reward_mean"] > 0


def test_the_metric_of_the_predictor_has_no_weight(make_rnd, make_batch):
    """So that runs with different weights can be compared."""
    losses = []
    for coef in (1.0, 0.25):
        rnd = make_rnd(predictor_coef=coef, num_minibatches=1)
        losses.append(rnd.make_trainer(seed=1).update(make_batch(rnd), progress=0.0).metrics["predictor_loss"])
    assert losses[0] == pytest.approx(losses[1])


def test_frequent_observations_become_less_rewarding(make_rnd, make_batch):
    """Unlike other observations."""
    rnd = make_rnd(learning_rate=3e-3, epochs=4)
    trainer = rnd.make_trainer(seed=1)
    rewards = []
    for seed in range(30):
        batch = make_batch(rnd, seed=seed)
        batch.observation["obs"] = np.abs(batch.observation["obs"])
        rewards.append(trainer.update(batch, progress=0.0).metrics["intrinsic_reward_mean"])
    assert rewards[-1] < 0.2 * rewards[0]
    batch.observation["obs"] *= -1
    assert trainer._novelty.reward(batch, Alone()).mean() > 5 * rewards[-1]


def test_resuming_is_exact(make_rnd, make_batch):
    """Including statistics, both networks and Adam's moments of the predictor."""
    rnd = make_rnd(predictor_share=0.5)
    trainer = rnd.make_trainer(seed=1)
    trainer.update(make_batch(rnd, seed=1), progress=0.0)
    again = copy_of(rnd, trainer)
    for seed in (2, 3):
        for one in (trainer, again):
            one.update(make_batch(rnd, seed=seed), progress=0.5)
    assert same(trainer.weights(), again.weights())
    assert same(trainer.state(), again.state())


def test_the_state_is_complete(make_rnd):
    """Predictor, target and statistics belong to the state of the trainer and not to the weights."""
    trainer = make_rnd().make_trainer(seed=1)
    state, weights = trainer.state(), trainer.weights()
    for name in ("target.trunk", "predictor.trunk", "observations.0.mean", "observations.0.count", "returns.variance"):
        assert any(key.startswith(f"rnd.{name}") for key in state), name
    assert any(key.startswith("adam/exp_avg/rnd.predictor") for key in state)
    assert not any("adam" in key and "target" in key for key in state)
    assert not any("predictor" in key or "target" in key for key in weights)


def test_a_refused_update_leaves_the_statistics(make_rnd, make_batch):
    """NaN in an observation would make them NaN for good."""
    rnd = make_rnd()
    trainer = rnd.make_trainer(seed=1)
    trainer.update(make_batch(rnd), progress=0.0)
    before = trainer.state()
    batch = make_batch(rnd, seed=2)
    batch.observation["obs"][2, 3, 1] = np.nan
    with pytest.raises(ContractError, match="not finite"):
        trainer.update(batch, progress=0.0)
    assert same(before, trainer.state())


def test_recurrent_networks(make_rnd, make_batch):
    """The policy is unrolled; predictor and target read single observations."""

    def build(request):
        return make_modular(ModularConfig(torso=(8,), core="lstm", core_size=4), request=request)

    rnd = make_rnd(build_network=build, predictor_share=0.5)
    trainer = rnd.make_trainer(seed=1)
    first = trainer.update(make_batch(rnd), progress=0.0).metrics["predictor_loss"]
    for _ in range(20):
        last = trainer.update(make_batch(rnd), progress=0.0).metrics["predictor_loss"]
    assert last < first


def attentive(request):
    """Make a network in which hidden layers do not come last."""
    part = EntityPart(leaf="mice", hidden=(4,), pool="attention")
    return make_modular(ModularConfig(entities={"mice": part}, torso=(4,)), request=request)


@pytest.mark.parametrize("kernels", ["onednn", "torch", "plain"])
@pytest.mark.parametrize(
    ("space", "options"),
    [
        pytest.param(spaces.Box(-1, 1, (3,), np.float32), {"rnd_features": 1}, id="one feature"),
        pytest.param(
            spaces.Dict({"mice": spaces.Box(-1, 1, (3, 1), np.float32)}), {"build_network": attentive}, id="attention"
        ),
    ],
)
def test_half_precision_stays_close(make_rnd, make_batch, space, options, kernels):
    """Whatever layer follows one that returns bfloat16."""
    batch = make_batch(make_rnd())
    (leaf,) = leaf_spaces(space)
    batch.observation = {leaf: batch.observation["obs"].reshape(9, 6, *leaf_spaces(space)[leaf].shape)}
    half, full = (
        make_rnd(space, precision=precision, cpu_kernels=kernels, **options)
        .make_trainer(seed=1)
        .update(batch, progress=0.0)
        for precision in ("bf16", "fp32")
    )
    assert half.metrics["intrinsic_reward_mean"] == pytest.approx(full.metrics["intrinsic_reward_mean"], rel=0.05)
    assert half.metrics["predictor_loss"] == pytest.approx(full.metrics["predictor_loss"], rel=0.05)


def test_a_group_learns_what_one_learns(make_rnd, make_batch):
    """The statistics cover the shards of all processes."""
    rnd = make_rnd(num_minibatches=1, epochs=2, learning_rate=1e-2)
    alone, *group = (rnd.make_trainer(seed=1) for _ in range(3))
    for seed in range(3):
        batch = make_batch(rnd, seed=seed)
        expected = alone.update(batch, progress=0.0)
        results = update_together(group, [batch.part(0, 2), batch.part(2, 6)])
    assert results[0].metrics["predictor_loss"] == pytest.approx(expected.metrics["predictor_loss"], rel=1e-3)
    for trainer in group:
        for got, wanted in ((trainer.weights(), alone.weights()), (trainer.state(), alone.state())):
            for name in wanted:
                np.testing.assert_allclose(got[name], wanted[name], atol=2e-4, rtol=1e-3, err_msg=name)


def test_a_device_without_64_bits_is_refused(make_rnd):
    """The running statistics need 64 bits."""
    with pytest.raises(ConfigError, match=r"^run\.device: rnd-ppo keeps statistics in 64 bits, which mps:0 does not"):
        make_rnd().make_trainer(seed=1, device="mps:0")
