"""Small PettingZoo environments, importable here and in worker processes."""

from __future__ import annotations

from pathlib import Path

import pytest

CHASE = '''
"""A hunter catches one prey after another: they name cells, a prey on the hunter's cell is caught and leaves."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Chase(ParallelEnv):
    metadata = {"name": "chase_v0", "is_parallelizable": True}
    render_mode = None

    def __init__(self, prey=2, limit=8, linger=False):
        self.possible_agents = ["hunter_0", *(f"prey_{i}" for i in range(prey))]
        self.limit, self.linger = limit, linger
        self.hunter = spaces.Box(0, 99, (2,), np.float32), spaces.Discrete(3, start=5)
        self.prey = spaces.Box(0, 99, (3,), np.float32), spaces.MultiDiscrete([3, 2])

    def observation_space(self, agent):
        return (self.hunter if agent == "hunter_0" else self.prey)[0]

    def action_space(self, agent):
        return (self.hunter if agent == "hunter_0" else self.prey)[1]

    def observations(self, agents):
        lengths = {agent: 2 if agent == "hunter_0" else 3 for agent in agents}
        everything = np.array([self.now, self.start, 1], np.float32)
        return {agent: everything[:length] for agent, length in lengths.items()}, {agent: {} for agent in agents}

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        self.now, self.start = 1, int(np.random.default_rng(seed).integers(1, 90))
        return self.observations(self.agents)

    def step(self, actions):
        assert self.linger or set(actions) == set(self.agents)
        assert actions["hunter_0"] in (5, 6, 7)
        self.now += 1
        played = list(actions)
        caught = [a for a in played if a != "hunter_0" and actions[a][0] == actions["hunter_0"] - 5]
        left = [a for a in played if a not in caught]
        rewards = {a: -1.0 if a in caught else 0.0 for a in played} | {"hunter_0": float(len(caught))}
        terminations = {a: a in caught or left == ["hunter_0"] for a in played}
        truncations = dict.fromkeys(played, self.now > self.limit)
        if not self.linger:
            self.agents = [a for a in played if not (terminations[a] or truncations[a])]
        return self.observations(played)[0], rewards, terminations, truncations, {a: {} for a in played}


def nameless() -> ParallelEnv:
    env = Chase()
    del env.possible_agents
    return env
'''

ELIMINATION = '''
"""Three players in turn; who says 0 is out, the last one wins. Saying the same twice is barred (mask in infos)."""

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv
from pettingzoo.utils import AgentSelector


class Elimination(AECEnv):
    metadata = {"name": "elimination_v0", "is_parallelizable": False}

    def __init__(self):
        super().__init__()
        self.possible_agents = ["red_0", "blue_0", "green_0"]
        self.observed = spaces.Dict({"left": spaces.Discrete(4), "previous": spaces.Tuple([spaces.Discrete(4)])})
        self.actions = spaces.Discrete(3)

    def observation_space(self, agent):
        return self.observed

    def action_space(self, agent):
        return self.actions

    def observe(self, agent):
        return {"left": len(self.agents), "previous": (self.previous,)}

    def reset(self, seed=None, options=None):
        self.agents, self.previous = self.possible_agents[:], 3
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.mask()
        self.order = self.possible_agents[seed % 3 :] + self.possible_agents[: seed % 3]
        self.agent_selection = self.order[0]

    def mask(self):
        self.infos = {a: {"action_mask": (np.arange(3) != self.previous).astype(np.int8)} for a in self.agents}

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            return self._was_dead_step(action)
        assert action != self.previous
        self._clear_rewards()
        self._cumulative_rewards[agent] = 0
        self.previous = int(action)
        following = [a for a in self.order if not self.terminations[a]]
        following = following[following.index(agent) + 1 :] + following[: following.index(agent)]
        if action == 0:
            self.order.remove(agent)
            self.rewards[agent] = -1
            self.terminations[agent] = True
            if len(following) == 1:
                self.rewards[following[0]] = 2
                self.terminations[following[0]] = True
        self.mask()
        self._accumulate_rewards()
        self.agent_selection = following[0]
        self._deads_step_first()
'''

NUMBERED = '''
"""The highest bid wins; agents are called by a number and by a tuple."""

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import parallel_to_aec


class Bids(ParallelEnv):
    metadata = {"name": "bids_v0", "is_parallelizable": True}
    render_mode = None
    possible_agents = [7, ("bidder", 1)]

    def observation_space(self, agent):
        return spaces.Box(0, 1, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def answer(self, rewards, ended):
        asked = self.agents
        observed = {agent: np.full(1, ended, np.float32) for agent in asked}
        self.agents = [] if ended else asked
        terminated, truncated = dict.fromkeys(asked, ended), dict.fromkeys(asked, False)
        return observed, rewards, terminated, truncated, {agent: {} for agent in asked}

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        observed, *_, infos = self.answer({}, False)
        return observed, infos

    def step(self, actions):
        best = max(actions.values())
        return self.answer({agent: float(bid == best) for agent, bid in actions.items()}, True)


def in_turns() -> AECEnv:
    return parallel_to_aec(Bids())
'''

MIXED = '''
"""One agent picks a gear, of which the third is barred (mask in its info), the other steers with a real number."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Mixed(ParallelEnv):
    metadata = {"name": "mixed_v0"}

    def __init__(self, unseen_at=0, names=("gear", "wheel"), masks_wheel=False):
        self.unseen_at, self.possible_agents = unseen_at, list(names)
        self.infos = [{"action_mask": np.array([1, 1, 0], np.int8)}, {"action_mask": np.ones(1)} if masks_wheel else {}]

    def observation_space(self, agent):
        return spaces.Box(0, 5, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3) if agent == self.possible_agents[0] else spaces.Box(-1, 1, (1,), np.float32)

    def answer(self):
        observed = {agent: np.full(1, self.now, np.float32) for agent in self.agents}
        if self.now == self.unseen_at:
            del observed[self.possible_agents[1]]
        return observed, dict(zip(self.possible_agents, self.infos))

    def reset(self, seed=None, options=None):
        self.agents, self.now = self.possible_agents[:], 1
        return self.answer()

    def step(self, actions):
        self.now += 1
        asked, (observed, infos) = self.agents, self.answer()
        ended = self.now == 5
        self.agents = [] if ended else asked
        return observed, dict.fromkeys(asked, 0.0), dict.fromkeys(asked, ended), dict.fromkeys(asked, False), infos
'''


EXITS = '''
"""Every living agent earns 1 a tick; agents leave on given ticks, and the limit truncates the others."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Exits(ParallelEnv):
    metadata = {"name": "exits_v0", "is_parallelizable": True}
    render_mode = None

    def __init__(self, ends, limit=4, team_reward=0.0, unknown_at=0):
        self.possible_agents = list(ends)
        self.ends, self.limit, self.team_reward, self.unknown_at = ends, limit, team_reward, unknown_at

    def observation_space(self, agent):
        return spaces.Box(0, 99, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def observations(self, agents):
        infos = {agent: {"age": self.age} for agent in agents}
        return {agent: np.full(1, self.now, np.float32) for agent in agents}, infos

    def reset(self, seed=None, options=None):
        self.agents, self.now, self.age = self.possible_agents[:], 0, 0
        return self.observations(self.agents)

    def step(self, actions):
        self.now += 1
        self.age = "old" if self.now == self.unknown_at else self.now
        played = self.agents
        ended = {agent: self.ends[agent][1] if self.now == self.ends[agent][0] else "" for agent in played}
        terminated = {agent: how == "terminated" for agent, how in ended.items()}
        truncated = {agent: how == "truncated" or self.now == self.limit for agent, how in ended.items()}
        rewards = {agent: 1.0 for agent in played}
        if self.now == self.limit and self.team_reward:
            rewards |= dict.fromkeys(self.possible_agents, self.team_reward)
        self.agents = [agent for agent in played if not (terminated[agent] or truncated[agent])]
        observed, infos = self.observations(played)
        return observed, rewards, terminated, truncated, infos
'''


@pytest.fixture(autouse=True)
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``toy_chase``, ``toy_elimination``, ``toy_exits``, ``toy_mixed`` and ``toy_numbered`` importable."""
    (tmp_path / "toy_chase.py").write_text(CHASE)
    (tmp_path / "toy_elimination.py").write_text(ELIMINATION)
    (tmp_path / "toy_exits.py").write_text(EXITS)
    (tmp_path / "toy_mixed.py").write_text(MIXED)
    (tmp_path / "toy_numbered.py").write_text(NUMBERED)
    monkeypatch.syspath_prepend(str(tmp_path))
