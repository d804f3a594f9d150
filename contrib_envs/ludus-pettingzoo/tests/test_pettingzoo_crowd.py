"""Games of many agents are transferred in one call for all of them, with the same results."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.errors import ContractError
from ludus.testing import check_environment
from ludus_pettingzoo import match
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment

GAME = '''
"""Nine red and three blue agents see random numbers and get random rewards; agents die one after another."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Herd(ParallelEnv):
    metadata = {"name": "herd_v0"}

    def __init__(self, trouble=""):
        self.trouble = trouble
        self.possible_agents = [f"red_{i}" for i in range(9)] + [f"blue_{i}" for i in range(3)]
        self.red, self.blue = spaces.Box(-9, 9, (4, 5, 3), np.float32), spaces.Box(-9, 9, (2,), np.float32)

    def observation_space(self, agent):
        return self.red if agent.startswith("red") else self.blue

    def action_space(self, agent):
        return spaces.Discrete(5)

    def observations(self):
        seen = {a: self.rng.normal(size=self.observation_space(a).shape).astype(np.float32) for a in self.agents}
        if self.trouble == "shape" and self.now == 2:
            seen["red_1"], seen["red_2"] = np.zeros((5, 5, 3), np.float32), np.zeros((3, 5, 3), np.float32)
        if self.trouble == "dtype" and self.now == 2:
            seen["red_1"] = seen["red_1"].astype(np.float64)
        if self.trouble == "none" and self.now == 2:
            seen["red_1"] = None
        if self.trouble == "unknown" and self.now == 2:
            seen["green"] = seen["red_1"]
        return seen

    def reset(self, seed=None, options=None):
        self.rng, self.now, self.agents = np.random.default_rng(seed), 0, list(self.possible_agents)
        return self.observations(), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert list(actions) == self.agents
        assert all(type(action) is int for action in actions.values())
        self.now += 1
        seen = self.observations()
        rewards = {a: float(self.rng.normal()) + actions[a] for a in self.agents}
        if self.trouble == "array":
            rewards = {a: np.array([reward]) for a, reward in rewards.items()}
        if self.trouble == "infinite" and self.now == 2:
            rewards["red_1"] = float("inf")
        ends = {a: a == self.agents[(self.now + 3) % len(self.agents)] or self.now == 20 for a in self.agents}
        infos = {a: {"now": self.now} if self.now % 2 else {} for a in self.agents}
        if self.trouble == "mask" and self.now == 3:
            infos["red_1"] = {"action_mask": np.ones(5)}
        self.agents = [a for a in self.agents if not ends[a]]
        return seen, rewards, ends, dict.fromkeys(ends, False), infos
'''


@pytest.fixture(autouse=True)
def herd(tmp_path, monkeypatch):
    """Make the game importable."""
    (tmp_path / "toy_herd.py").write_text(GAME)
    monkeypatch.syspath_prepend(str(tmp_path))


def make(num_matches=2, trouble=""):
    """Make an environment of two teams."""
    teams = {"red": ["red_*"], "blue": ["blue_*"]}
    config = PettingZooConfig(id="toy_herd:Herd", options={"trouble": trouble}, teams=teams)
    return make_environment(config, num_matches=num_matches)


def record(env, ticks=14):
    """Play ticks and return copies of all arrays."""
    tick, rng, arrays = env.reset(np.array([3, 4], np.uint64)), np.random.default_rng(0), []
    for _ in range(ticks):
        for role in tick.roles.values():
            arrays += [role.observation["obs"], role.acting, role.reward, role.terminated]
        arrays += [tick.terminated, tick.outcome]
        arrays = [array.copy() for array in arrays]
        actions = {role.name: rng.integers(5, size=(2, role.num_seats, 1)) for role in env.spec.roles}
        tick = env.step(actions)
    return arrays


def test_contract():
    """Also with deaths."""
    check_environment(make, steps=30)


@pytest.mark.parametrize("trouble", ["", "dtype", "array"])
def test_results_are_those_of_single_agents(monkeypatch, trouble):
    """Of observations, acting seats, rewards, ends and outcomes, also where single agents need a conversion."""
    env = make(trouble=trouble)
    crowd = record(env)
    monkeypatch.setattr(match, "make_crowd", lambda *_args: None)
    for one, other in zip(crowd, record(make(trouble=trouble)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_game_of_many_agents_is_transferred_at_once():
    """The crowd takes every tick of this game, and no game of two agents."""
    env = make(1)
    record_of = env._games._games[0]._match
    assert record_of._crowd is not None
    env.reset(np.array([1], np.uint64))
    assert record_of.observed_all
    small = make_environment(PettingZooConfig(id="toy_chase:Chase"), num_matches=1)
    assert small._games._games[0]._match._crowd is None


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("shape", r"agent 'red_1': observation leaf 'obs': expected float32 \(4, 5, 3\)"),
        ("none", "agent 'red_1' must act but got no observation"),
        ("unknown", "the agent 'green'"),
        ("infinite", "agent 'red_1': reward: expected a finite number"),
        ("mask", "agent 'red_1': an action mask came after a first reset without one"),
    ],
)
def test_wrong_values_are_reported_with_their_agent(trouble, message):
    """As in games of few agents."""
    with pytest.raises(ContractError, match=message):
        record(make(trouble=trouble))
