"""PPO learns small tasks in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus.__main__ import main
from ludus.algorithm import PolicyInput
from ludus.runs import open_run
from ludus.segment import SegmentBatch
from ludus_terminal.evaluate import play_pair

EXAMPLE = Path(__file__).parents[3] / "examples/pendulum_ppo.toml"


def play(policy, rng, *, reward, rows=256):
    """Return one-decision matches of a contextual bandit: `reward` of observation and action."""
    shape = (2, rows)
    observation = rng.uniform(-1, 1, (*shape, 3)).astype(np.float32)
    decision = policy.act(PolicyInput({"obs": observation.reshape(-1, 3)}), rng=rng)
    action = decision.action.reshape(*shape, -1)
    return SegmentBatch(
        observation={"obs": observation},
        action=action,
        reward=reward(observation, action).astype(np.float32),
        terminated=np.ones(shape, bool),
        truncated=np.zeros(shape, bool),
        decided=np.array([[True], [False]]).repeat(rows, axis=1),
        elapsed_ticks=np.ones(shape, np.int32),
        extras={name: array.reshape(*shape, *array.shape[1:]) for name, array in decision.extras.items()},
        length=np.ones(rows, np.int32),
        version=np.zeros(rows, np.int64),
    )


def right_arm(observation, action):
    """Reward the arm that the first number of the observation selects."""
    return (action[..., 0] == (observation[..., 0] > 0)) * 1.0


def both_right(observation, action):
    """Reward each label by its own number of the observation."""
    return ((action == (observation[..., :2] > 0)).sum(-1)) / 2


def near_target(observation, action):
    """Return the negative distance from the first number."""
    return -np.abs(action[..., 0] - observation[..., 0])


def arm_and_target(observation, action):
    """Reward the right arm, and for it the distance from the second number."""
    return right_arm(observation, action) * (1 - np.abs(action[..., 1] - observation[..., 1]))


HYBRID = spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (1,), np.float32)))


@pytest.mark.parametrize(
    ("space", "reward", "options", "enough"),
    [
        (spaces.Discrete(2), right_arm, {}, 0.95),
        (spaces.Discrete(2), right_arm, {"precision": "bf16"}, 0.95),
        (spaces.Discrete(2), right_arm, {"precision": "bf16-backward", "hidden": (32, 32)}, 0.95),
        (spaces.MultiDiscrete([2, 2]), both_right, {}, 0.93),
        (spaces.MultiDiscrete([2, 2]), both_right, {"label_objective": "joint"}, 0.93),
        (spaces.Box(-1, 1, (1,), np.float32), near_target, {}, -0.2),
        (spaces.Box(-1, 1, (1,), np.float32), near_target, {"precision": "bf16"}, -0.2),
        (HYBRID, arm_and_target, {}, 0.75),
        (HYBRID, arm_and_target, {"label_objective": "joint", "precision": "bf16-backward"}, 0.75),
    ],
)
def test_a_contextual_bandit_is_solved(make_ppo, space, reward, options, enough):
    """The reward of greedy play passes a threshold far above the initial reward."""
    torch.set_num_threads(1)
    ppo = make_ppo(space, learning_rate=0.01, epochs=4, **options)
    trainer, policy, rng = ppo.make_trainer(seed=0), ppo.make_policy(), np.random.default_rng(0)
    policy.load(trainer.weights())
    start = play(policy, rng, reward=reward).reward[0].mean()
    for _ in range(40):
        trainer.update(play(policy, rng, reward=reward), progress=0.0)
        policy.load(trainer.weights())
    end = play(policy, rng, reward=reward).reward[0].mean()
    assert start < enough - 0.2
    assert end > enough


@pytest.mark.slow
def test_a_pendulum_is_swung_up(tmp_path):
    """Two thirds of the example's decisions give far more than the -1200 of a random player."""
    pytest.importorskip("ludus_gymnasium")
    folder = tmp_path / "run"
    changes = ["--workers", "0", "--set", "run.decisions=100000"]
    assert main(["train", str(EXAMPLE), "--run", str(folder), "--json", *changes]) == 0
    with open_run(folder) as run:
        environment = run.make_environment(64)
        try:
            agent = run.agent("main_agent@latest", "player", environment=environment, deterministic=True)
            assert play_pair(environment, [{"player": agent}], matches=64, seed=0).mean_return > -400
        finally:
            environment.close()
