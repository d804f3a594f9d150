"""What is new: rewards against plain NumPy, which rows are read, and which networks can be used."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus.errors import ContractError
from ludus_networks.config import ConvConfig, EntityPart, ModularConfig
from ludus_networks.modular import make_modular
from ludus_networks.network import make_conv
from ludus_ppo.rows import RowSource
from ludus_rnd_ppo.networks import Novelty
from ludus_torch.testing import recorded_on_cpu
from torch import nn


def plain_errors(novelty, observation):
    """Return the errors of the two networks at observations ``[…, 3]`` that are normalised already."""
    read = {"obs": torch.from_numpy(observation.reshape(-1, 3).astype(np.float32))}
    with torch.no_grad():
        of = [network(read, {}, {})[0]["rnd"].numpy() for network in (novelty.predictor, novelty.target)]
    return ((of[0] - of[1]) ** 2).mean(axis=1).reshape(observation.shape[:-1])


def plain_sums(rewards, gammas, terminated):
    """Return discounted sums over the first T entries, match by match where `terminated` says so."""
    sums, after = np.zeros_like(rewards), np.zeros(rewards.shape[1])
    for t in reversed(range(len(rewards) - 1)):
        after = rewards[t] + gammas[t] * np.where(terminated[t], 0, after)
        sums[t] = after
    return sums


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("per", ["decision", "tick"])
def test_rewards_are_normalised_errors(make_rnd, make_novelty, make_batch, ends, per):
    """Two batches in a row, so that the statistics run."""
    rnd = make_rnd(intrinsic_ends=ends, discount_per=per, intrinsic_gamma=0.9)
    novelty = make_novelty(rnd)
    seen, returns = np.zeros((0, 3)), np.zeros(0)
    for seed in (1, 2):
        batch = make_batch(rnd, seed=seed)
        rewards = novelty.reward(batch)
        observation = batch.observation["obs"].astype(np.float64)
        seen = np.concatenate([seen, observation[:8].reshape(-1, 3)])
        error = plain_errors(novelty, ((observation - seen.mean(axis=0)) / seen.std(axis=0)).clip(-5, 5))
        expected = np.where(batch.terminated[:-1], error[:-1], error[1:])
        gammas = 0.9 ** (batch.elapsed_ticks if per == "tick" else np.ones((9, 6)))
        sums = plain_sums(np.concatenate([expected, error[-1:]]), gammas, batch.terminated & ends)[:8]
        returns = np.concatenate([returns, sums.ravel()])
        np.testing.assert_allclose(rewards[:8], expected / returns.std(), rtol=1e-3)
    assert novelty.reward_mean == pytest.approx(rewards[:8].mean(), rel=1e-5)


def test_what_is_undefined_does_not_matter(make_rnd, make_novelty, make_batch):
    """Entries behind a segment may hold anything, and so may final observations."""
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
        results.append(novelty.reward(batch)[batch.trainable()])
    assert np.isfinite(results[0]).all()
    np.testing.assert_array_equal(*results)


def test_returns_that_do_not_vary_are_not_blown_up(make_rnd, make_novelty, make_batch):
    """Where everything is equally new, a return counts 10."""
    rnd = make_rnd(intrinsic_gamma=0.0)
    batch = make_batch(rnd)
    batch.observation["obs"][:] = 0.5
    novelty = make_novelty(rnd)
    nn.init.ones_(novelty.predictor.heads["rnd"].out.bias)
    np.testing.assert_allclose(novelty.reward(batch)[:8], 10, rtol=1e-3)


def rows_of(rnd, batch, **options):
    """Return all trainable decisions of a batch in one minibatch, in random order."""
    nothing = torch.zeros(batch.reward.shape)
    more = {"advantage": nothing, "returns/value": nothing}
    source = RowSource(batch, trainable=batch.trainable(), more=more, device=torch.device("cpu"), **options)
    (part,) = source.minibatches(np.random.default_rng(0), count=1)
    return source.take(part)


@pytest.mark.parametrize("few_shapes", [False, True])
def test_the_predictor_learns_from_a_share_of_the_rows(make_rnd, make_novelty, make_batch, few_shapes):
    """Every fourth, times its weight; rows that only fill up never count."""
    rnd = make_rnd(predictor_share=0.25, predictor_coef=3.0)
    batch = make_batch(rnd, segments=7)
    novelty = make_novelty(rnd)
    novelty.reward(batch)
    rows = rows_of(rnd, batch, few_shapes=few_shapes)
    moments = novelty.observations[0]
    read = ((rows.observation["obs"].numpy() - moments.mean.numpy()) / moments.deviation.numpy()).clip(-5, 5)
    expected = plain_errors(novelty, read[:56:4])
    assert novelty(rows).item() == pytest.approx(3 * expected.mean(), rel=1e-4)


def test_all_rows_count_once_at_a_share_of_one(make_rnd, make_novelty, make_batch):
    """Also where a minibatch is filled up."""
    rnd = make_rnd()
    batch = make_batch(rnd, steps=9, segments=7)
    novelty = make_novelty(rnd)
    novelty.reward(batch)
    filled, plain = (novelty(rows_of(rnd, batch, few_shapes=few)) for few in (True, False))
    assert len(rows_of(rnd, batch, few_shapes=True).observation["obs"]) == 64
    torch.testing.assert_close(filled, plain)


def test_only_the_predictor_learns(make_rnd, make_novelty, make_batch):
    """The target stays random."""
    rnd = make_rnd()
    batch = make_batch(rnd)
    novelty = make_novelty(rnd)
    novelty.reward(batch)
    novelty(rows_of(rnd, batch)).backward()
    assert all(parameter.grad is not None for parameter in novelty.predictor.parameters())
    assert not any(parameter.requires_grad for parameter in novelty.target.parameters())


def conv(request):
    """Make a network for images."""
    return make_conv(ConvConfig(channels=(2,), hidden=(4,)), request=request)


def recurrent(request):
    """Make a network that remembers and has statistics of its own."""
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
    """Images stay images, Discrete leaves are read as they are, and memories start anew at every row."""
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
    rewards = novelty.reward(batch)
    assert np.isfinite(rewards).all()
    assert rewards.std() > 0
    assert novelty(rows_of(small, batch)).item() > 0
    assert novelty.observations[0].mean.shape == (4, 4, 2)
    assert len(novelty.observations) == 1
    after = novelty.state_dict()  # networks that normalise do so by statistics of their own: these must not move
    torch.testing.assert_close({name: after[name] for name in before}, before, rtol=0, atol=0)


def entities(request):
    """Make a network for entities."""
    part = EntityPart(leaf="mice", present="mice_present", hidden=(4,))
    return make_modular(ModularConfig(entities={"mice": part}, torso=(4,)), request=request)


def mice(present):
    """Return what shows three mice, with a mask of that kind."""
    return spaces.Dict({"mice": spaces.Box(-1, 1, (3, 2), np.float32), "mice_present": present})


def test_absent_entities_are_not_read(make_rnd, make_novelty):
    """Their features change no error, wherever the statistics stand."""
    novelty = make_novelty(make_rnd(mice(spaces.MultiBinary(3)), build_network=entities))
    leaves = {"mice": torch.rand(50, 3, 2), "mice_present": torch.randint(0, 2, (50, 3), dtype=torch.int8)}
    novelty.observations[0].add(leaves["mice"])
    there = leaves["mice_present"].bool().unsqueeze(2)
    other = {**leaves, "mice": torch.where(there, leaves["mice"], 0.5)}
    torch.testing.assert_close(novelty._errors(leaves), novelty._errors(other), rtol=0, atol=0)


def test_masks_that_would_be_normalised_are_refused(make_rnd):
    """Nobody would be absent any more."""
    rnd = make_rnd(mice(spaces.Box(0, 1, (3,), np.float32)), build_network=entities)
    with pytest.raises(ContractError, match=r"entities.mice.present: .* from -5 to 5; declare it as MultiBinary"):
        rnd.make_trainer(seed=1)


def reward_often(make_rnd, make_novelty, make_batch, device, **options):
    """Return the intrinsic rewards of several batches, between which the predictor changes, and the statistics."""
    rnd = make_rnd(**options)
    torch.manual_seed(3)
    novelty = make_novelty(rnd).to(device)
    rewards = []
    for seed in range(5):
        batch = make_batch(rnd, steps=20, segments=300, seed=seed)
        batch.decided[5 * seed] = False
        rewards.append(novelty.reward(batch))
        with torch.no_grad():
            for parameter in novelty.predictor.parameters():
                parameter.add_(0.1)
    return rewards, [buffer.cpu().numpy() for buffer in novelty.buffers()]


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)
def test_recorded_errors_are_those_of_now(make_rnd, make_novelty, make_batch, monkeypatch, caplog, device):
    """With the statistics and the predictor as they are by then; in more parts than one."""
    expected, statistics = reward_often(make_rnd, make_novelty, make_batch, "cpu")
    if device == "cpu":
        monkeypatch.setattr(Novelty, "_records", True)
    with recorded_on_cpu() if device == "cpu" else nullcontext([None]) as made:
        rewards, found = reward_often(make_rnd, make_novelty, make_batch, device)
    assert made
    for ours, theirs in zip([*rewards, *found], [*expected, *statistics], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-5)
    assert not caplog.records
