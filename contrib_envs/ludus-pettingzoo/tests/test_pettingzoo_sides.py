"""Roles, teams and outcomes of PettingZoo games, by option or as the game gives them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ludus.errors import ConfigError, ContractError
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment

SIEGE = '''
"""Attackers and defenders of equal spaces earn and die by a script; `outcome` is its result."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Siege(ParallelEnv):
    metadata = {"name": "siege_v0"}

    def __init__(self, rewards=({},), deaths=(), outcome=None, attackers=1, wide=False):
        self.possible_agents = [*(f"a_{i}" for i in range(attackers)), "d_0"]
        self.rewards, self.deaths, self.outcome, self.wide = list(rewards), dict(deaths), outcome, wide

    def observation_space(self, agent):
        return spaces.Box(0, 1, (2 if self.wide and agent == "a_1" else 1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.now = list(self.possible_agents), 0
        return self.look(self.agents), {agent: {"side": "near" if agent == "d_0" else "far"} for agent in self.agents}

    def look(self, agents):
        return {agent: np.zeros(self.observation_space(agent).shape, np.float32) for agent in agents}

    def step(self, actions):
        self.now += 1
        agents, ended = self.agents, self.now == len(self.rewards)
        dies = {agent: ended or self.deaths.get(agent) == self.now for agent in agents}
        rewards = {**dict.fromkeys(agents, 0.0), **self.rewards[self.now - 1]}
        self.agents = [agent for agent in agents if not dies[agent]]
        infos = {agent: {} for agent in agents}
        if ended:
            each = isinstance(self.outcome, dict) and set(self.outcome) == set(self.possible_agents)
            infos = {agent: {"result": self.outcome[agent] if each else self.outcome} for agent in agents}
        return self.look(agents), rewards, dies, dict.fromkeys(agents, False), infos

    def result(self):
        return self.outcome

    def sides(self):
        return {agent: agent[0] for agent in self.possible_agents}

    number = 3


def judge(env):
    return env.outcome
'''


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make an environment, and close it at the end."""
    (tmp_path / "toy_siege.py").write_text(SIEGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []

    def make_one(options=None, **config):
        made.append(
            make_environment(PettingZooConfig(id="toy_siege:Siege", options=options or {}, **config), num_matches=1)
        )
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def outcome(env):
    """Play a match and return its outcome."""
    tick = env.reset(np.array([1], np.uint64))
    while not (tick.terminated | tick.truncated).any():
        tick = env.step({role.name: np.zeros((1, role.num_seats, 1), np.int64) for role in env.spec.roles})
    return tick.outcome[0].tolist()


def test_equal_spaces_share_a_role_by_default(make) -> None:
    """One model would play both sides; messages name the agents."""
    (role,) = make().spec.roles
    assert (role.name, role.num_seats, role.seat_names) == ("player", 2, ("a_0", "d_0"))


@pytest.mark.parametrize("workers", [0, 1])
def test_roles_by_option(make, workers) -> None:
    """Patterns assign the agents; roles are in the order of the table, seats in that of the agents."""
    roles = {"defender": ["d_*"], "attacker": ["a_0", "a_[12]"]}
    spec = make({"attackers": 3}, roles=roles, teams={"far": ["a_*"], "near": ["d_*"]}, workers=workers).spec
    assert [(role.name, role.teams) for role in spec.roles] == [("defender", (1,)), ("attacker", (0, 0, 0))]


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"attacker": ["a_*"]}, "roles: expected agent 'd_0' in one role, found it in 0"),
        (
            {"attacker": ["a_*"], "all": ["*"]},
            "agent 'a_0' in one role, found it in 2 .attacker, all., and 1 other agent likewise",
        ),
        ({"all": ["*"], "spare": ["x"]}, "roles: no agent is in role 'spare'; the agents are a_0, a_1, d_0"),
        ({"The Attackers": ["a_*"], "d": ["d_0"]}, "roles: expected a name from a-z .* got 'The Attackers'"),
        ({"a": ["a_*"], "d": ["d_0"]}, "roles: agents 'a_0' and 'a_1' of role 'a' have other spaces"),
    ],
)
def test_wrong_roles(make, roles, message) -> None:
    """Every agent is in exactly one role, and agents of a role have equal spaces."""
    with pytest.raises(ConfigError, match=message) as caught:
        make({"attackers": 2, "wide": True}, roles=roles)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("teams", ["info:side", "method:sides"])
def test_the_game_gives_the_teams(make, teams) -> None:
    """In the infos of the first reset, or by a method."""
    assert make({"attackers": 2}, teams=teams).spec.roles[0].teams == (0, 0, 1)


@pytest.mark.parametrize(
    ("teams", "message"),
    [
        ("info:color", "expected the team of every agent from 'info:color', got none of 'a_0'"),
        ("method:colors", "the game has no method 'colors'"),
    ],
)
def test_the_game_does_not_give_the_teams(make, teams, message) -> None:
    """The message names the source."""
    with pytest.raises(ConfigError, match=message):
        make(teams=teams)


DRAW = [{"a_0": 0.1, "d_0": 0.3}, {"a_0": 0.2}]


@pytest.mark.parametrize(
    ("rewards", "rule", "expected"),
    [
        (DRAW, "total", [0.5, 0.5]),
        (DRAW, "last", [1, 0]),
        ([{"a_0": 0.1}, {"a_0": 0.2}, {"a_0": -0.3, "d_0": -1}], "positive", [0.5, 0]),
        ([{"d_0": 5}, {"a_0": 1}], "survival", [1, 0]),
    ],
)
def test_outcomes_by_rewards(make, rewards, rule, expected) -> None:
    """Sums of floats are compared with a tolerance."""
    env = make({"rewards": rewards}, outcome=rule)
    assert outcome(env) == expected
    assert outcome(env) == expected


@pytest.mark.parametrize(
    ("deaths", "expected"),
    [
        ({"d_0": 1}, [1, 0]),
        ({"a_0": 1}, [0.5, 0.5]),
        ({"a_0": 1, "a_1": 2}, [0, 1]),
        ({"a_0": 2, "a_1": 2, "d_0": 1}, [1, 0]),
    ],
)
def test_outcome_by_survival(make, deaths, expected) -> None:
    """A team lasts as long as one of its agents."""
    env = make(
        {"rewards": [{"a_0": 9}, {}, {}, {}], "deaths": deaths, "attackers": 2},
        outcome="survival",
        teams={"far": ["a_*"], "near": ["d_0"]},
    )
    assert outcome(env) == expected


@pytest.mark.parametrize("source", ["info:result", "method:result", "toy_siege:judge"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("d_0", [0, 1]),
        ("far", [1, 0]),
        (None, [0.5, 0.5]),
        (["a_1", "a_0"], [1, 0]),
        (["near", "a_0"], [0.5, 0.5]),
        ({"far": 0.75, "near": 0.25}, [0.75, 0.25]),
        ({"a_0": True, "a_1": False, "d_0": False}, [1, 0]),
        ({"a_0": False, "a_1": False, "d_0": False}, [0.5, 0.5]),
        ({"a_0": 0, "a_1": 0, "d_0": 1}, [0, 1]),
    ],
)
def test_the_game_gives_the_outcome(make, source, given, expected) -> None:
    """Winners by name, or booleans or points for agents or teams; against the rewards here."""
    options = {"rewards": [{"a_0": 9, "d_0": 9}], "outcome": given, "attackers": 2}
    assert outcome(make(options, outcome=source, teams={"far": ["a_*"], "near": ["d_0"]})) == expected


@pytest.mark.parametrize("given", ["nobody", ["a_0", "nobody"], {"a_0": 7}, {"a_0": "won"}, 3, {}])
def test_the_game_gives_something_else(make, given) -> None:
    """The message names the game, the source and what it gave."""
    env = make({"outcome": given}, outcome="method:result")
    with pytest.raises(
        ContractError, match=r"^game 'toy_siege:Siege': outcome 'method:result': expected .*got"
    ) as caught:
        outcome(env)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"outcome": "method:number"}, "outcome: the game 'toy_siege:Siege' has no method 'number'"),
        ({"outcome": "toy_siege:jury"}, "outcome: cannot import 'toy_siege:jury'"),
        ({"win_return": 1.0}, "win_return: expected a game of one team"),
        (
            {"win_return": 1.0, "teams": {"all": ["*"]}, "outcome": "positive"},
            "win_return: expected a game of one team",
        ),
    ],
)
def test_wrong_outcomes(make, config, message) -> None:
    """They are found before the first match."""
    with pytest.raises(ConfigError, match=message):
        make(**config)
    with pytest.raises(ContractError, match="outcome 'info:winner': no info has the key 'winner' at the end"):
        outcome(make(outcome="info:winner"))


@pytest.mark.parametrize("text", ["most", "info:", "", "method:"])
def test_unknown_rules(text) -> None:
    """The message lists the rules."""
    with pytest.raises(ValueError, match="outcome: expected one of total, last, positive, survival, or"):
        PettingZooConfig(outcome=text)


@pytest.mark.parametrize(
    ("config", "rewards", "points"),
    [
        ({}, 1.0, 0.5),
        ({"outcome": "last"}, -1.0, 0.5),
        ({"outcome": "survival"}, 1.0, 0.5),
        ({"outcome": "positive"}, 1.0, 1),
        ({"win_return": 0.3}, 0.1, 1),
        ({"win_return": 0.31}, 0.1, 0),
    ],
)
def test_one_team(make, config, rewards, points) -> None:
    """A team without opponents wins nothing, unless a return is asked for; 0.1 three times is not below 0.3."""
    env = make({"rewards": [{"a_0": rewards}, {"d_0": rewards}, {"a_0": rewards}]}, teams={"all": ["*"]}, **config)
    assert outcome(env) == [points]


@pytest.mark.parametrize(
    ("config", "rule", "constant_sum"),
    [
        ({}, "the team with the highest total reward wins", True),
        ({"outcome": "survival"}, "the team that survives longest wins", True),
        ({"outcome": "positive"}, "every team with a total reward above 0 wins", False),
        ({"outcome": "info:result"}, "the infos of the game give it, under the key 'result'", False),
        ({"teams": {"all": ["*"]}}, "one team and no win_return, so every match is a draw", False),
        ({"teams": {"all": ["*"]}, "win_return": 2.5}, "a total reward of at least 2.5 wins", False),
    ],
)
def test_the_spec_describes_the_rule(make, config, rule, constant_sum) -> None:
    """`ludus check` prints it."""
    spec = make(**config).spec
    assert spec.outcome_rule.startswith(rule)
    assert spec.constant_sum is constant_sum
