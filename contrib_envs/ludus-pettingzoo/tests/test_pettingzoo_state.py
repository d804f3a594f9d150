"""The state of a game becomes a privileged leaf of every role."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.errors import ConfigError, ContractError
from ludus.testing import check_environment
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment

GAME = '''
"""Two sides count up; the state holds the count and the seed of the match."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec


class Count(ParallelEnv):
    metadata = {"name": "count_v0"}
    render_mode = None

    def __init__(self, size=2, kind="box"):
        self.possible_agents = ["red", "blue"]
        self.kind = kind
        self.size = size
        box = spaces.Box(0, 999, (size,), np.float32)
        if kind != "none":
            self.state_space = spaces.Dict({"x": box, "y": spaces.Discrete(1000)}) if kind == "dict" else box

    def observation_space(self, agent):
        return spaces.Box(0, 1, (1 if agent == "red" else 2,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def state(self):
        if self.kind == "missing":
            raise NotImplementedError
        values = np.resize(np.array([self.now, self.start], np.float32), self.size + (self.kind == "wrong"))
        return {"x": values, "y": self.start} if self.kind == "dict" else values

    def answers(self):
        return {a: np.zeros(self.observation_space(a).shape, np.float32) for a in self.agents}

    def reset(self, seed=None, options=None):
        self.agents, self.now, self.start = list(self.possible_agents), 0, seed % 1000
        return self.answers(), {a: {} for a in self.agents}

    def step(self, actions):
        self.now += 1
        seats = list(self.agents)
        answers = self.answers()
        over, cut = self.now == 3 and self.start % 2 == 1, self.now == 3 and self.start % 2 == 0
        if over or cut:
            self.agents = []
        none = {a: {} for a in seats}
        return answers, dict.fromkeys(seats, 0.0), dict.fromkeys(seats, over), dict.fromkeys(seats, cut), none


def env(**options):
    return parallel_to_aec(Count(**options))
'''


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Make an environment of `Count`, and close it at the end."""
    (tmp_path / "toy_count.py").write_text(GAME, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    made = []

    def make_one(num_matches=1, name="Count", state="auto", workers=0, **options):
        config = PettingZooConfig(id=f"toy_count:{name}", options=options, state=state, workers=workers)
        made.append(make_environment(config, num_matches=num_matches))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def step(env):
    """Advance all matches by one tick."""
    shape = (env.num_matches, 1, 1)
    return env.step({"red": np.zeros(shape, np.int64), "blue": np.zeros(shape, np.int64)})


@pytest.mark.parametrize("workers", [0, 1])
def test_every_seat_gets_the_state_of_its_match(make, workers):
    """From the first tick to the one that truncates the match."""
    env = make(2, workers=workers)
    tick = env.reset(np.array([4, 8], np.uint64))
    for now in (0, 1, 2, 3):
        for role in ("red", "blue"):
            assert tick.roles[role].privileged["game_state"].tolist() == [[[now, 4]], [[now, 8]]]
        assert tick.truncated.all() == (now == 3)
        tick = step(env)


@pytest.mark.parametrize("kind", ["box", "dict"])
@pytest.mark.parametrize("name", ["Count", "env"])
def test_states_keep_the_contract(make, name, kind):
    """In simultaneous and turn-based games, for arrays and dicts."""
    check_environment(lambda num_matches: make(num_matches, name=name, kind=kind), steps=12)


def test_the_parts_of_a_state_are_leaves(make):
    """Their names begin with that of the state."""
    env = make(kind="dict")
    privileged = env.reset(np.array([5], np.uint64)).roles["blue"].privileged
    assert privileged["game_state.x"].tolist() == [[[0, 5]]]
    assert privileged["game_state.y"].tolist() == [[5]]


@pytest.mark.parametrize("options", [{"state": "never"}, {"kind": "none"}, {"kind": "missing"}, {"size": 5000}])
def test_roles_have_no_privileged_leaf_without_a_state(make, options):
    """Because of the option, because the game has none, or because it is too large to be read by default."""
    env = make(**options)
    assert all(role.privileged_space is None for role in env.spec.roles)
    env.reset(np.array([1], np.uint64))
    step(env)


def test_large_states_are_read_where_that_is_chosen(make):
    """The option overrides the limit."""
    env = make(state="always", size=5000)
    assert env.reset(np.array([7], np.uint64)).roles["red"].privileged["game_state"][0, 0, 1] == 7


@pytest.mark.parametrize("kind", ["none", "missing", "wrong"])
def test_a_state_that_is_asked_for_must_exist(make, kind):
    """The error is one line that names the option and the game."""
    with pytest.raises((ConfigError, ContractError), match=r"^state: game 'toy_count:Count'.*choose .*\"never\"$"):
        make(state="always", kind=kind)
