"""PPO learns what it is able to learn, three seeds each, and is slow where it is not shown what it needs.

Every match here is one decision, so a batch is the first tick of many matches, and nothing else of a run is needed.
"""

from __future__ import annotations

import attrs
import numpy as np
import pytest
import torch
from ludus.algorithm import AlgorithmContext, PolicyInput
from ludus.segment import SegmentBatch
from ludus_networks.config import MLPConfig
from ludus_networks.network import make_mlp
from ludus_ppo.algorithm import PPO
from ludus_ppo.config import PPOConfig
from ludus_probes.environment import ROLE

three_seeds = pytest.mark.parametrize("seed", range(3))


class Student:
    """PPO that plays all seats of a probe and learns from them.

    Args:
        environment: Matches of one decision.
        seed: Of weights, actions and matches.
        hidden: Units of the network's layers.
        critic_sees: Whether the critic is given the privileged leaves.
        options: Those of PPO that differ from 4 epochs and a learning rate of 0.003.
    """

    def __init__(self, environment, *, seed, hidden=(64,), critic_sees=True, **options):
        torch.set_num_threads(1)
        role = environment.spec.role(ROLE)
        self.environment, self.critic_sees = environment, critic_sees
        self.rng = np.random.default_rng(seed)
        algorithm = PPO(
            PPOConfig(**{"learning_rate": 3e-3, "epochs": 4, **options}),
            context=AlgorithmContext(
                role=role if critic_sees else attrs.evolve(role, privileged_space=None),
                build_network=lambda request: make_mlp(MLPConfig(hidden=hidden, separate_critic=True), request=request),
            ),
        )
        self.trainer, self.policy = algorithm.make_trainer(seed=seed), algorithm.make_policy()
        self.policy.load(self.trainer.weights())

    def learn(self, updates):
        """Play and learn so many times, and return itself."""
        for _ in range(updates):
            self.trainer.update(self.play(), progress=0.0)
            self.policy.load(self.trainer.weights())
        return self

    def play(self):
        """Play every row once and return the decisions of all seats as segments of one decision."""
        environment, rows = self.environment, self.environment.num_matches * self.environment.spec.role(ROLE).num_seats
        player = environment.reset(self.rng.integers(0, 2**64, environment.num_matches, np.uint64)).roles[ROLE]
        leaves = {"observation": player.observation, "privileged": player.privileged if self.critic_sees else {}}
        leaves = {
            group: {name: leaf.reshape(rows, *leaf.shape[2:]).copy() for name, leaf in named.items()}
            for group, named in leaves.items()
        }
        mask = None if player.action_mask is None else player.action_mask.reshape(rows, -1).copy()
        decision = self.policy.act(
            PolicyInput(leaves["observation"], action_mask=mask, privileged=leaves["privileged"]), rng=self.rng
        )
        assert environment.step({ROLE: decision.action.reshape(*player.acting.shape, -1)}).terminated.all()
        leaves["extras"] = decision.extras
        return SegmentBatch(
            **{group: {name: np.stack([a, a]) for name, a in named.items()} for group, named in leaves.items()},
            action=np.stack([decision.action] * 2),
            action_mask=None if mask is None else np.stack([mask, mask]),
            reward=np.stack([player.reward.ravel()] * 2),
            terminated=np.ones((2, rows), bool),
            truncated=np.zeros((2, rows), bool),
            decided=np.array([[True], [False]]).repeat(rows, axis=1),
            elapsed_ticks=np.ones((2, rows), np.int32),
            length=np.ones(rows, np.int32),
            version=np.zeros(rows, np.int64),
        )

    def score(self, matches=4096):
        """Return what a seat receives per match, on average, less the offset of the team game."""
        total, plays = 0.0, -(-matches // self.environment.num_matches)
        for _ in range(plays):
            reward = self.play().reward[0].mean()
            hidden = self.environment._tick.roles[ROLE].privileged
            total += reward - (hidden["offset"].mean() if "offset" in hidden else 0.0)
        return total / plays


@three_seeds
def test_the_dominant_choice_is_learned(make, seed):
    """From 2.25 for random play down to the equilibrium of 1, at which both confess."""
    student = Student(make("matrix-game", 128, preset="prisoners-dilemma"), seed=seed, epochs=1)
    assert student.score() == pytest.approx(2.25, abs=0.25)
    assert student.learn(30).score() < 1.1


@three_seeds
def test_steering_is_learned(make, seed):
    """Far better than the best constant, -5/18; exploring costs a little."""
    assert Student(make("steer", 512), seed=seed).learn(60).score() > -0.15


@three_seeds
@pytest.mark.parametrize("options", [{}, {"label_objective": "joint"}], ids=str)
def test_aiming_is_learned(make, seed, options):
    """Far better than 1/4, a perfect shot at any target, and π/12, a shot at the middle of the right one."""
    student = Student(make("aim", 512), seed=seed, **options)
    assert student.score() < 0.15
    assert student.learn(60).score() > 0.75


@three_seeds
@pytest.mark.parametrize("coupled", [False, True])
def test_labels_are_learned(make, seed, coupled):
    """Far better than ½, the return without choosing the label."""
    assert Student(make("labels", 512, coupled=coupled), seed=seed).learn(25).score() > 0.85


@three_seeds
def test_targets_are_learned_slowly_by_layers_that_know_no_entities(make, seed):
    """Better than without looking at any entity, 0.34, and far from 1 yet."""
    score = Student(make("targets", 512), seed=seed, hidden=(128,)).learn(40).score()
    assert 0.4 < score < 0.8


@three_seeds
def test_the_team_learns_fast_with_a_critic_of_the_global_state(make, seed):
    """From 0.25. After as many matches, a team with critics of the seats' observations is still far from it."""
    environment = make("team-game", 128)
    seeing = Student(environment, seed=seed, hidden=(32,)).learn(15).score()
    blind = Student(environment, seed=seed, hidden=(32,), critic_sees=False).learn(15).score()
    assert seeing > 0.9
    assert blind < 0.75
