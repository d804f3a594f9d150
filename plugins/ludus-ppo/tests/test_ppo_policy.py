"""The policy: values, privileged leaves, read-only inputs."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus import ContractError
from ludus.testing import check_algorithm
from ludus_ppo.algorithm import PPO
from ludus_ppo.config import PPOConfig

OBSERVATION = {"obs": np.random.default_rng(0).uniform(-1, 1, (5, 3)).astype(np.float32)}
HIDDEN = spaces.Dict({"fog": spaces.Box(-1, 1, (2,), np.float32)})


def act(policy, observation=OBSERVATION, *, privileged=None, seed=0):
    """Decide with a seeded generator."""
    rng = np.random.default_rng(seed)
    return policy.act(observation, action_mask=None, privileged=privileged or {}, state={}, rng=rng)


@pytest.mark.parametrize("label_objective", ["per-label", "joint"])
def test_ppo_keeps_the_algorithm_contract(label_objective):
    """PPO passes the kit's checks with either objective, several passes and schedules."""
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
    """`act` records what `evaluate` answers."""
    policy = make_ppo().make_policy()
    value = policy.evaluate(OBSERVATION, action_mask=None, state={})
    np.testing.assert_array_equal(act(policy).extras["value"], value)
    assert np.abs(value).max() > 0


def test_privileged_leaves_reach_the_value_only(make_ppo):
    """Hidden information changes the value and nothing that the policy does."""
    policy = make_ppo(privileged=HIDDEN).make_policy()
    near, far = (act(policy, privileged={"fog": np.full((5, 2), x, np.float32)}) for x in (0.0, 1.0))
    assert (near.extras["value"] != far.extras["value"]).all()
    np.testing.assert_array_equal(near.extras["log_prob"], far.extras["log_prob"])


def test_without_privileged_leaves_the_value_is_zero(make_ppo):
    """A frozen model plays without what only its critic may read."""
    policy = make_ppo(privileged=HIDDEN).make_policy()
    assert (act(policy).extras["value"] == 0).all()
    assert (policy.evaluate(OBSERVATION, action_mask=None, state={}) == 0).all()


def test_read_only_and_strided_observations_are_fine(make_ppo):
    """Arrays that torch would warn about give the same decisions."""
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


def test_a_recurrent_network_is_refused(make_ppo):
    """PPO says that it needs another network."""

    def build(request):
        import torch

        class Recurrent(torch.nn.Module):
            def forward(self, observation, privileged, state):
                return {"policy": torch.zeros(5, 4), "value": torch.zeros(5, 1)}, {"memory": torch.zeros(5, 1)}

        return Recurrent()

    with pytest.raises(ContractError, match="without recurrent state"):
        act(make_ppo(build_network=build).make_policy())
