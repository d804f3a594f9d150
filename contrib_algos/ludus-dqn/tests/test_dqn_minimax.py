"""Tests of the Minimax Exploiter: opponents' evaluations in DQN's rewards."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ludus.algorithm import BoundedPolicy, PolicyInput
from ludus.errors import ContractError
from ludus.inference import Span
from ludus.segment import SegmentBatch

OPTIONS = {"minimax_alpha": 0.5, "minimax_gamma": 0.5, "minimax_shift": "none", "gamma": 0.5, "updates_per_batch": 1}


def make_segment(values, *, lowest=np.nan, rewards=None, terminated=()):
    """Return a batch of one full segment with the given opponents' evaluations, and the lowest ones of these."""
    entries = len(values)
    return SegmentBatch(
        observation={"obs": np.zeros((entries, 1, 3), np.float32)},
        action=np.zeros((entries, 1, 1), np.int64),
        action_mask=np.ones((entries, 1, 4), bool),
        reward=np.array(rewards or [0.0] * entries, np.float32)[:, None],
        terminated=np.isin(np.arange(entries), terminated)[:, None],
        truncated=np.zeros((entries, 1), bool),
        decided=np.ones((entries, 1), bool),
        elapsed_ticks=np.ones((entries, 1), np.int32),
        extras={
            "opponent_value": np.array(values, np.float32)[:, None],
            "opponent_lowest": np.full((entries, 1), lowest, np.float32),
        },
        length=np.array([entries - 1], np.int32),
        version=np.zeros(1, np.int64),
    )


def train_and_list_rewards(make_dqn, *batches, **options):
    """Return the trained rewards of all stored transitions, oldest first, after updates."""
    trainer = make_dqn(**{**OPTIONS, "learning_starts": 1, **options}).make_trainer(seed=0)
    for batch in batches:
        trainer.update(batch, progress=0.0)
    sample = trainer._replay.sample(500, np.random.default_rng(0))
    index, first = np.unique(sample.index, return_index=True)
    assert index.size == len(trainer._replay)
    term = trainer._minimax_reward(sample.map(torch.from_numpy)).numpy()
    return (sample.reward + term)[first].tolist()


def test_equation_3(make_dqn):
    """1 - 0.5 · 0.5 · 2 = 0.5, 1 - 0.25 · -4 = 2, and no term without an evaluation."""
    batch = make_segment([2, -4, np.nan, 9], rewards=[1, 1, 1, 9])
    assert train_and_list_rewards(make_dqn, batch) == [0.5, 2, 1]


def test_lost_match_has_a_term_and_won_match_has_none(make_dqn):
    """The opponent evaluated the position and won by its reply: -1 - 0.25 · 1.

    The decision that ends a match gets no evaluation.
    """
    batch = make_segment([1, np.nan, 0], rewards=[-1, 1, 0], terminated=[0, 1])
    assert train_and_list_rewards(make_dqn, batch) == [-1.25, 1]


def test_equation_4_with_a_fixed_minimum(make_dqn):
    """-0.25 · (V + |R_min|) for V = 1, 0, -1 in a game of ±1."""
    batch = make_segment([1, 0, -1, np.nan])
    assert train_and_list_rewards(make_dqn, batch, minimax_shift="fixed", minimax_r_min=-1.0) == [-0.5, -0.25, 0]


def test_equation_4_with_the_lowest_evaluation_of_the_opponent(make_dqn):
    """-0.25 · (V + |R_min|): two opponents, whose lowest evaluations were -1 and -2; 0 where it is unknown."""
    first, second = make_segment([1, 0, np.nan], lowest=-1.0), make_segment([-2, 2, np.nan], lowest=-2.0)
    assert train_and_list_rewards(make_dqn, first, second, minimax_shift="tracked") == [-0.5, -0.25, 0, -1]
    assert train_and_list_rewards(make_dqn, make_segment([1, -2, 0]), minimax_shift="tracked") == [-0.25, 0.5]


def test_the_lowest_own_value_is_kept_with_the_weights(make_dqn):
    """min_s max_a Q(s, a) over the legal action of all gradient steps: what exploiters of this player shift by."""
    batch = make_segment([0, 0, 0, 0, 0], rewards=[-1.0] * 5)
    batch.action_mask[:, :, 1:] = False
    trainer = make_dqn(learning_starts=1, updates_per_batch=1, learning_rate=0.05).make_trainer(seed=0)
    expected, states = [0.0], {"obs": torch.zeros(1, 3)}
    for _ in range(30):
        with torch.no_grad():
            q = trainer._model(states)[0]
        expected.append(min(expected[-1], float(q[0])))
        trainer.update(batch, progress=0.0)
        assert trainer.weights()["value_min"] == pytest.approx(expected[-1], abs=1e-6)
    assert expected[-1] < -0.5
    policy, inputs = make_dqn().make_policy(), [Span(0, 0, 1), Span(3, 1, 3)]
    for slot in (0, 3):
        policy.load(trainer.weights() | {"value_min": np.float32(-slot)}, slot=slot)
    assert policy.lowest_values(3, inputs).tolist() == [0, -3, -3]
    assert policy.lowest_values(2, ()).tolist() == [0, 0]
    assert isinstance(policy, BoundedPolicy)


def test_terms_are_discounted_over_n_steps(make_dqn):
    """Two of them: -(2 + 0.5 · -4) / 4 = 0, then -(-4 + 0.5 · 1) / 4, then -1/4 alone."""
    batch = make_segment([2, -4, 1, 9])
    assert train_and_list_rewards(make_dqn, batch, n_step=2) == [0, 0.875, -0.25]


def test_gamma_0_agent_learns_the_negative_evaluation(make_dqn):
    """Learner gamma 0 and alpha 1: Q(s, a) = R - 0.995 (V_opp + 1), without bootstrapping."""
    options = {"gamma": 0.0, "minimax_alpha": 1.0, "minimax_gamma": 0.995, "minimax_shift": "fixed"}
    batch = make_segment([0.5] * 8 + [np.nan])
    dqn = make_dqn(**{**OPTIONS, **options, "learning_rate": 0.02, "learning_starts": 1, "updates_per_batch": 200})
    trainer, policy = dqn.make_trainer(seed=0), dqn.make_policy()
    trainer.update(batch, progress=0.0)
    policy.load(trainer.weights())
    mask = np.array([[True, False, False, False]])
    q = policy.evaluate(PolicyInput({"obs": np.zeros((1, 3), np.float32)}, action_mask=mask))
    assert q[0] == pytest.approx(-0.995 * 1.5, abs=0.02)


def test_mean_term_is_a_metric(make_dqn):
    """With minimax_alpha > 0."""
    trainer = make_dqn(**OPTIONS, learning_starts=1).make_trainer(seed=0)
    result = trainer.update(make_segment([2, 2, 2, np.nan]), progress=0.0)
    assert result.metrics["minimax_reward"] == pytest.approx(-0.5)


def test_missing_evaluations_raise(make_dqn, make_batch):
    """The message names the option."""
    with pytest.raises(ContractError, match="carry no opponent_value, which minimax_alpha > 0 needs"):
        make_dqn(**OPTIONS).make_trainer(seed=0).update(make_batch(), progress=0.0)


def test_infinite_evaluation_raises(make_dqn):
    """Before it reaches the network."""
    with pytest.raises(ContractError, match="opponent_value is infinite"):
        make_dqn(**OPTIONS).make_trainer(seed=0).update(make_segment([-np.inf, 0, 0]), progress=0.0)
