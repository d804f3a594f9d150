"""Tests of the DQN policy."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from gymnasium import spaces
from ludus.algorithm import PolicyInput
from ludus.errors import ContractError, ModelError
from ludus.inference import Outputs, Span
from ludus_dqn.policy import DQNPolicy

ROWS = 4000
LOWEST = {"value_min": np.zeros((), np.float32)}


class FixedOutputs:
    """An inference runtime with fixed outputs, scaled by the weight of each slot."""

    def __init__(self, **heads):
        self.heads = heads
        self.slots = {0: 1.0}

    def load(self, weights, *, slot=0):
        self.slots[slot] = float(weights["scale"])

    def drop(self, slot):
        del self.slots[slot]

    def run(self, observation, *, privileged, state, spans=()):
        rows = len(observation["obs"])
        scale = np.empty((rows, 1), np.float32)
        for span in spans or [Span(0, 0, rows)]:
            scale[span.start : span.stop] = self.slots[span.slot]
        heads = {name: np.repeat(np.array([head], np.float32), rows, axis=0) for name, head in self.heads.items()}
        return Outputs({name: head * scale for name, head in heads.items()}, {})


def make_policy(epsilon=0.0, q=(1.0, 3.0, 2.0), **heads):
    """Return a policy with the same Q-values for every observation."""
    policy = DQNPolicy(FixedOutputs(q=q, **heads), role="cat")
    policy.load({"network.scale": np.array(1.0), "epsilon": np.array(epsilon, np.float32), **LOWEST})
    return policy


def act(policy, mask=None, *, rows=ROWS, spans=(), seed=0, **options):
    """Return the decision for many equal rows."""
    inputs = PolicyInput(
        {"obs": np.zeros((rows, 1), np.float32)},
        action_mask=None if mask is None else np.repeat([mask], rows, axis=0),
        spans=spans,
    )
    return policy.act(inputs, rng=np.random.default_rng(seed), **options)


def action_shares(decision):
    """Return the share of each of three actions."""
    return np.bincount(decision.action[:, 0], minlength=3) / len(decision.action)


def test_policy_is_greedy_without_exploration():
    """In every row."""
    assert action_shares(act(make_policy())).tolist() == [0, 1, 0]


def test_epsilon_is_the_share_of_uniform_actions():
    """With epsilon 0.3, a third of the random actions is the best action."""
    assert action_shares(act(make_policy(0.3))) == pytest.approx([0.1, 0.8, 0.1], abs=0.02)


def test_deterministic_play_does_not_explore():
    """Even with epsilon 1."""
    assert action_shares(act(make_policy(1.0), deterministic=True)).tolist() == [0, 1, 0]


def test_illegal_actions_are_never_taken():
    """Neither greedily nor at random."""
    assert action_shares(act(make_policy(), [True, False, True])).tolist() == [0, 0, 1]
    assert action_shares(act(make_policy(1.0), [True, False, True])) == pytest.approx([0.5, 0, 0.5], abs=0.03)


def test_value_is_the_largest_legal_q_value():
    """Of decisions and of evaluations, whatever action was taken."""
    policy = make_policy(1.0)
    assert (act(policy).value == 3).all()
    assert (act(policy, [True, False, True]).value == 2).all()
    obs = {"obs": np.zeros((2, 1), np.float32)}
    values = policy.evaluate(PolicyInput(obs, action_mask=np.array([[True, False, True]] * 2)))
    assert values.tolist() == [2, 2]
    assert values.dtype == act(policy).value.dtype == np.float32


def test_dueling_heads_are_added():
    """10 + (1, 3, 2) - 2."""
    assert act(make_policy(value=(10.0,))).value[0] == 11


def test_every_span_uses_the_epsilon_of_its_slot():
    """And the weights of its slot."""
    policy = make_policy(0.0)
    policy.load({"network.scale": np.array(-1.0), "epsilon": np.array(1.0, np.float32), **LOWEST}, slot=3)
    decision = act(policy, rows=2000, spans=[Span(0, 0, 1000), Span(3, 1000, 2000)])
    assert (decision.action[:1000] == 1).all()
    assert np.unique(decision.action[1000:]).tolist() == [0, 1, 2]
    assert decision.value[[0, 1999]].tolist() == [3, -1]


def test_drop_removes_the_epsilon_of_a_slot():
    """Only slot 0 remains."""
    policy = make_policy()
    policy.load({"network.scale": np.array(-1.0), "epsilon": np.array(1.0, np.float32), **LOWEST}, slot=3)
    policy.drop(3)
    assert policy._epsilon.keys() == {0}


def test_mask_without_a_legal_action_raises():
    """The message names the role and the label."""
    with pytest.raises(ContractError, match=r"role cat, label 0: the action mask forbids every choice"):
        act(make_policy(), [False, False, False])


def test_q_values_that_are_not_finite_raise():
    """No action is returned."""
    with pytest.raises(ContractError, match="not finite"):
        act(make_policy(q=(1.0, np.nan, 0.0)))


@pytest.mark.parametrize(
    "weights",
    [
        {"network.scale": np.array(1.0)},
        {"network.scale": np.array(1.0), "epsilon": np.zeros(2, np.float32), **LOWEST},
        {"network.scale": np.array(1.0), "epsilon": np.zeros((), np.float32), **LOWEST, "log_std": np.zeros(1)},
    ],
    ids=["none", "shape", "more"],
)
def test_weights_of_another_algorithm_raise(weights):
    """Epsilon must be the only array besides the network."""
    with pytest.raises(ModelError, match="expected epsilon"):
        make_policy().load(weights)


def test_policy_and_trainer_compute_equal_values(make_dqn, make_batch):
    """NumPy and torch agree, with dueling heads."""
    import torch

    dqn = make_dqn(dueling=True)
    trainer, policy = dqn.make_trainer(seed=3), dqn.make_policy()
    policy.load(trainer.weights())
    obs = make_batch().observation["obs"].reshape(-1, 3)
    with torch.no_grad():
        expected = trainer._model({"obs": torch.from_numpy(obs)}).max(dim=1).values.numpy()
    found = policy.evaluate(PolicyInput({"obs": obs}))
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([3, 2]), spaces.Box(-1, 1, (2,), np.float32)], ids=str)
def test_unsupported_action_space_raises(make_dqn, space):
    """The message names the role and the space."""
    with pytest.raises(ContractError, match="dqn: expected a Discrete action space, but role cat has"):
        make_dqn(space)


def test_recurrent_network_raises(make_dqn):
    """Recurrent networks need a replay buffer of sequences."""
    from ludus_networks.config import MLPConfig
    from ludus_networks.network import make_mlp

    def recurrent(request):
        module = make_mlp(MLPConfig(hidden=(4,)), request=request)
        module.initial_state = module.unroll = lambda *_: {}
        return module

    with pytest.raises(ContractError, match="does not support recurrent networks"):
        make_dqn(build_network=recurrent).make_policy()


def test_opponent_value_is_a_field_with_minimax_alpha(make_dqn):
    """With the lowest ones; without minimax_alpha there are no fields."""
    assert make_dqn().fields == ()
    assert [attrs.astuple(field) for field in make_dqn(minimax_alpha=0.1).fields] == [
        ("opponent_value", (), "float32", "opponents"),
        ("opponent_lowest", (), "float32", "opponent-minima"),
    ]
