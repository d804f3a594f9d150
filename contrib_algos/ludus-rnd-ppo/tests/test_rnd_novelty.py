"""Intrinsic rewards against plain NumPy, the rows that the predictor reads, and the networks that can be used."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.group import Alone
from ludus_networks.config import ConvConfig, EntityPart, ModularConfig
from ludus_networks.modular import make_modular
from ludus_networks.network import make_conv
from ludus_ppo.row_minibatches import RowMinibatches
from torch import nn


def plain_errors(novelty, observation):
    """Return the errors of the two networks at observations ``[…, 3]`` that are normalized already."""
    read = {"obs": torch.from_numpy(observation.reshape(-1, 3).astype(np.float32))}
    with torch.no_grad():
        of = [network(read, {}, {})[0]["rnd"].numpy() for network in (novelty.predictor, novelty.target)]
    return ((of[0] - of[1]) ** 2).mean(axis=1).reshape(observation.shape[:-1])


def plain_sums(rewards, gammas, terminated):
    """Return discounted sums over the first T entries, which end where `terminated` is True."""
    sums, after = np.zeros_like(rewards), np.zeros(rewards.shape[1])
    for t in reversed(range(len(rewards) - 1)):
        after = rewards[t] + gammas[t] * np.where(terminated[t], 0, after)
        sums[t] = after
    return sums


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("per", ["decision", "tick"])
def test_rewards_are_normalized_errors(make_rnd, make_novelty, make_batch, ends, per):
    """Of two batches, so that the statistics run."""
    rnd = make_rnd(intrinsic_ends=ends, discount_per=per, intrinsic_gamma=0.9)
    novelty = make_novelty(rnd)
    observed, returns = np.zeros((0, 3)), np.zeros(0)
    for seed in (1, 2):
        batch = make_batch(rnd, seed=seed)
        rewards = novelty.reward(batch, Alone())
        observation = batch.observation["obs"].astype(np.float64)
        observed = np.concatenate([observed, observation[:8].reshape(-1, 3)])
        error = plain_errors(novelty, ((observation - observed.mean(axis=0)) / observed.std(axis=0)).clip(-5, 5))
        expected = np.where(batch.terminated[:-1], error[:-1], error[1:])
        gammas = 0.9 ** (batch.elapsed_ticks if per == "tick" else np.ones((9, 6)))
        sums = plain_sums(np.concatenate([expected, error[-1:]]), gammas, batch.terminated & ends)[:8]
        returns = np.concatenate([returns, sums.ravel()])
        np.testing.assert_allclose(rewards[:8], expected / returns.std(), rtol=1e-3)
    assert novelty.reward_mean == pytest.approx(rewards[:8].mean(), rel=1e-5)


def test_what_is_undefined_does_not_matter(make_rnd, make_novelty, make_batch):
    """Undefined entries and final observations may hold anything."""
    rnd = make_rnd()
    novelties = [make_novelty(rnd), make_novelty(rnd)]
    novelties[1].load_state_dict(novelties[0].state_dict())
    results = []
    for novelty, filler in zip(novelties, (0.0, np.nan), strict=True):
        batch = make_batch(rnd)
        batch.length[0], batch.terminated[:, 0] = 4, False
        batch.decided[5:, 0] = False
        batch.observation["obs"][5:, 0] = filler
        batch.truncated[2, 1], batch.terminated[2, 1], batch.decided[3, 1] = True, False, False
        batch.observation["obs"][3, 1] = filler
        results.append(novelty.reward(batch, Alone())[batch.trainable()])
    assert np.isfinite(results[0]).all()
    np.testing.assert_array_equal(*results)


def test_constant_returns_are_not_scaled_up(make_rnd, make_novelty, make_batch):
    """Where all observations are equally novel, a return is 10."""
    rnd = make_rnd(intrinsic_gamma=0.0)
    batch = make_batch(rnd)
    batch.observation["obs"][:] = 0.5
    novelty = make_novelty(rnd)
    nn.init.ones_(novelty.predictor.heads["rnd"].out.bias)
    np.testing.assert_allclose(novelty.reward(batch, Alone())[:8], 10, rtol=1e-3)


def minibatch_of(batch, **options):
    """Return all trainable decisions of a batch in one minibatch, in random order."""
    zeros = np.zeros(batch.reward.shape, np.float32)
    targets = {"advantage": zeros, "returns/value": zeros}
    device = torch.device("cpu")
    source = RowMinibatches(batch, trainable=batch.trainable(), targets=targets, device=device, **options)
    (index,) = source.draw(np.random.default_rng(0), count=1)
    return source.take(index)


def loss_of(novelty, minibatch):
    """Return the weighted loss of the predictor."""
    loss, _ = novelty(minibatch, None)
    return loss


@pytest.mark.parametrize("few_sizes", [False, True])
def test_the_predictor_learns_from_a_share_of_the_rows(make_rnd, make_novelty, make_batch, few_sizes):
    """Every fourth row, times the weight; padding never counts."""
    rnd = make_rnd(predictor_share=0.25, predictor_coef=3.0)
    batch = make_batch(rnd, segments=7)
    novelty = make_novelty(rnd)
    novelty.reward(batch, Alone())
    minibatch = minibatch_of(batch, few_sizes=few_sizes)
    moments = novelty.observations[0]
    read = ((minibatch.observation["obs"].numpy() - moments.mean.numpy()) / moments.deviation.numpy()).clip(-5, 5)
    expected = plain_errors(novelty, read[:56:4])
    assert loss_of(novelty, minibatch).item() == pytest.approx(3 * expected.mean(), rel=1e-4)


def test_all_rows_count_once_at_a_share_of_one(make_rnd, make_novelty, make_batch):
    """Also in padded minibatches."""
    rnd = make_rnd()
    batch = make_batch(rnd, steps=9, segments=7)
    novelty = make_novelty(rnd)
    novelty.reward(batch, Alone())
    padded, plain = (loss_of(novelty, minibatch_of(batch, few_sizes=few)) for few in (True, False))
    assert len(minibatch_of(batch, few_sizes=True).observation["obs"]) == 64
    torch.testing.assert_close(padded, plain)


def test_only_the_predictor_learns(make_rnd, make_novelty, make_batch):
    """The target does not change."""
    rnd = make_rnd()
    batch = make_batch(rnd)
    novelty = make_novelty(rnd)
    novelty.reward(batch, Alone())
    loss_of(novelty, minibatch_of(batch)).backward()
    assert all(parameter.grad is not None for parameter in novelty.predictor.parameters())
    assert not any(parameter.requires_grad for parameter in novelty.target.parameters())


def conv(request):
    """Make a network for images."""
    return make_conv(ConvConfig(channels=(2,), hidden=(4,)), request=request)


def recurrent(request):
    """Make a recurrent network with running statistics."""
    return make_modular(ModularConfig(torso=(4,), core="gru", core_size=3, normalize=True), request=request)


MIXED = spaces.Dict(
    {
        "board": spaces.Box(0, 255, (4, 4, 2), np.uint8),
        "turn": spaces.Discrete(3, start=1),
        "flags": spaces.MultiBinary(4),
    }
)


@pytest.mark.parametrize("build", [conv, recurrent])
def test_any_network_and_any_leaves(make_rnd, make_novelty, make_batch, build):
    """Images stay images, Discrete leaves are read unchanged, and recurrent states start at every row."""
    rnd, small = make_rnd(MIXED, build_network=build), make_rnd()
    batch = make_batch(small)
    rng = np.random.default_rng(0)
    batch.observation = {
        "board": rng.integers(0, 255, (9, 6, 4, 4, 2), np.uint8),
        "turn": rng.integers(1, 4, (9, 6)),
        "flags": rng.integers(0, 2, (9, 6, 4), np.int8),
    }
    novelty = make_novelty(rnd)
    before = {name: tensor.clone() for name, tensor in novelty.state_dict().items() if name[0] in "pt"}
    rewards = novelty.reward(batch, Alone())
    assert np.isfinite(rewards).all()
    assert rewards.std() > 0
    assert loss_of(novelty, minibatch_of(batch)).item() > 0
    assert novelty.observations[0].mean.shape == (4, 4, 2)
    assert len(novelty.observations) == 1
    after = novelty.state_dict()  # the running statistics of the networks must not change
    torch.testing.assert_close({name: after[name] for name in before}, before, rtol=0, atol=0)


def entities(request):
    """Make a network for entities."""
    part = EntityPart(leaf="mice", present="mice_present", hidden=(4,))
    return make_modular(ModularConfig(entities={"mice": part}, torso=(4,)), request=request)


def mice(present):
    """Return an observation space of three mice with a presence mask of the given space."""
    return spaces.Dict({"mice": spaces.Box(-1, 1, (3, 2), np.float32), "mice_present": present})


def test_absent_entities_are_not_read(make_rnd, make_novelty):
    """Their features change no error, whatever the statistics are."""
    novelty = make_novelty(make_rnd(mice(spaces.MultiBinary(3)), build_network=entities))
    leaves = {"mice": torch.rand(50, 3, 2), "mice_present": torch.randint(0, 2, (50, 3), dtype=torch.int8)}
    novelty.observations[0].add(leaves["mice"])
    there = leaves["mice_present"].bool().unsqueeze(2)
    other = {**leaves, "mice": torch.where(there, leaves["mice"], 0.5)}
    torch.testing.assert_close(novelty._errors(leaves), novelty._errors(other), rtol=0, atol=0)


def test_masks_that_would_be_normalized_are_refused(make_rnd):
    """Normalized, they would not be masks any more."""
    rnd = make_rnd(mice(spaces.Box(0, 1, (3,), np.float32)), build_network=entities)
    with pytest.raises(ContractError, match=r"entities.mice.present: .* from -5 to 5; declare it as MultiBinary"):
        rnd.make_trainer(seed=1)
