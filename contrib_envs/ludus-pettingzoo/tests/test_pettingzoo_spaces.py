"""Games with all kinds of spaces are played, checked and learned from; each action arrives in its own space."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest
from ludus.__main__ import main
from ludus.errors import ConfigError
from ludus.testing import check_environment
from ludus_copies.testing import PAIRS
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment
from ludus_pettingzoo.export import to_parallel

GAME = '''
"""Two agents see samples of one space and act in another; actions outside of that space raise an error."""

import copy

import numpy as np
from gymnasium import spaces
from ludus_copies.testing import ACTIONS, OBSERVATIONS
from pettingzoo import ParallelEnv
from pettingzoo.utils import parallel_to_aec


class Kinds(ParallelEnv):
    metadata = {"name": "kinds_v0", "is_parallelizable": True}
    render_mode = None

    def __init__(self, observation="nested", action="start", masked=False):
        self.possible_agents = ["red", "blue"]
        self.observed = copy.deepcopy(OBSERVATIONS[observation])  # with a generator of its own
        self.action, self.masked = ACTIONS[action], masked

    def observation_space(self, agent):
        return self.observed

    def action_space(self, agent):
        return self.action

    def answers(self):
        # choice 1 of the first label is masked
        mask = {"move": [1, 0, 1], "aim": None} if isinstance(self.action, spaces.Dict) else ([1, 0, 1], None)
        info = {"action_mask": mask} if self.masked else {}
        return {agent: self.observed.sample() for agent in self.agents}, dict.fromkeys(self.agents, info)

    def reset(self, seed=None, options=None):
        self.observed.seed(seed)
        self.agents, self.now = list(self.possible_agents), 0
        return self.answers()

    def step(self, actions):
        for action in actions.values():
            assert self.action.contains(action), f"{action} is not in {self.action}"
            if self.masked:
                assert (action["move"] if isinstance(action, dict) else action[0]) != 1, "masked"
        self.now += 1
        seats, over = self.agents, self.now == 3
        observations, infos = self.answers()
        self.agents = [] if over else seats
        rewards = {agent: 1.0 if agent == "red" else -1.0 for agent in seats}
        return observations, rewards, dict.fromkeys(seats, over), dict.fromkeys(seats, False), infos


def env(**options):
    return parallel_to_aec(Kinds(**options))
'''
RUN = """
run.decisions = 1024
[environment]
name = "pettingzoo"
[environment.pettingzoo]
id = "toy_kinds:Kinds"
options = {{ observation = "units", action = "{action}", masked = true }}
max_entities = {{ units = 5 }}
[sampling]
matches = 8
[players.main]
algorithm = "{algorithm}"
network = "aet"
matchmaker = "latest-self-play"
[players.main.{algorithm}]
batch_decisions = 256
[players.main.aet]
encoder = [16]
torso = [16]
heads = [16]
[anchors.random]
agent = "random"
[evaluation]
final_matches = 20
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write the module of the game where Python finds it."""
    (tmp_path / "toy_kinds.py").write_text(GAME, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LUDUS_TRUST_MODULES", "toy_kinds")
    return tmp_path


def maker(id="toy_kinds:Kinds", **options):
    """Return a function that makes copies of the game."""

    def make(num_matches=1):
        return make_environment(PettingZooConfig(id=id, options=options), num_matches=num_matches)

    return make


@pytest.mark.parametrize(("observation", "action"), PAIRS)
@pytest.mark.usefixtures("folder")
def test_the_contract_is_kept(observation, action) -> None:
    """Ticks, seeds, matches and random actions pass all checks; illegal actions reach no game."""
    check_environment(maker(observation=observation, action=action), steps=20)


@pytest.mark.parametrize("action", ["dict", "nested", "hybrid", "tuple"])
@pytest.mark.usefixtures("folder")
def test_exported_games_take_plain_actions(action) -> None:
    """Samples of the exported space arrive in the space of the game, as the game asserts."""
    env = to_parallel(maker(action=action)())
    for seed in range(5):
        env.reset(seed=seed)
        while env.agents:
            env.step({agent: env.action_space(agent).sample() for agent in env.agents})


def test_exported_actions_have_labels_first() -> None:
    """Then the real numbers of all parts, also of nested ones."""
    config = pytest.importorskip("ludus_probes.config").AimConfig()
    env = to_parallel(importlib.import_module("ludus_probes.aim").make_aim(config, num_matches=1))
    (observation,) = env.reset(seed=0)[0].values()
    action = {"target": np.int64(observation["sought"].argmax()), "place": observation["place"]}
    (agent,) = env.agents
    assert env.action_space(agent).contains(action)
    assert env.step({agent: action})[1] == {agent: 1.0}


@pytest.mark.parametrize("action", ["hybrid", "nested"])
@pytest.mark.usefixtures("folder")
def test_turns_take_the_same_actions(action) -> None:
    """The AEC interface reads and writes the same structures."""
    check_environment(maker(id="toy_kinds:env", observation="units", action=action), steps=20)


@pytest.mark.usefixtures("folder")
def test_the_spec_has_plain_spaces() -> None:
    """Entities and their presence, labels and real numbers; the notes describe the entities."""
    env = make_environment(
        PettingZooConfig(
            id="toy_kinds:Kinds", options={"observation": "units", "action": "nested"}, max_entities={"units": 5}
        ),
        num_matches=1,
    )
    (role,) = env.spec.roles
    assert {name: leaf.shape for name, leaf in role.observation_space.items()} == {
        "own": (2,),
        "units": (5, 5),
        "units_present": (5,),
    }
    assert str(role.action_space) == (
        "Tuple(MultiDiscrete([3 2 2 2 3]), Box(-1.0, 1.0, (4,), float32), Box(0.0, 10.0, (1,), float32))"
    )
    assert env.spec.notes == ("entities units: the first 5 of a Sequence, 5 numbers each; units_present marks them",)


@pytest.mark.usefixtures("folder")
def test_numbers_of_unknown_entities_are_refused() -> None:
    """The message lists the leaves that are Sequences."""
    config = PettingZooConfig(id="toy_kinds:Kinds", options={"observation": "units"}, max_entities={"unit": 5})
    with pytest.raises(ConfigError, match=r"max_entities: expected names of Sequence leaves \(units\), got 'unit'"):
        make_environment(config, num_matches=1)


@pytest.mark.parametrize(("algorithm", "action"), [("ppo", "dict"), ("rnd-ppo", "hybrid"), ("minimax-ppo", "hybrid")])
def test_a_run_learns_from_entities_with_masked_hybrid_actions(folder, capsys, algorithm, action) -> None:
    """The game refuses masked choices and actions outside of its space, which no part of the run sends."""
    for package in ("ludus_ppo", "ludus_rnd_ppo", "ludus_minimax", "ludus_networks", "ludus_terminal"):
        pytest.importorskip(package)
    (folder / "run.toml").write_text(RUN.format(algorithm=algorithm, action=action), encoding="utf-8")
    run = str(folder / "run")
    assert main(["train", str(folder / "run.toml"), "--run", run, "--workers", "0", "--json"]) == 0
    capsys.readouterr()
    assert main(["eval", run, "main@latest", "random", "--matches", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_algorithms_of_one_label_refuse_hybrid_actions(folder, capsys) -> None:
    """In one line of `ludus check`."""
    for package in ("ludus_dqn", "ludus_sac", "ludus_networks"):
        pytest.importorskip(package)
    for algorithm in ("dqn", "sac"):
        text = RUN.replace("batch_decisions = 256", "").format(algorithm=algorithm, action="dict")
        (folder / "run.toml").write_text(text, encoding="utf-8")
        assert main(["check", str(folder / "run.toml")]) != 0
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("fail")]
        assert len(lines) == 1
        assert f"{algorithm}: expected a Discrete" in lines[0]
