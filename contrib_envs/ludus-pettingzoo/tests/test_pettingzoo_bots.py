"""Games that play some of their agents themselves: the seats of built-in bots do not act, and get rewards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ludus.environment import Scenario
from ludus.errors import ContractError
from ludus.testing import check_environment
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment

GAMES = '''
"""Higher number wins, three rounds; the bot `high` always names 2, the bot `low` names 0."""

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

AGENTS = ["red_0", "blue_0"]
BOTS = {"high": 2, "low": 0}


class _Game:
    def __init__(self, offered=None):
        self.possible_agents = list(AGENTS)
        self.builtin_agents = dict.fromkeys(AGENTS, list(BOTS)) if offered is None else offered

    def observation_space(self, agent):
        return spaces.Box(0, 9, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def begin(self, options):
        self.agents, self.round = list(AGENTS), 0
        self.bots = (options or {}).get("builtin", {})

    def look(self):
        return np.full(1, self.round, np.float32)

    def payoff(self, chosen):
        self.round += 1
        lead = float(np.sign(int(chosen["red_0"]) - int(chosen["blue_0"])))
        return {"red_0": lead, "blue_0": -lead}


class Together(_Game, ParallelEnv):
    metadata = {"name": "together_v0"}

    def reset(self, seed=None, options=None):
        self.begin(options)
        return {agent: self.look() for agent in AGENTS}, {agent: {} for agent in AGENTS}

    def step(self, actions):
        assert not set(actions) & set(self.bots)
        rewards = self.payoff({**actions, **{agent: BOTS[bot] for agent, bot in self.bots.items()}})
        ended = dict.fromkeys(AGENTS, self.round == 3)
        if self.round == 3:
            self.agents = []
        looks = {agent: self.look() for agent in AGENTS if agent not in self.bots}
        return looks, rewards, ended, dict.fromkeys(AGENTS, False), {agent: {} for agent in AGENTS}


class InTurn(_Game, AECEnv):
    metadata = {"name": "in_turn_v0", "is_parallelizable": False}

    def observe(self, agent):
        return self.look()

    def reset(self, seed=None, options=None):
        self.begin(options)
        self.agent_selection, self.chosen = "red_0", {}
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations, self.truncations = dict.fromkeys(AGENTS, False), dict.fromkeys(AGENTS, False)
        self.infos = {agent: {} for agent in AGENTS}

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            return self._was_dead_step(action)
        assert (action is None) == (agent in self.bots)
        self.chosen[agent] = BOTS[self.bots[agent]] if action is None else action
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        if agent == "blue_0":
            self.rewards = self.payoff(self.chosen)
            self.terminations = dict.fromkeys(AGENTS, self.round == 3)
        self.agent_selection = "blue_0" if agent == "red_0" else "red_0"
'''


@pytest.fixture(autouse=True)
def games(tmp_path, monkeypatch):
    """Write the module of the games where Python finds it."""
    Path(tmp_path, "toy_bots.py").write_text(GAMES, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


def make(id, num_matches=1, **options):
    """Return an environment of a game."""
    return make_environment(PettingZooConfig(id=id, **options), num_matches=num_matches)


def play(env, scenario, action):
    """Play a match in which acting seats name `action`; return the seats that acted, the returns and the outcome."""
    tick = env.reset(np.zeros(env.num_matches, np.uint64), scenarios=[scenario] * env.num_matches)
    acted, returns = np.zeros(2, bool), np.zeros(2)
    while not tick.terminated[0]:
        acted |= tick.roles["player"].acting[0]
        tick = env.step({"player": np.full((env.num_matches, 2, 1), action)})
        returns += tick.roles["player"].reward[0]
    return acted.tolist(), returns.tolist(), tick.outcome[0].tolist()


@pytest.mark.parametrize("id", ["toy_bots:Together", "toy_bots:InTurn"])
@pytest.mark.parametrize("workers", [0, 1])
def test_bots_play_their_seats(id, workers):
    """`high` beats 1 as red and as blue, `low` loses to it; the seat of the bot never acts."""
    env = make(id, workers=workers)
    assert env.spec.builtin == (("high", "low"), ("high", "low"))
    assert play(env, Scenario(builtin=("", "high")), 1) == ([True, False], [-3, 3], [0, 1])
    assert play(env, Scenario(builtin=("high", "")), 1) == ([False, True], [3, -3], [1, 0])
    assert play(env, Scenario(builtin=("low", "")), 1) == ([False, True], [-3, 3], [0, 1])
    assert play(env, Scenario(builtin=("low", "high")), 1) == ([False, False], [-3, 3], [0, 1])
    assert play(env, Scenario(), 1) == ([True, True], [0, 0], [0.5, 0.5])
    env.close()


@pytest.mark.parametrize("id", ["toy_bots:Together", "toy_bots:InTurn"])
def test_contract(id):
    """The checker finds no problem in matches with and without bots."""
    check_environment(lambda num_matches: make(id, num_matches), steps=30)


def test_a_role_has_the_bots_of_all_its_agents():
    """A bot that only blue can have belongs to a role only where blue has a role of its own."""
    offered = {"blue_0": ["low"]}
    assert make("toy_bots:Together", options={"offered": offered}).spec.builtin == ((), ())
    roles = {"red": ["red_*"], "blue": ["blue_*"]}
    assert make("toy_bots:Together", options={"offered": offered}, roles=roles).spec.builtin == ((), ("low",))


@pytest.mark.parametrize(
    ("offered", "message"),
    [
        (["high"], "builtin_agents: expected a dict, got list"),
        ({"green_0": ["high"]}, "builtin_agents: expected agents of possible_agents, got 'green_0'"),
        ({"red_0": "high"}, "builtin_agents: agent 'red_0': expected a list of"),
        ({"red_0": ["Very High"]}, "builtin_agents: agent 'red_0': expected a list of"),
    ],
)
def test_malformed_bots_are_refused(offered, message):
    """The message names the game and the attribute."""
    with pytest.raises(ContractError, match=rf"game 'toy_bots:Together': {message}"):
        make("toy_bots:Together", options={"offered": offered})


def test_unknown_bots_are_refused():
    """The message names the seat and the bots that it can have."""
    with pytest.raises(ContractError, match="seat 1 has no built-in bot 'best'; it has high, low"):
        make("toy_bots:Together").reset(np.zeros(1, np.uint64), scenarios=[Scenario(builtin=("", "best"))])
