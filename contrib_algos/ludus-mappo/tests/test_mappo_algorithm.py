"""MAPPO: the contract, what critic and policy read, and the mean over seats."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ludus import ContractError
from ludus.algorithm import PolicyInput
from ludus.group import Alone
from ludus.testing import check_algorithm
from ludus_mappo.algorithm import make_mappo
from ludus_mappo.config import MAPPOConfig
from ludus_mappo.trainer import seat_weights
from ludus_networks.config import ModularConfig
from ludus_networks.modular import make_modular
from ludus_ppo.minibatches import evaluate


@pytest.mark.parametrize("options", [{"critic": "local"}, {"normalize_value": False, "advantage": "vtrace"}], ids=str)
def test_the_algorithm_keeps_its_contract(options):
    """For roles with privileged leaves and a global critic, and for roles without."""
    check_algorithm(lambda context: make_mappo(MAPPOConfig(**options), context=context))


def test_a_global_critic_needs_something_to_read(make_mappo_of):
    """The message names the option to change."""
    with pytest.raises(ContractError, match=r"'mouse' has no privileged leaves .* set critic = \"local\""):
        make_mappo_of(privileged=False)
    make_mappo_of(privileged=False, critic="local")


def values(mappo, batch, *, observation=0.0, privileged=0.0):
    """Return the values of entry 0 with something added to what the critic may read."""
    policy = mappo.make_policy()
    policy.load(mappo.make_trainer(seed=1).weights())
    return policy.evaluate(
        PolicyInput(
            {"obs": batch.observation["obs"][0] + np.float32(observation)},
            privileged={"all": batch.privileged["all"][0] + np.float32(privileged)},
        )
    )


@pytest.mark.parametrize("critic", ["global", "local"])
def test_what_the_critic_reads(make_mappo_of, make_batch, critic):
    """The observation, and privileged leaves if it is global."""
    mappo = make_mappo_of(critic=critic)
    batch = make_batch(mappo)
    before = values(mappo, batch)
    assert (values(mappo, batch, observation=0.5) != before).all()
    assert (values(mappo, batch, privileged=0.5) != before).all() == (critic == "global")


def test_values_are_normalized_unless_switched_off(make_mappo_of):
    """The only default that differs from PPO."""
    assert "value_scale" in make_mappo_of().make_trainer(seed=1).weights()
    assert "value_scale" not in make_mappo_of(normalize_value=False).make_trainer(seed=1).weights()


def test_policy_and_critic_share_nothing(make_mappo_of, make_batch):
    """The value loss has no gradient for the policy, and the policy loss none for the critic."""
    mappo = make_mappo_of()
    batch = make_batch(mappo)
    model = mappo.make_trainer(seed=1)._model
    leaves = [{name: torch.from_numpy(leaf[0])} for name, leaf in (batch.observation | batch.privileged).items()]
    logits, found = model(*leaves)
    parts = {"policy": model.network.policy, "critic": model.network.critic}
    for own, output in (("policy", logits), ("critic", found["value"])):
        model.zero_grad()
        output.square().sum().backward()
        for name, part in parts.items():
            assert all((parameter.grad is not None) == (name == own) for parameter in part.parameters()), (own, name)


@pytest.mark.parametrize("weighting", ["seats", "decisions"])
@pytest.mark.parametrize("ended", [False, True])
def test_the_loss_is_the_mean_over_seats(make_mappo_of, make_batch, weighting, ended):
    """L_p = Σ_k L_p^k / n, each seat's loss written down by itself with torch.distributions.

    Seats 1 and 2 may end after one and three of six decisions; by decisions they have the weights 1/6 and 1/2 then.
    """
    mappo = make_mappo_of(
        num_minibatches=1,
        vf_coef=0.0,
        ent_coef=0.0,
        learning_rate=1e-2,
        normalize_value=False,
        seat_weighting=weighting,
    )
    batch = make_batch(mappo)
    decided = [6, 1, 3] if ended else [6, 6, 6]
    batch.length[:] = np.tile(decided, 4)
    batch.extras["log_prob"] += (
        np.random.default_rng(1).normal(0, 0.3, batch.extras["log_prob"].shape).astype(np.float32)
    )
    trainer, plain = mappo.make_trainer(seed=1), mappo.make_trainer(seed=1)
    metrics = trainer.update(batch, progress=0.0).metrics
    value, advantage = batch.extras["value"], np.zeros_like(batch.reward)
    for t in reversed(range(6)):
        delta = batch.reward[t] + 0.99 * value[t + 1] - value[t]
        advantage[t] = np.where(t < batch.length, delta + 0.99 * 0.95 * advantage[t + 1], 0)
    learned = batch.trainable()
    advantage = torch.from_numpy((advantage - advantage[learned].mean()) / advantage[learned].std())
    losses = []
    for seat, steps in enumerate(decided):
        mine = slice(seat, None, 3)
        logits, _ = plain._model({"obs": torch.from_numpy(batch.observation["obs"][:steps, mine].reshape(-1, 3))}, {})
        action = torch.from_numpy(batch.action[:steps, mine].ravel())
        new = torch.distributions.Categorical(logits=logits).log_prob(action)
        ratio = (new - torch.from_numpy(batch.extras["log_prob"][:steps, mine].ravel())).exp()
        gain = advantage[:steps, mine].reshape(-1)
        clipped = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        losses.append(-torch.where(gain < 0, torch.maximum(clipped, 3 * gain), clipped).mean())
    weights = [1 / 3] * 3 if weighting == "seats" else [steps / sum(decided) for steps in decided]
    loss = sum(weight * one for weight, one in zip(weights, losses, strict=True))
    assert metrics["policy_loss"] == pytest.approx(loss.item(), rel=1e-4)
    parameters = list(plain._model.network.policy.parameters())
    optimizer = torch.optim.Adam(parameters, lr=1e-2, eps=1e-5)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 0.5)
    optimizer.step()
    weights = trainer.weights()
    for name, tensor in plain._model.network.policy.state_dict().items():
        np.testing.assert_allclose(weights[f"network.policy.{name}"], tensor, rtol=1e-3, atol=1e-5, err_msg=name)


def test_seat_weights():
    """Seats with 4, 2 and 0 decisions: N / (n N_k) = 6 / (2 · 4) and 6 / (2 · 2); 0 where nothing is learned."""
    seat = np.array([[0, 1, 2], [0, 1, 2], [0, 0, 2]])
    trainable = np.array([[True, True, False], [True, True, False], [True, True, False]])
    weights = seat_weights(seat, trainable, num_seats=3, group=Alone())
    assert weights.tolist() == [[0.75, 1.5, 0], [0.75, 1.5, 0], [0.75, 0.75, 0]]
    assert weights[trainable].mean() == 1


def test_seats_are_recorded_where_they_have_equal_weight(make_mappo_of):
    """By the sampler."""
    assert [field.source for field in make_mappo_of().fields if field.name == "seat"] == ["seat"]
    assert "seat" not in [field.name for field in make_mappo_of(seat_weighting="decisions").fields]


@pytest.mark.parametrize("core", ["gru", "lstm"])
@pytest.mark.parametrize(("before", "ends"), [(0, False), (3, False), (0, True), (3, True)])
def test_what_was_played_is_what_is_unrolled(make_mappo_of, make_batch, core, before, ends):
    """Both states start from the recorded one, and from the initial one where a match starts."""

    def build(request):
        return make_modular(ModularConfig(torso=(8,), core=core, core_size=4), request=request)

    mappo = make_mappo_of(build_network=build, normalize_value=False)
    trainer, batch = mappo.make_trainer(seed=1), make_batch(mappo, before=before, ends=ends)
    targets = trainer._estimate_targets(batch, batch.trainable())
    rows = trainer._make_source(batch, batch.trainable(), targets.columns()).take(np.arange(batch.num_segments))
    with torch.no_grad():
        parameters, values = evaluate(trainer._model, rows)
    chosen = batch.trainable()
    log_prob = parameters.log_softmax(dim=1).gather(1, rows.action)
    np.testing.assert_allclose(values["value"], batch.extras["value"][chosen], atol=1e-6)
    np.testing.assert_allclose(log_prob, batch.extras["log_prob"][chosen], atol=1e-6)


def test_recurrent_networks_are_trained(make_mappo_of, make_batch):
    """The weights of both recurrent cores change."""

    def build(request):
        return make_modular(ModularConfig(torso=(8,), core="gru", core_size=4), request=request)

    mappo = make_mappo_of(build_network=build)
    trainer, batch = mappo.make_trainer(seed=1), make_batch(mappo, before=3, ends=True)
    before = trainer.weights()
    trainer.update(batch, progress=0.0)
    moved = {name for name, array in trainer.weights().items() if not np.array_equal(array, before[name])}
    assert {f"network.{part}.trunk.core.weight_hh" for part in ("policy", "critic")} <= moved
