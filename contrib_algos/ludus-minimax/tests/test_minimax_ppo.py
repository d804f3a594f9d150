"""The trainer: its contract, rewards and state."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
import torch
from ludus.errors import ContractError
from ludus.group import Alone
from ludus.testing import check_algorithm, update_together
from ludus_minimax.algorithm import MinimaxPPO
from ludus_minimax.config import MinimaxPPOConfig

OPTIONS = {"minimax_alpha": 0.5, "minimax_gamma": 0.5, "minimax_shift": "none", "num_minibatches": 2}


@pytest.mark.parametrize(
    "options",
    [{"minimax_alpha": 0.0}, {"minimax_shift": "fixed", "advantage": "vtrace"}, {"normalize_value": True}],
    ids=str,
)
def test_the_algorithm_keeps_its_contract(options):
    """All kinds of segments, bit-exact resuming, NaN refused."""
    check_algorithm(lambda context: MinimaxPPO(MinimaxPPOConfig(**options), context=context))


def same(one, other) -> bool:
    """Return whether two sets of arrays are equal to the bit."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def updated(algorithm, *batches):
    """Return a trainer after updates with batches."""
    trainer = algorithm.make_trainer(seed=1)
    for batch in batches:
        trainer.update(batch, progress=0.0)
    return trainer


def test_samplers_record_evaluations(make_minimax):
    """Unless their weight is 0."""
    assert [field.source for field in make_minimax().fields if field.name == "opponent_value"] == ["opponents"]
    assert "opponent_value" not in [field.name for field in make_minimax(minimax_alpha=0.0).fields]


def test_the_update_is_that_of_ppo_with_the_minimax_reward(make_minimax, make_ppo, make_batch):
    """R - 0.25 V_opp where there is an evaluation; equal to the bit."""
    minimax, value = make_minimax(**OPTIONS), np.random.default_rng(0).normal(size=(9, 6))
    value[2:4] = np.nan
    batch = make_batch(minimax, opponent_value=value)
    shaped = np.where(np.isnan(value), batch.reward, batch.reward - 0.25 * value.astype(np.float32))
    plain = updated(make_ppo(num_minibatches=2), attrs.evolve(batch, reward=shaped.astype(np.float32)))
    assert same(updated(minimax, batch).weights(), plain.weights())
    assert not same(plain.weights(), updated(make_ppo(num_minibatches=2), batch).weights())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [-0.25, 0.5, 0]),
        ({"minimax_shift": "fixed", "minimax_r_min": -1.0}, [-0.5, 0.25, 0]),
        ({"minimax_shift": "tracked"}, [-1, -0.25, 0]),
    ],
    ids=["equation 3", "equation 4, known", "equation 4, tracked"],
)
def test_the_reward_by_hand(make_minimax, make_batch, options, expected):
    """Evaluations 1, -2 and none: times -0.25, with R_min 0, -1, or -3, the lowest evaluation of that opponent."""
    minimax = make_minimax(**{**OPTIONS, **options})
    value = np.array([1, -2, np.nan, 9], np.float32)[:, None]
    batch = make_batch(minimax, opponent_value=value, lowest=-3.0, steps=3, segments=1)
    batch.reward[:] = 0
    assert minimax.make_trainer(seed=0)._reward(batch, Alone())[:3, 0].tolist() == expected


@pytest.mark.parametrize("options", [{"minimax_shift": "none"}, {"minimax_shift": "fixed"}, {}], ids=str)
def test_it_is_the_reward_of_the_dqn_exploiter(make_minimax, make_batch, options):
    """Both learn from the same reward, for every kind of R_min."""
    dqn = pytest.importorskip("ludus_dqn.algorithm")
    from ludus_dqn.config import DQNConfig

    options = {"minimax_alpha": 0.3, "minimax_gamma": 0.9, "minimax_r_min": -1.5, **options}
    minimax, rng = make_minimax(**options), np.random.default_rng(3)
    value = np.where(rng.random((9, 6)) < 0.2, np.nan, rng.normal(-0.5, 1, (9, 6)))
    batch = make_batch(minimax, opponent_value=value, lowest=-2.5)
    config = DQNConfig(**options, learning_starts=10, minibatch_size=8, replay_capacity=500)
    other = dqn.DQN(config, context=minimax._context).make_trainer(seed=0)
    other.update(batch, progress=0.0)
    sample = other._replay.sample(2000, np.random.default_rng(0))
    added = other._minimax_reward(sample.map(torch.from_numpy)).numpy()
    learned = dict(zip(sample.reward.tolist(), (sample.reward + added).tolist(), strict=True))
    mine = minimax.make_trainer(seed=0)._reward(batch, Alone())
    assert len(learned) == 48
    for reward, shaped in zip(batch.reward[:8].ravel().tolist(), mine[:8].ravel().tolist(), strict=True):
        assert learned[reward] == pytest.approx(shaped, abs=1e-6)


def test_without_weight_it_is_plain_ppo(make_minimax, make_ppo, make_batch):
    """To the bit, without evaluations."""
    options = {"num_minibatches": 2, "epochs": 2, "ent_coef_final": 0.001, "normalize_value": True}
    minimax, plain = make_minimax(minimax_alpha=0.0, **options), make_ppo(**options)
    batches = [make_batch(plain, seed=seed) for seed in range(3)]
    one, other = updated(minimax, *batches), updated(plain, *batches)
    assert same(one.weights(), other.weights())
    assert same(one.state(), other.state())
    assert "minimax_reward" not in one.update(batches[0], progress=0.5).metrics


@pytest.mark.parametrize(("value", "message"), [(None, "carry no opponent_value"), (np.inf, "is infinite")])
def test_evaluations_must_be_there_and_finite(make_minimax, make_batch, value, message):
    """The error names the algorithm."""
    minimax = make_minimax()
    with pytest.raises(ContractError, match=f"minimax-ppo: .*{message}"):
        updated(minimax, make_batch(minimax, opponent_value=value))


def test_the_term_is_never_positive_with_the_lowest_evaluation(make_minimax, make_batch):
    """Equation 4: there is no cycle of positive rewards, whatever the evaluations."""
    minimax = make_minimax(**{**OPTIONS, "minimax_shift": "tracked"})
    trainer, rng = minimax.make_trainer(seed=0), np.random.default_rng(0)
    for seed in range(5):
        value = rng.normal(-1, 3, (9, 6))
        batch = make_batch(minimax, opponent_value=value, lowest=float(value.min()), seed=seed)
        assert (trainer._reward(batch, Alone()) <= batch.reward).all()


def test_a_group_learns_from_the_rewards_of_the_whole_batch(make_minimax, make_batch):
    """In every process."""
    minimax = make_minimax(minimax_alpha=0.5, minimax_shift="tracked", num_minibatches=1, epochs=2, learning_rate=1e-2)
    value = np.random.default_rng(0).normal(size=(9, 6))
    batch = make_batch(minimax, opponent_value=value, lowest=-3.0)
    alone, *group = (minimax.make_trainer(seed=1) for _ in range(3))
    alone.update(batch, progress=0.0)
    update_together(group, [batch.part(0, 2), batch.part(2, 6)])
    for trainer in group:
        for name, array in alone.weights().items():
            np.testing.assert_allclose(trainer.weights()[name], array, atol=2e-4, rtol=1e-3, err_msg=name)
