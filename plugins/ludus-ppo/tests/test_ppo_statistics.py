"""Normalizing networks: their statistics are constant during an update, which adds its decisions at the end."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus import ContractError
from ludus.algorithm import PolicyInput
from ludus_networks.config import ModularConfig
from ludus_networks.modular import make_modular

NORM = "network.trunk.encoders.rest.norm"
HIDDEN = {"privileged": spaces.Dict({"fog": spaces.Box(-1, 1, (2,), np.float32)})}


def normalizing(request):
    """Build a network with running statistics and without recurrence."""
    return make_modular(ModularConfig(torso=(16,), normalize=True), request=request)


def recurrent(request):
    """Build a recurrent one."""
    return make_modular(ModularConfig(torso=(8,), core="gru", core_size=8, normalize=True), request=request)


def make_decisive(trainer):
    """Let the policy of a trainer prefer some actions by far."""
    weights = trainer.weights()
    name = next(name for name in weights if name.endswith("heads.policy.out.weight"))
    trainer.load_weights(weights | {name: weights[name] * 100})


def decide(ppo, trainer, batch, *, scale=5.0):
    """Scale two columns of the observations of a batch, and let the current weights decide on them."""
    batch.observation["obs"][..., :2] = batch.observation["obs"][..., :2] * np.float32(scale) + 3
    shape, policy = batch.reward.shape, ppo.make_policy()
    policy.load(trainer.weights())
    fog = {name: leaf.reshape(-1, leaf.shape[-1]) for name, leaf in batch.privileged.items()}
    observation = {"obs": batch.observation["obs"].reshape(-1, 3)}
    decision = policy.act(PolicyInput(observation, privileged=fog), rng=np.random.default_rng(int(batch.length.sum())))
    batch.action = decision.action.reshape(*shape, -1)
    batch.extras = {name: array.reshape(*shape, *array.shape[1:]) for name, array in decision.extras.items()}
    return batch


def same(one, other):
    """Return whether named arrays are equal to the bit."""
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


@pytest.mark.parametrize("minibatches", [1, 4])
def test_all_minibatches_reproduce_the_recorded_policy(make_ppo, make_batch, minibatches):
    """With a constant policy all ratios are 1 in every update, although the statistics change between updates."""
    ppo = make_ppo(build_network=normalizing, learning_rate=1e-30, num_minibatches=minibatches, epochs=2)
    trainer = ppo.make_trainer(seed=1)
    make_decisive(trainer)
    for seed in range(3):
        before = trainer.weights()
        metrics = trainer.update(decide(ppo, trainer, make_batch(ppo, seed=seed)), progress=0.0).metrics
        assert metrics["approx_kl"] == pytest.approx(0, abs=1e-5)
        assert metrics["clip_fraction"] == 0
        assert not np.array_equal(before[f"{NORM}.mean"], trainer.weights()[f"{NORM}.mean"])


@pytest.mark.parametrize("kernels", ["onednn", "torch", "plain"])
@pytest.mark.parametrize(("steps", "segments", "minibatches"), [(31, 37, 4), (9, 7, 1)])
def test_decisions_are_counted_once(make_ppo, make_batch, kernels, steps, segments, minibatches):
    """With padding and any number of passes; only decisions count."""
    options = {"num_minibatches": minibatches, "epochs": 2, "cpu_kernels": kernels}
    ppo = make_ppo(build_network=normalizing, **HIDDEN, **options)
    trainer = ppo.make_trainer(seed=1)
    batch = make_batch(ppo, steps=steps, segments=segments, privileged={"fog": 2})
    batch.length[0] = 3
    trainable = batch.trainable()
    decide(ppo, trainer, batch)
    trainer.update(batch, progress=0.0)
    weights = trainer.weights()
    counts = {name: float(array) for name, array in weights.items() if name.endswith("norm.count")}
    assert len(counts) == 2
    assert set(counts.values()) == {batch.num_decisions}
    observed = batch.observation["obs"][trainable]
    np.testing.assert_allclose(weights[f"{NORM}.mean"], observed.mean(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(weights[f"{NORM}.variance"], observed.var(0), rtol=1e-3)


@pytest.mark.parametrize("burn_in", [0, 3])
def test_recurrent_networks_count_the_trainable_decisions(make_ppo, make_batch, burn_in):
    """Not the burn-in or undefined entries."""
    ppo = make_ppo(build_network=recurrent, burn_in=burn_in)
    trainer = ppo.make_trainer(seed=1)
    memory = ppo.make_policy().initial_state(6)
    batch = make_batch(make_ppo(build_network=normalizing))
    batch.initial_state = memory
    batch.length[0] = 5
    batch.observation["obs"][6:, 0] = np.nan
    trainer.update(batch, progress=0.0)
    learned = batch.trainable()
    learned[:burn_in] = False
    weights = trainer.weights()
    assert weights[f"{NORM}.count"] == learned.sum()
    np.testing.assert_allclose(weights[f"{NORM}.mean"], batch.observation["obs"][learned].mean(0), atol=1e-5)


def test_statistics_are_deterministic(make_ppo, make_batch):
    """Equal seeds give equal weights and metrics to the bit; minibatches do not change the statistics."""

    def trained(minibatches):
        ppo = make_ppo(build_network=normalizing, num_minibatches=minibatches, learning_rate=1e-2)
        trainer = ppo.make_trainer(seed=1)
        for seed in range(2):
            batch = decide(ppo, trainer, make_batch(ppo, steps=32, segments=40, seed=seed))
            metrics = trainer.update(batch, progress=0.0).metrics
        return trainer.weights(), metrics

    (one, metrics), (other, expected), (alone, _) = trained(2), trained(2), trained(5)
    assert same(one, other)
    assert metrics == expected
    statistics = [name for name in alone if name.startswith(NORM)]
    assert len(statistics) == 3
    assert all(np.array_equal(alone[name], one[name]) for name in statistics)


def test_observations_with_infinite_statistics_are_refused(make_ppo, make_batch):
    """The trainer is unchanged, although the loss is finite, as infinite numbers are clipped."""
    ppo = make_ppo(build_network=normalizing)
    trainer = ppo.make_trainer(seed=1)
    trainer.update(decide(ppo, trainer, make_batch(ppo)), progress=0.0)
    weights, state = trainer.weights(), trainer.state()
    batch = decide(ppo, trainer, make_batch(ppo, seed=1))
    batch.observation["obs"][2, 3, 0] = np.inf
    with pytest.raises(ContractError, match="not finite, or too large for statistics"):
        trainer.update(batch, progress=0.0)
    assert same(trainer.weights(), weights)
    assert same(trainer.state(), state)
