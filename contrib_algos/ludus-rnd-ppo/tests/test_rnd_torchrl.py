"""Rewards, predictor and advantages against those of torchrl, with copies of the same two networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ludus.group import Alone
from torch import nn

pytestmark = pytest.mark.filterwarnings("default")  # the other library warns about itself


@pytest.fixture
def torchrl():
    """Return the library with what is used of it imported, or skip the test."""
    library = pytest.importorskip("torchrl")
    pytest.importorskip("torchrl.envs.transforms.rnd")
    pytest.importorskip("torchrl.objectives.rnd")
    pytest.importorskip("torchrl.objectives.value.functional")
    return library


def copied(network):
    """Return plain layers of torch with the weights of one of the networks of the fixtures."""
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    first, last = (nn.Linear(layer.in_features, layer.out_features) for layer in layers)
    for copy, layer in zip((first, last), layers, strict=True):
        copy.load_state_dict(layer.state_dict())
    return nn.Sequential(first, nn.Tanh(), last)


def steps(batch, leaf):
    """Return the T entries ``[T, N, …]`` at which a batch of full segments decided, as a tensor."""
    return torch.from_numpy(leaf[: batch.reward.shape[0] - 1])


def novelty_with_moving_target(make_novelty, rnd):
    """Return novelty whose statistics and networks differ from their first values."""
    novelty = make_novelty(rnd)
    for parameter in novelty.predictor.parameters():
        parameter.data += 0.1
    return novelty


def statistics(torchrl, shape=()):
    """Return torchrl's running mean and variance, without its initial pseudo-count."""
    return torchrl.envs.transforms.rnd.RunningMeanStd(shape, epsilon=0.0)


def test_the_predictor_loss_is_that_of_torchrl(torchrl, make_rnd, make_novelty, make_batch):
    """Statistics of two batches, the loss on the second one, and its gradient."""
    from ludus_ppo.row_minibatches import RowMinibatches
    from tensordict import TensorDict

    rnd = make_rnd(observation_clip=1.0)
    novelty = novelty_with_moving_target(make_novelty, rnd)
    moments = statistics(torchrl, (3,))
    for seed in (1, 2):
        batch = make_batch(rnd, seed=seed)
        novelty.reward(batch, Alone())
        moments.update(steps(batch, batch.observation["obs"]))
    zeros = np.zeros(batch.reward.shape, np.float32)
    targets = {"advantage": zeros, "returns/value": zeros}
    source = RowMinibatches(batch, trainable=batch.trainable(), targets=targets, device=torch.device("cpu"))
    (index,) = source.draw(np.random.default_rng(0), count=1)
    rows = source.take(index)
    ours, _ = novelty(rows, None)
    ours.backward()
    predictor = copied(novelty.predictor)
    loss = torchrl.objectives.rnd.RNDLoss(
        predictor, copied(novelty.target), obs_rms=moments, obs_clip=1.0, update_fraction=1.0
    )
    theirs = loss(TensorDict({"next": {"observation": rows.observation["obs"]}}, [48]))["loss_predictor"]
    theirs.backward()
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    gradients = [parameter.grad for parameter in novelty.predictor.parameters()]
    expected = [parameter.grad for parameter in predictor.parameters()]
    torch.testing.assert_close(gradients, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ends", [False, True])
def test_intrinsic_rewards_are_those_of_torchrl(torchrl, make_rnd, make_novelty, make_batch, ends):
    """Errors at the observations decisions lead to, over the running deviation of their rewards to go; two batches."""
    from tensordict import TensorDict

    rnd = make_rnd(intrinsic_ends=ends, intrinsic_gamma=0.9)
    novelty = novelty_with_moving_target(make_novelty, rnd)
    error = torchrl.envs.transforms.RNDTransform(
        copied(novelty.target), copied(novelty.predictor), normalize_obs=False, normalize_reward=False
    )
    moments, returns = statistics(torchrl, (3,)), statistics(torchrl)
    for seed in (1, 2):
        batch = make_batch(rnd, seed=seed)
        ours = novelty.reward(batch, Alone())[:8]
        observation, terminated = torch.from_numpy(batch.observation["obs"]), steps(batch, batch.terminated)
        moments.update(observation[:8])
        # the last decision of a match gets the error at its own observation
        led_to = torch.where(terminated[..., None], observation[:-1], observation[1:])
        following = TensorDict({"observation": moments.normalize(led_to).clamp(-5, 5)}, [8, 6])
        raw = error._step(TensorDict({}, [8, 6]), following)["intrinsic_reward"].squeeze(-1)
        done = terminated & ends
        returns.update(torchrl.objectives.value.functional.reward2go(raw, done, 0.9, time_dim=0))
        np.testing.assert_allclose(ours, raw / returns.var.sqrt(), rtol=1e-5, atol=1e-5)


def test_both_advantages_are_those_of_torchrl(torchrl, make_rnd, make_batch):
    """2 Â_e + 8 Â_i; intrinsic advantages do not end with a match [DIS eq. 3]."""
    rnd = make_rnd(gamma=0.8, gae_lambda=0.7, normalize_advantage=False)
    batch = make_batch(rnd)
    batch.terminated[7] = False  # behind the end of a segment nothing is known of the next match
    trainer, plain = rnd.make_trainer(seed=1), rnd.make_trainer(seed=1)
    ours = trainer._estimate_targets(batch, batch.trainable()).advantage[:8]
    expected = torch.zeros(8, 6)
    signals = (
        (2.0, 0.8, batch.reward, "value", batch.terminated),
        (8.0, 0.99, plain._novelty.reward(batch, Alone()), "intrinsic_value", np.zeros_like(batch.terminated)),
    )
    for weight, gamma, reward, head, done in signals:
        value = torch.from_numpy(batch.extras[head])
        advantage, _ = torchrl.objectives.value.functional.generalized_advantage_estimate(
            gamma, 0.7, value[:-1], value[1:], steps(batch, reward), steps(batch, done), time_dim=0
        )
        expected += weight * advantage
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
