"""Games that return unusual values: each is read, or refused in one line that names game, agent, and leaf or method."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ludus.errors import ConfigError, ContractError, WorkerError
from ludus.testing import check_environment
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment

ODD = '''
"""Two agents count to three; `change` names what is unusual about the game."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

BOX = spaces.Box(0, 1, (2,), np.float32)
SPACES = {
    "text": spaces.Text(5),
    "graph": spaces.Graph(BOX, None),
    "sequence": spaces.Dict({"near": spaces.Sequence(spaces.Text(5))}),
    "empty": spaces.Box(0, 1, (0,)),
    "foreign": "Box(2,)",
    "numbered": spaces.Dict({0: BOX, 1: spaces.Dict({2: spaces.Discrete(3)})}),
    "tuple": spaces.Tuple([BOX, spaces.Tuple([spaces.Box(0, 1, (0,)), spaces.Discrete(3)])]),
    "mask key": spaces.Dict({"board": BOX, "legal": spaces.MultiBinary(2)}),
    "discrete": spaces.Discrete(3),
}
REWARDS = {
    "array": np.array([1.0]), "zero array": np.zeros((1, 1)), "int": 1, "float32": np.float32(1), "none": None,
    "nan": float("nan"), "inf": np.float64("inf"), "large": 1e300, "text": "1", "two": np.ones(2),
}
MASKS = {
    "float mask": np.array([0.0, 0.3]), "int mask": np.array([[0], [9]]), "list mask": [False, True],
    "negative mask": np.array([0, -1]), "nan mask": np.array([1, np.nan]), "long mask": np.ones(3),
}


class Odd(ParallelEnv):
    metadata = {"name": "odd_v0"}

    def __init__(self, change=""):
        self.change, self.possible_agents = change, ["red", "blue"]
        if change == "unnamed":
            del self.possible_agents

    def observation_space(self, agent):
        return SPACES.get(self.change, BOX)

    def action_space(self, agent):
        if self.change == "text action":
            return spaces.Tuple([spaces.Discrete(2), spaces.Text(5)])
        return spaces.Discrete(2)

    def look(self, agent):
        numbers = np.full(2, self.now / 3, np.float32)
        if self.change == "numbered":
            return {0: numbers, 1: {2: self.now - 1}}
        if self.change == "tuple":
            return numbers, (np.zeros(0), self.now - 1)
        if self.change == "mask key":
            return {"board": numbers, "legal": np.array([1, 0], np.int8)}
        if self.change == "discrete":
            return self.now
        if self.change == "outside":
            return numbers + 5
        if self.change == "none" and self.now == 2:
            return None
        if self.change == "text observation":
            return "red"
        return numbers

    def observe_all(self):
        agents = self.agents + (["green"] if self.change == "extra" and self.now == 2 else [])
        infos = {agent: {} for agent in agents}
        if self.change in MASKS:
            infos = {agent: {"action_mask": MASKS[self.change]} for agent in agents}
        if self.change == "info key":
            infos = {agent: {"legal": [0, 1]} for agent in agents}
        return {agent: self.look(agent) for agent in agents}, infos

    def reset(self, seed=None, options=None):
        self.agents = ["red"] if self.change == "late" else ["red", "blue"]
        self.now = 1
        observations, infos = self.observe_all()
        if self.change == "old reset":
            return observations
        if self.change == "nobody":
            self.agents = []
        if self.change == "infos":
            infos = None
        return observations, infos

    def step(self, actions):
        self.now += 1
        if self.change == "late":
            self.agents = ["red", "blue"]
        agents, ended = self.agents, self.now == 3
        observations, infos = self.observe_all()
        if self.change == "dead" and not ended:
            observations["blue"], agents, self.agents = None, ["red", "blue"], ["red"]
        rewards = {agent: REWARDS.get(self.change, 1.0) for agent in agents}
        terminations = {agent: ended or (agent == "blue" and self.change == "dead") for agent in agents}
        truncations = dict.fromkeys(agents, False)
        if self.change == "sparse":
            rewards, terminations, infos = {"red": 2}, {"red": ended}, {}
        if self.change == "unknown end":
            terminations["__all__"] = ended
        if self.change == "list":
            rewards = [1.0, 1.0]
        if self.change == "no info":
            infos = {agent: None for agent in agents}
        if self.change == "bad info":
            infos = {agent: "fine" for agent in agents}
        if ended:
            self.agents = []
        if self.change == "unknown agent":
            self.agents = ["red", "green"]
        answer = observations, rewards, terminations, truncations, infos
        return answer[:3] + answer[4:] if self.change == "old step" else answer
'''

TURNS = '''
"""Two agents take turns, four in all; `change` names what is unusual about the game."""

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv


class Turns(AECEnv):
    metadata = {"name": "turns_v0", "is_parallelizable": False}
    possible_agents = ["red", "blue"]

    def __init__(self, change=""):
        super().__init__()
        self.change = change

    def observation_space(self, agent):
        return spaces.Box(0, 9, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def observe(self, agent):
        return np.full(1, self.now, np.float32)

    def reset(self, seed=None, options=None):
        self.agents, self.now = ["red", "blue"], 1
        self.rewards = {"red": 0.0, "blue": 0.0}
        self._cumulative_rewards = {"red": 0.0, "blue": 0.0}
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "red"
        if self.change == "last":
            del self.rewards
        if self.change == "old":
            del self.terminations

    def last(self, *arguments):
        observation, reward, *rest = super().last(*arguments)
        return (observation, reward, *rest)

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            for table in (self.terminations, self.truncations, self._cumulative_rewards, self.infos):
                del table[agent]
            self.agents.remove(agent)
            self.agent_selection = self.agents[0] if self.agents else agent
            return
        self._cumulative_rewards[agent] = 0.0
        self.now += 1
        other = "blue" if agent == "red" else "red"
        gain = 1.0 if agent == "red" else 0.0
        self._cumulative_rewards[agent] += gain
        if other in self.agents:
            self._cumulative_rewards[other] -= gain
        if self.change != "last":
            self.rewards = {agent: gain, other: -gain}
        self.agent_selection = other
        if self.change == "one by one":
            self.truncations[agent] = self.now > 3
            self.agent_selection = agent if self.truncations[agent] else other
        elif self.now == 5:
            ends = self.truncations if self.change in ("truncates", "clears", "last") else self.terminations
            ends.update(dict.fromkeys(self.agents, True))
            if self.change == "clears":
                self.agents = []
        if self.change == "unknown":
            self.agent_selection = "green"
'''


@pytest.fixture(autouse=True)
def odd_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``toy_odd`` and ``toy_turns`` importable."""
    (tmp_path / "toy_odd.py").write_text(ODD)
    (tmp_path / "toy_turns.py").write_text(TURNS)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture
def make():
    """Make an environment, and close it at the end."""
    made = []

    def make_one(change, id="toy_odd:Odd", num_matches=1, **options):
        config = PettingZooConfig(id=id, options={"change": change}, **options)
        made.append(make_environment(config, num_matches=num_matches))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def play(env):
    """Play one match with the action 1 and return all ticks: observations, mask, rewards and ends."""
    tick = env.reset(np.array([1], np.uint64))
    ticks = [record(tick)]
    while not (tick.terminated | tick.truncated).any():
        tick = env.step({"player": np.ones((1, 2, 1), np.int64)})
        ticks.append(record(tick))
    return ticks


def record(tick):
    """Return a copy of the values of a tick of one match."""
    role = tick.roles["player"]
    return {
        "observation": {name: leaf[0].tolist() for name, leaf in role.observation.items()},
        "acting": role.acting[0].tolist(),
        "mask": None if role.action_mask is None else role.action_mask[0].tolist(),
        "reward": role.reward[0].tolist(),
        "ended": [tick.terminated.item(), tick.truncated.item()],
    }


def returns(ticks):
    """Return the sums of the rewards of both seats."""
    return np.sum([tick["reward"] for tick in ticks], axis=0).tolist()


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        *[(change, [2, 2]) for change in ("", "array", "int", "float32", "outside", "no info")],
        ("zero array", [0, 0]),
        ("sparse", [4, 0]),
        ("dead", [2, 1]),
    ],
)
def test_rewards(make, workers, change, expected) -> None:
    """Numbers of any type and shape are rewards, and missing entries of dicts are 0, False and empty."""
    ticks = play(make(change, workers=workers))
    assert returns(ticks) == expected
    assert ticks[-1]["ended"] == [True, False]


def test_no_reward_is_zero(make) -> None:
    """A game may give None for agents that earn nothing; the observation of the last tick is None as well here."""
    env = make("none")
    env.reset(np.array([1], np.uint64))
    with pytest.raises(ContractError, match="game 'toy_odd:Odd': agent 'red' must act but got no observation"):
        env.step({"player": np.ones((1, 2, 1), np.int64)})
    assert not env._arrays.tick.roles["player"].reward.any()


def test_dead_agents_need_no_observation(make) -> None:
    """Their seats keep the last one."""
    ticks = play(make("dead"))
    assert ticks[1]["acting"] == [True, False]
    assert ticks[1]["observation"]["obs"][1] == ticks[0]["observation"]["obs"][1]


def test_agents_may_appear_later(make) -> None:
    """Their seats do not act before."""
    assert [tick["acting"] for tick in play(make("late"))[:2]] == [[True, False], [True, True]]


@pytest.mark.parametrize(
    ("change", "names"), [("numbered", ["0", "1.2"]), ("tuple", ["0", "1.1"]), ("mask key", ["board", "legal"])]
)
def test_leaves(make, change, names) -> None:
    """Keys of Dict and Tuple spaces name leaves; empty ones are left out."""
    env = make(change)
    assert list(play(env)[0]["observation"]) == names
    check_environment(lambda num_matches: make(change, num_matches=num_matches), steps=10)


@pytest.mark.parametrize(("change", "mask"), [("mask key", [True, False]), ("info key", [False, True])])
def test_masks_under_another_key(make, change, mask) -> None:
    """The option names the key, in the observation or in the info."""
    env = make(change, mask_key="legal")
    tick = record(env.reset(np.array([1], np.uint64)))
    assert tick["mask"] == [mask, mask]
    assert "legal" not in tick["observation"]


@pytest.mark.parametrize("change", ["float mask", "int mask", "list mask"])
def test_masks_of_any_dtype(make, change) -> None:
    """Positive numbers are legal."""
    assert play(make(change))[0]["mask"] == [[False, True]] * 2


GAME = "game 'toy_odd:Odd'"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("nan", f"{GAME}, agent 'red': reward: expected a finite number .* got nan"),
        ("inf", f"{GAME}, agent 'red': reward: expected a finite number .* got inf"),
        ("large", f"{GAME}, agent 'red': reward: expected a finite number in the range of float32, got 1e\\+300"),
        ("text", f"{GAME}: agent 'red': observation leaf 'obs' is a Text space"),
        ("graph", f"{GAME}: agent 'red': observation leaf 'obs' is a Graph space"),
        ("sequence", f"{GAME}: agent 'red': observation leaf 'near' is a Sequence of Text spaces"),
        ("empty", f"{GAME}: agent 'red': observation space .* holds no numbers"),
        ("foreign", f"{GAME}: agent 'red': observation_space returned builtins.str; expected a space of gymnasium"),
        ("text action", f"{GAME}: agent 'red': part '1' of the action space, a Text, is not supported; use"),
        ("two", rf"{GAME}, agent 'red': reward: expected one number, got float64 \(2,\)"),
        ("discrete", f"{GAME}, agent 'red': observation leaf 'obs': expected 0 to 2, got 3"),
        ("text observation", f"{GAME}, agent 'red': observation leaf 'obs': expected float32 .* got str"),
        ("negative mask", f"{GAME}, agent 'red': action mask: expected 0 for illegal .* got -1"),
        ("nan mask", f"{GAME}, agent 'red': action mask: expected 0 for illegal .* got nan"),
        ("long mask", rf"{GAME}, agent 'red': action mask: expected shape \(2,\), .* got \(3,\)"),
        ("old reset", f"{GAME}: reset returned a dict; expected 2 dicts by agent .* API of PettingZoo before 1.24"),
        ("old step", f"{GAME}: step returned 4 values; expected 5 dicts by agent .* API of PettingZoo before 1.24"),
        ("infos", f"{GAME}: reset returned a NoneType as infos; expected 2 dicts"),
        ("list", f"{GAME}: step returned a list as rewards; expected 5 dicts"),
        ("bad info", f"{GAME}: step returned a str as the info of an agent; expected a dict"),
        ("extra", f"{GAME}: observations of step name the agent 'green'; expected agents of possible_agents"),
        ("unknown end", rf"{GAME}: terminations of step name the agent '__all__'; expected .* \(red, blue\)"),
        ("unknown agent", f"{GAME}: env.agents holds the agent 'green'"),
        ("nobody", f"{GAME}: reset left no agent in env.agents"),
        ("unnamed", "'toy_odd:Odd' has no possible_agents"),
    ],
)
def test_refusals(make, change, message) -> None:
    """The line is the same in this process and in a worker process."""
    for workers in (0, 1):
        with pytest.raises((ContractError, WorkerError), match=message) as caught:
            play(make(change, workers=workers))
        assert "\n" not in str(caught.value)


def test_resets_without_seeds_are_refused(make, tmp_path) -> None:
    """The API before PettingZoo 1.24 had a method for the seed."""
    (tmp_path / "toy_seedless.py").write_text(
        "import toy_odd\n\n\nclass Odd(toy_odd.Odd):\n    def reset(self):\n        return super().reset()\n"
    )
    with pytest.raises(ContractError, match="game 'toy_seedless:Odd': reset takes no seed; adapt it to PettingZoo"):
        make("", id="toy_seedless:Odd")


@pytest.mark.parametrize(
    ("change", "ended"),
    [("", [True, False]), ("truncates", [False, True]), ("clears", [False, True]), ("one by one", [False, True])],
)
def test_ends_of_turn_based_games(make, change, ended) -> None:
    """A game ends by termination, by truncation, without its agents, or agent by agent."""
    ticks = play(make(change, id="toy_turns:Turns"))
    assert ticks[-1]["ended"] == ended
    assert returns(ticks) == [2, -2]


@pytest.mark.parametrize("matches", [1, 2])
def test_rewards_in_last_only(make, matches) -> None:
    """They arrive on the next turn of an agent, or at the end."""
    env = make("last", id="toy_turns:Turns")
    for _ in range(matches):
        ticks = play(env)
        assert returns(ticks) == [2, -2]
    assert [tick["reward"] for tick in ticks] == [[0, 0], [0, -1], [1, 0], [0, -1], [1, 0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("old", "game 'toy_turns:Turns': it has no attribute 'terminations' after reset"),
        ("unknown", r"game 'toy_turns:Turns': it names the agent 'green'; expected .* \(red, blue\)"),
    ],
)
def test_refusals_of_turn_based_games(make, change, message) -> None:
    """They name the game and what is missing or unknown."""
    with pytest.raises(ContractError, match=message):
        play(make(change, id="toy_turns:Turns"))


@pytest.mark.parametrize("id", ["toy_odd:Odd", "toy_turns:Turns"])
@pytest.mark.parametrize("time_limit", ["truncates", "terminates"])
def test_time_limits_may_be_rules(make, id, time_limit) -> None:
    """Then they terminate the match, by max_ticks as by the game."""
    expected = [time_limit == "terminates", time_limit == "truncates"]
    assert play(make("", id=id, max_ticks=1, time_limit=time_limit))[-1]["ended"] == expected
    if id == "toy_turns:Turns":
        assert play(make("truncates", id=id, time_limit=time_limit))[-1]["ended"] == expected


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("toy_needs:Game", "id: cannot import 'toy_needs': no module named no_such_codec; install"),
        ("toy_late:make", "id: 'toy_late:make' cannot be imported: no module named no_such_codec; install it"),
        ("classic/conect_four_v3", "has no environment .*; did you mean 'classic/connect_four_v3'"),
    ],
)
def test_missing_packages_are_named(make, tmp_path, id, message) -> None:
    """Also where the game raises an error that names another package."""
    (tmp_path / "toy_needs.py").write_text("import no_such_codec\n")
    (tmp_path / "toy_late.py").write_text(
        "def make(change):\n"
        "    try:\n"
        "        import no_such_codec\n"
        "    except ImportError as error:\n"
        "        raise ImportError('pip install open_spiel') from error\n"
    )
    with pytest.raises(ConfigError, match=message):
        make("", id=id)


VARYING = '''
"""Three agents play six ticks; agent c enters late, or ends and returns."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Varying(ParallelEnv):
    metadata = {"name": "varying_v0"}

    def __init__(self, change):
        self.change, self.possible_agents = change, ["a", "b", "c"]

    def observation_space(self, agent):
        return spaces.Box(0, 1, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.now = 0
        self.agents = ["a", "b"] if self.change == "enters" else list(self.possible_agents)
        return {agent: np.zeros(1, np.float32) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.now += 1
        over = {agent: self.now == 6 or (agent == "c" and self.now == 2) for agent in self.agents}
        if self.change == "enters":
            over = dict.fromkeys(self.agents, self.now == 6)
        agents = [agent for agent in self.agents if not over[agent]]
        agents += ["c"] if self.now == 4 and "c" not in agents else []
        seen = dict.fromkeys([*self.agents, *agents])
        rewards = {agent: float(agent in self.agents) for agent in seen}
        self.agents = agents
        observations = {agent: np.full(1, self.now / 6, np.float32) for agent in seen}
        flags = {agent: over.get(agent, False) for agent in seen}
        return observations, rewards, flags, dict.fromkeys(seen, False), {agent: {} for agent in seen}
'''


def test_agents_may_enter_during_a_match(make, tmp_path) -> None:
    """They act from then on."""
    (tmp_path / "toy_varying.py").write_text(VARYING, encoding="utf-8")
    check_environment(lambda num_matches: make("enters", id="toy_varying:Varying", num_matches=num_matches), steps=20)


def test_agents_that_return_after_their_end_are_refused(make, tmp_path) -> None:
    """A seat ends once in a match."""
    (tmp_path / "toy_varying.py").write_text(VARYING, encoding="utf-8")
    message = "game 'toy_varying:Varying': agent 'c' is in env.agents again after its end; expected it to end once"
    env = make("returns", id="toy_varying:Varying")
    env.reset(np.zeros(1, np.uint64))
    for _ in range(3):
        env.step({"player": np.zeros((1, 3, 1), np.int64)})
    with pytest.raises(ContractError, match=message):
        env.step({"player": np.zeros((1, 3, 1), np.int64)})
