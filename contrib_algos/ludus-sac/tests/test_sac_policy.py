"""Tests of the SAC policy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus.algorithm import PolicyInput
from ludus.errors import ContractError, ModelError
from ludus.inference import Span


def make_observation(count=50, seed=0, leaf="obs"):
    """Return random observations."""
    return {leaf: np.random.default_rng(seed).uniform(-1, 1, (count, 3)).astype(np.float32)}


def make_trainer_and_policy(sac, seed=0):
    """Return a trainer whose actor is not nearly uniform, and a policy with its weights."""
    trainer, policy = sac.make_trainer(seed=seed), sac.make_policy()
    with torch.no_grad():
        for tensor in trainer._model.actor.parameters():
            tensor.add_(torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed)))
    policy.load(trainer.weights())
    return trainer, policy


def act(policy, observation, *, mask=None, privileged=None, spans=(), seed=0, **options):
    """Return a decision."""
    inputs = PolicyInput(observation, action_mask=mask, privileged=privileged or {}, spans=spans)
    return policy.act(inputs, rng=np.random.default_rng(seed), **options)


def evaluate(policy, observation, *, mask=None, privileged=None):
    """Return values."""
    return policy.evaluate(PolicyInput(observation, action_mask=mask, privileged=privileged or {}))


def test_discrete_value_is_the_expectation_over_legal_actions(make_sac):
    """Row by row, of the smaller of both critics' values."""
    trainer, policy = make_trainer_and_policy(make_sac())
    observation = make_observation()
    mask = np.random.default_rng(1).random((50, 4)) < 0.5
    mask[:, 1] = True
    with torch.no_grad():
        leaves = {"obs": torch.from_numpy(observation["obs"])}
        logits = trainer._model.policy(leaves).masked_fill(~torch.from_numpy(mask), -torch.inf)
        q = trainer._model.critics(leaves, {}, None).amin(dim=0)
        expected = (torch.softmax(logits, dim=1) * q).sum(dim=1).numpy()
    found = evaluate(policy, observation, mask=mask)
    assert found.dtype == np.float32
    assert found == pytest.approx(expected, abs=1e-5)


def test_continuous_value_is_that_of_the_mean_action(make_sac):
    """The smaller of both critics' values of the squashed mean."""
    trainer, policy = make_trainer_and_policy(make_sac(spaces.Box(-3, 5, (2,), np.float32)))
    observation = make_observation()
    with torch.no_grad():
        leaves = {"obs": torch.from_numpy(observation["obs"])}
        action = torch.tanh(trainer._model.policy(leaves)[:, :2])
        expected = trainer._model.critics(leaves, {}, action).amin(dim=0)[:, 0].numpy()
    assert evaluate(policy, observation) == pytest.approx(expected, abs=1e-5)


def test_decisions_carry_values_with_decision_values(make_sac, space):
    """Equal to those of `evaluate`, whether actions are sampled or not; None by default."""
    _, policy = make_trainer_and_policy(make_sac(space, decision_values=True))
    observation = make_observation()
    for deterministic in (False, True):
        value = act(policy, observation, deterministic=deterministic).value
        assert np.array_equal(value, evaluate(policy, observation))
    _, default_policy = make_trainer_and_policy(make_sac(space))
    assert act(default_policy, observation).value is None


def test_observation_may_have_a_leaf_named_action(make_sac):
    """Critics read the action under another name; here the action is the same in all rows."""
    box = spaces.Box(-1, 1, (3,), np.float32)
    sac = make_sac(box, observation=spaces.Dict({"action": box}))
    trainer, policy = make_trainer_and_policy(sac)
    with torch.no_grad():
        trainer._model.actor.heads["policy"].out.weight.zero_()
    policy.load(trainer.weights())
    same, other = make_observation(leaf="action"), make_observation(leaf="action", seed=1)
    assert (act(policy, same, deterministic=True).action == act(policy, other, deterministic=True).action).all()
    assert (evaluate(policy, same) != evaluate(policy, other)).all()


def test_every_span_uses_the_model_of_its_slot(make_sac, space):
    """One call equals two calls."""
    sac = make_sac(space, decision_values=True)
    (first, policy), (second, _) = make_trainer_and_policy(sac, seed=1), make_trainer_and_policy(sac, seed=2)
    policy.load(second.weights(), slot=3)
    observation = make_observation(40)
    joined = act(policy, observation, deterministic=True, spans=[Span(0, 0, 15), Span(3, 15, 40)])
    for trainer, part in ((first, slice(0, 15)), (second, slice(15, 40))):
        alone = sac.make_policy()
        alone.load(trainer.weights())
        expected = act(alone, {"obs": observation["obs"][part]}, deterministic=True)
        assert joined.action[part] == pytest.approx(expected.action, abs=1e-5)
        assert joined.value[part] == pytest.approx(expected.value, abs=1e-5)


def test_drop_removes_a_slot(make_sac):
    """Deciding with the slot raises."""
    trainer, policy = make_trainer_and_policy(make_sac())
    policy.load(trainer.weights(), slot=2)
    policy.drop(2)
    with pytest.raises(KeyError):
        act(policy, make_observation(), spans=[Span(2, 0, 50)])


def test_only_critics_read_privileged_leaves(make_sac, space):
    """Values depend on them, actions do not. Without them decisions have no value, and `evaluate` returns 0."""
    hidden = spaces.Dict({"hidden": spaces.Box(-1, 1, (2,), np.float32)})
    _, policy = make_trainer_and_policy(make_sac(space, privileged=hidden, decision_values=True))
    observation = make_observation()
    one, other = ({"hidden": np.full((50, 2), number, np.float32)} for number in (-1, 1))
    decisions = [act(policy, observation, privileged=leaves) for leaves in (one, other, {})]
    assert all(np.array_equal(decisions[0].action, decision.action) for decision in decisions)
    assert (decisions[0].value != decisions[1].value).all()
    assert decisions[2].value is None
    assert (evaluate(policy, observation) == 0).all()


def test_critic_outputs_that_are_not_finite_raise(make_sac):
    """No value is returned."""
    trainer, policy = make_trainer_and_policy(make_sac())
    weights = trainer.weights()
    weights["critics.networks.1.heads.q.out.bias"][:] = np.nan
    policy.load(weights)
    with pytest.raises(ContractError, match="critics' outputs are not finite"):
        evaluate(policy, make_observation())


@pytest.mark.parametrize("change", ["missing", "unknown", "shape"])
def test_weights_of_another_algorithm_raise(make_sac, change):
    """Names and shapes must fit."""
    sac = make_sac()
    weights, policy = sac.make_trainer(seed=0).weights(), sac.make_policy()
    if change == "missing":
        del weights["log_alpha"]
    elif change == "unknown":
        weights["epsilon"] = np.zeros((), np.float32)
    else:
        weights["critics.networks.0.heads.q.out.bias"] = np.zeros(5, np.float32)
    with pytest.raises(ModelError):
        policy.load(weights)


def test_recurrent_network_raises(make_sac):
    """Recurrent networks need a replay buffer of sequences."""
    from ludus_networks.config import MLPConfig
    from ludus_networks.network import make_mlp

    def recurrent(request):
        module = make_mlp(MLPConfig(hidden=(4,)), request=request)
        module.initial_state = module.unroll = lambda *_: {}
        return module

    with pytest.raises(ContractError, match="does not support recurrent networks"):
        make_sac(build_network=recurrent).make_policy()
