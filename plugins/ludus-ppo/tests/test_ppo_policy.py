"""The policy: values, privileged leaves, read-only inputs."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus import ContractError, ModelError
from ludus.algorithm import PolicyInput, StackedPolicy
from ludus.inference import Span
from ludus.testing import check_algorithm
from ludus_ppo.algorithm import PPO
from ludus_ppo.config import PPOConfig

OBSERVATION = {"obs": np.random.default_rng(0).uniform(-1, 1, (5, 3)).astype(np.float32)}
HIDDEN = spaces.Dict({"fog": spaces.Box(-1, 1, (2,), np.float32)})


def act(policy, observation=OBSERVATION, *, privileged=None, seed=0):
    """Decide with a seeded generator."""
    rng = np.random.default_rng(seed)
    return policy.act(PolicyInput(observation, privileged=privileged or {}), rng=rng)


@pytest.mark.parametrize("label_objective", ["per-label", "joint"])
def test_ppo_keeps_the_algorithm_contract(label_objective):
    """With either objective, several passes and schedules."""
    config = PPOConfig(
        label_objective=label_objective,
        epochs=2,
        learning_rate_schedule="linear",
        ent_coef_final=0.001,
        discount_per="tick",
        value_clip=0.2,
    )
    check_algorithm(lambda context: PPO(config, context=context))


def test_the_recorded_value_is_the_evaluation(make_ppo):
    """`act` records what `evaluate` returns."""
    policy = make_ppo().make_policy()
    value = policy.evaluate(PolicyInput(OBSERVATION))
    np.testing.assert_array_equal(act(policy).extras["value"], value)
    assert np.abs(value).max() > 0


def test_privileged_leaves_reach_the_value_only(make_ppo):
    """Privileged information changes the value, not the action."""
    policy = make_ppo(privileged=HIDDEN).make_policy()
    near, far = (act(policy, privileged={"fog": np.full((5, 2), x, np.float32)}) for x in (0.0, 1.0))
    assert (near.extras["value"] != far.extras["value"]).all()
    np.testing.assert_array_equal(near.extras["log_prob"], far.extras["log_prob"])


def test_without_privileged_leaves_the_value_is_zero(make_ppo):
    """Frozen models play without privileged leaves."""
    policy = make_ppo(privileged=HIDDEN).make_policy()
    assert (act(policy).extras["value"] == 0).all()
    assert (policy.evaluate(PolicyInput(OBSERVATION)) == 0).all()


def test_read_only_and_strided_observations_are_supported(make_ppo):
    """They give the same decisions."""
    policy = make_ppo().make_policy()
    frozen = OBSERVATION["obs"].copy()
    frozen.flags.writeable = False
    reversed_twice = OBSERVATION["obs"][::-1].copy()[::-1]
    expected = act(policy).action
    for leaf in (frozen, reversed_twice):
        np.testing.assert_array_equal(act(policy, {"obs": leaf}).action, expected)


def test_a_loaded_policy_is_updated_in_place(make_ppo):
    """The second load replaces the first."""
    ppo = make_ppo()
    policy = ppo.make_policy()
    one, two = ppo.make_trainer(seed=1).weights(), ppo.make_trainer(seed=2).weights()
    values = []
    for weights in (one, two, one):
        policy.load(weights)
        values.append(act(policy).extras["value"])
    np.testing.assert_array_equal(values[0], values[2])
    assert (values[0] != values[1]).any()


def test_decisions_start_almost_uniform(make_ppo):
    """The small gain of the policy head makes a fresh policy explore."""
    log_prob = act(make_ppo().make_policy()).extras["log_prob"]
    np.testing.assert_allclose(log_prob, np.log(1 / 4), atol=0.05)


def test_a_network_that_returns_an_undeclared_state_is_refused(make_ppo):
    """PPO needs its initial state and a method to unroll it."""

    def build(request):
        import torch

        class Recurrent(torch.nn.Module):
            def forward(self, observation, privileged, state):
                return {"policy": torch.zeros(5, 4), "value": torch.zeros(5, 1)}, {"memory": torch.zeros(5, 1)}

        return Recurrent()

    with pytest.raises(ContractError, match="RecurrentNetwork"):
        act(make_ppo(build_network=build).make_policy())


# -- several models ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action_space", [None, spaces.Box(-1, 1, (2,), np.float32)])
def test_slots_decide_as_separate_policies(make_ppo, action_space):
    """Each row uses the weights of its span, log standard deviations included."""
    options = {} if action_space is None else {"action_space": action_space}
    ppo = make_ppo(**options)
    weights = [ppo.make_trainer(seed=seed).weights() for seed in range(3)]
    for index, one in enumerate(weights):
        rng = np.random.default_rng(index)
        weights[index] = {
            name: array + rng.normal(0, 0.3, array.shape).astype(np.float32) for name, array in one.items()
        }
    stacked, separate = ppo.make_policy(), ppo.make_policy()
    for slot, one in zip((0, 4, 2), weights, strict=True):
        stacked.load(one, slot=slot)
    spans = [Span(4, 0, 2), Span(0, 2, 3), Span(2, 3, 5)]
    found = stacked.act(PolicyInput(OBSERVATION, spans=spans), rng=None, deterministic=True)
    for one, span in zip((weights[1], weights[0], weights[2]), spans, strict=True):
        separate.load(one)
        part = {"obs": OBSERVATION["obs"][span.start : span.stop]}
        expected = separate.act(PolicyInput(part), rng=None, deterministic=True)
        np.testing.assert_allclose(found.action[span.start : span.stop], expected.action, atol=1e-6)
        for name, array in expected.extras.items():
            np.testing.assert_allclose(found.extras[name][span.start : span.stop], array, atol=1e-6)


def test_ppo_policies_can_be_stacked(make_ppo):
    """As samplers expect."""
    assert isinstance(make_ppo().make_policy(), StackedPolicy)


def test_a_dropped_model_is_gone(make_ppo):
    """Its slot raises an error until a model is loaded."""
    ppo = make_ppo()
    policy, weights = ppo.make_policy(), ppo.make_trainer(seed=1).weights()
    inputs, rng = PolicyInput(OBSERVATION, spans=[Span(1, 0, 5)]), np.random.default_rng(0)
    policy.load(weights, slot=1)
    policy.act(inputs, rng=rng)
    policy.drop(1)
    with pytest.raises(KeyError):
        policy.act(inputs, rng=rng)


def test_weights_of_another_distribution_are_refused(make_ppo):
    """Models for discrete actions have no log standard deviations."""
    policy, weights = make_ppo().make_policy(), make_ppo().make_trainer(seed=1).weights()
    with pytest.raises(ModelError, match="log_std is unknown"):
        policy.load(weights | {"log_std": np.zeros(2, np.float32)})


def test_probabilities_are_those_of_sampled_actions(make_ppo):
    """Masked choices have probability 0, and each label sums to 1."""
    policy = make_ppo(spaces.MultiDiscrete([3, 2])).make_policy()
    mask = np.ones((5, 5), bool)
    mask[:, 1] = False
    found = policy.probabilities(OBSERVATION, action_mask=mask, state={})
    assert (found[:, 1] == 0).all()
    np.testing.assert_allclose(found[:, :3].sum(axis=1), 1, rtol=1e-6)
    decision = policy.act(PolicyInput(OBSERVATION, action_mask=mask), rng=np.random.default_rng(0), deterministic=False)
    rows = np.arange(5)
    chosen = np.stack([found[rows, decision.action[:, 0]], found[rows, 3 + decision.action[:, 1]]], axis=1)
    np.testing.assert_allclose(np.log(chosen), decision.extras["log_prob"], rtol=1e-5, atol=1e-6)


def test_continuous_actions_have_no_probabilities(make_ppo):
    """They have densities."""
    policy = make_ppo(spaces.Box(-1, 1, (2,), np.float32)).make_policy()
    with pytest.raises(ContractError, match="no probabilities"):
        policy.probabilities(OBSERVATION, action_mask=None, state={})


def test_the_decision_has_the_value_of_the_policy(make_ppo):
    """But none if the critic lacks privileged leaves: a recorded 0 is not an evaluation."""
    decision = act(make_ppo().make_policy())
    np.testing.assert_array_equal(decision.value, decision.extras["value"])
    assert act(make_ppo(privileged=HIDDEN).make_policy()).value is None


def test_the_value_may_use_privileged_leaves(make_ppo):
    """`evaluate` returns what `act` records."""
    policy = make_ppo(privileged=HIDDEN).make_policy()
    fog = {"fog": np.full((5, 2), 0.5, np.float32)}
    value = policy.evaluate(PolicyInput(OBSERVATION, privileged=fog))
    np.testing.assert_array_equal(act(policy, privileged=fog).extras["value"], value)
    assert (value != 0).all()


class Overwriting:
    """A runtime that reuses the memory of its outputs, as the contract allows."""

    def __init__(self, inference):
        self.inference, self.heads = inference, {}

    def run(self, observation, **arguments):
        heads, state = self.inference.run(observation, **arguments)
        for name, head in heads.items():
            self.heads.setdefault(name, np.empty_like(head))[:] = head
        return self.heads, state


def test_decisions_outlive_the_next_call(make_ppo):
    """Although the runtime overwrites its outputs."""
    policy = make_ppo().make_policy()
    policy._inference = Overwriting(policy._inference)
    first = act(policy)
    before = {name: array.copy() for name, array in first.extras.items()}
    act(policy, {"obs": OBSERVATION["obs"] + 1})
    for name, array in before.items():
        np.testing.assert_array_equal(first.extras[name], array)
