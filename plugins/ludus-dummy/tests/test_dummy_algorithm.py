"""The dummy algorithm: formulas against numbers computed by hand, and learning."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus import ContractError, Role
from ludus.algorithm import AlgorithmContext, PolicyInput
from ludus.segment import SegmentBatch
from ludus.testing import check_algorithm
from ludus_dummy.agents import Perfect
from ludus_dummy.algorithm import Gradient, LinearPolicy, features, returns
from ludus_dummy.config import CountConfig, GradientConfig, PerfectConfig
from ludus_dummy.count import Count


def make(context):
    """Make the algorithm with default options."""
    return Gradient(GradientConfig(), context=context)


def test_keeps_the_contract():
    """The checker finds no problem for any role with discrete actions, including several labels and masks."""
    check_algorithm(make)


def test_rejects_real_valued_actions():
    """The error for a Box action space names it."""
    box = spaces.Box(0, 1, (1,))
    role = Role(name="player", observation_space=box, action_space=box, teams=(0,))
    with pytest.raises(ContractError, match="Box action space"):
        make(AlgorithmContext(role=role, build_network=None))


def batch(rewards, *, terminated, length, decided=None):
    """Return one segment of len(rewards) - 1 decisions with two features."""
    shape = (len(rewards), 1)
    no = np.zeros(shape, bool)
    return SegmentBatch(
        observation={"obs": np.ones((*shape, 2), np.float32)},
        action=np.zeros((*shape, 1), np.int64),
        reward=np.array(rewards, np.float32)[:, None],
        terminated=np.array(terminated, bool)[:, None],
        truncated=no,
        decided=np.ones(shape, bool) if decided is None else np.array(decided)[:, None],
        elapsed_ticks=np.ones(shape, np.int32),
        length=np.array([length], np.int32),
        version=np.zeros(1, np.int64),
    )


def test_returns_stop_where_a_match_terminates():
    """Rewards of the next match do not flow back: 1 + ½·2 = 2, then 3 + ½·(value 8) = 7."""
    values = np.full((4, 1), 8.0)
    got = returns(batch([1, 2, 3, 9], terminated=[0, 1, 0, 0], length=3), values, gamma=0.5)
    assert got[:, 0].tolist() == [2, 2, 7, 8]


def test_returns_bootstrap_from_a_final_observation():
    """After the last reward of a truncated match, the value of the final observation is added."""
    values = np.array([[0.0], [10.0], [0.0], [4.0]])
    cut = batch([1, 0, 3, 0], terminated=[0, 0, 0, 0], length=3, decided=[True, False, True, True])
    assert returns(cut, values, gamma=0.5)[:, 0].tolist() == [6, 10, 5, 4]


def test_masked_actions_are_never_taken():
    """A masked choice has probability 0 for any weights."""
    policy = LinearPolicy(2, (3,), np.array([[0, 0, 50], [0, 0, 0]], np.float32))
    decision = policy.act(
        PolicyInput({"obs": np.ones((200, 1), np.float32)}, action_mask=np.tile([True, True, False], (200, 1))),
        rng=np.random.default_rng(0),
    )
    assert set(decision.action[:, 0].tolist()) == {0, 1}
    assert decision.extras["log_prob"] == pytest.approx(np.full(200, np.log(0.5)))


def test_labels_are_chosen_independently():
    """The log-probability of several labels is the sum over them: ½ · ⅓."""
    policy = LinearPolicy(1, (2, 3))
    x = np.ones((1, 1), np.float32)
    taken = policy.one_hot(np.array([[1, 2]]))
    assert taken.tolist() == [[False, True, False, False, True]]
    assert policy.log_probs(x, None)[taken].sum() == pytest.approx(np.log(1 / 6))


def test_one_step_follows_the_gradient():
    """From uniform over two, reward 1 for action 0, features (1, 1, 1): every weight moves by ±2·½."""
    role = Role(name="player", observation_space=spaces.Box(0, 1, (2,)), action_space=spaces.Discrete(2), teams=(0,))
    algorithm = Gradient(GradientConfig(ent_coef=0.0), context=AlgorithmContext(role=role, build_network=None))
    trainer = algorithm.make_trainer(seed=0)
    trainer.load_weights({"policy": np.zeros((3, 2), np.float32), "value": np.zeros(3, np.float32)})
    result = trainer.update(batch([1, 0], terminated=[1, 0], length=1), progress=0.0)
    assert trainer.weights()["policy"].tolist() == [[1, -1]] * 3
    assert trainer.weights()["value"].sum() == pytest.approx(1.0)  # the baseline of these features is now 1
    assert result.metrics == pytest.approx({"policy_loss": np.log(2), "value_loss": 0.5, "entropy": np.log(2)})


def test_features_follow_the_names():
    """A constant first, then the leaves in the order of their names, flattened."""
    got = features({"b": np.array([[3]], np.int8), "a": np.array([[[1.0], [2.0]]])})
    assert got.tolist() == [[1, 1, 2, 3]]
    assert got.dtype == np.float32


def test_learns_to_count():
    """After 150 updates the score against perfect play is over 65 %; 75 % is the maximum, 20 % is untrained."""
    game = Count(CountConfig(), num_matches=256)
    algorithm = make(AlgorithmContext(role=game.spec.roles[0], build_network=None))
    trainer, policy = algorithm.make_trainer(seed=1), algorithm.make_policy()
    rng = np.random.default_rng(1)
    for update in range(150):
        policy.load(trainer.weights())
        trainer.update(self_play(game, policy, rng, wave=update), progress=0.0)
    policy.load(trainer.weights())
    perfect = Perfect(PerfectConfig(), spec=game.spec, role="player")
    assert points_against(game, policy, perfect, rng) > 0.65


def self_play(game, policy, rng, *, wave):
    """Play one match per row against itself and return one segment per seat."""
    seats = 2 * game.num_matches
    entries = {
        "obs": np.zeros((11, seats, 11), np.float32),
        "mask": np.ones((11, seats, 3), bool),
        "action": np.zeros((11, seats, 1), np.int64),
    }
    reward, terminated = np.zeros((11, seats), np.float32), np.zeros((11, seats), bool)
    length = np.zeros(seats, np.int32)
    tick = game.reset(np.arange(game.num_matches, dtype=np.uint64) + np.uint64(1000 * wave))
    while (player := tick.roles["player"]).acting.any():
        who = np.flatnonzero(player.acting.ravel())
        observed = {"obs": player.observation["obs"].reshape(seats, -1)[who]}
        mask = player.action_mask.reshape(seats, -1)[who]
        decision = policy.act(PolicyInput(observed, action_mask=mask), rng=rng)
        for name, rows in {"obs": observed["obs"], "mask": mask, "action": decision.action}.items():
            entries[name][length[who], who] = rows
        length[who] += 1
        actions = np.zeros((seats, 1), np.int64)
        actions[who] = decision.action
        tick = game.step({"player": actions.reshape(-1, 2, 1)})
        played = np.flatnonzero(length)
        reward[length[played] - 1, played] += tick.roles["player"].reward.ravel()[played]
    terminated[length - 1, np.arange(seats)] = length > 0
    return SegmentBatch(
        observation={"obs": entries["obs"]},
        action=entries["action"],
        action_mask=entries["mask"],
        reward=reward,
        terminated=terminated,
        truncated=np.zeros_like(terminated),
        decided=np.arange(11)[:, None] < length,
        elapsed_ticks=np.full(reward.shape, 2, np.int32),
        length=length,
        version=np.zeros(seats, np.int64),
    )


def points_against(game, policy, agent, rng):
    """Return the mean outcome of `policy` in seat 0 against `agent` in seat 1."""
    tick = game.reset(np.arange(game.num_matches, dtype=np.uint64))
    points = np.zeros(game.num_matches)
    seat_ids = np.arange(game.num_matches)
    while (player := tick.roles["player"]).acting.any():
        actions = np.zeros((game.num_matches, 2, 1), np.int64)
        mine, theirs = (np.flatnonzero(player.acting[:, seat]) for seat in (0, 1))
        obs, mask = player.observation["obs"], player.action_mask
        chosen = policy.act(PolicyInput({"obs": obs[mine, 0]}, action_mask=mask[mine, 0]), rng=rng)
        actions[mine, 0] = chosen.action
        answer = agent.act({"obs": obs[theirs, 1]}, action_mask=mask[theirs, 1], seat_ids=seat_ids[theirs], rng=rng)
        actions[theirs, 1] = answer
        tick = game.step({"player": actions})
        points[tick.terminated] = tick.outcome[tick.terminated, 0]
    return points.mean()
