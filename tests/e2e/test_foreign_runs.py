"""Commands on the folder of a run that another person has made: nothing in it is executed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ludus.trust import PATH_VARIABLE

pytest.importorskip("ludus_pettingzoo")

GAME = '''
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Odds(ParallelEnv):
    """The higher number wins."""

    metadata = {"name": "odds_v0"}
    possible_agents = ["a", "b"]
    observation_space = lambda self, agent: spaces.Box(0, 1, (1,), np.float32)
    action_space = lambda self, agent: spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        return {agent: np.zeros(1, np.float32) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        played, self.agents = self.agents, []
        best = max(actions.values())
        rewards = {agent: float(actions[agent] == best) for agent in played}
        ended, cut = dict.fromkeys(played, True), dict.fromkeys(played, False)
        return {agent: np.ones(1, np.float32) for agent in played}, rewards, ended, cut, {agent: {} for agent in played}
'''
RUN = """
[run]
decisions = 600
workers = 1
[environment]
name = "pettingzoo"
pettingzoo.id = "foreign_odds:Odds"
[sampling]
matches = 4
rows_per_fixture = 4
[players.main]
algorithm = "ppo"
network = "mlp"
matchmaker = "latest-self-play"
mlp.hidden = [8]
ppo.batch_decisions = 200
[anchors.random]
agent = "random"
[evaluation]
final_matches = 0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a run of a game of its own, trained by a person who trusts the game."""
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "foreign_odds.py").write_text(GAME)
    (folder / "run.toml").write_text(RUN)
    done = ludus(folder, "train", "run.toml", "--run", "run", path=folder)
    assert done.returncode == 0, done.stderr
    return folder


def ludus(folder, *arguments, path="", trusted_path=None):
    """Run a command in a folder that is not searched for modules, as by the console script.

    Args:
        folder: Current folder of the command.
        arguments: Its arguments.
        path: Further folder in which modules are found.
        trusted_path: Folder whose modules a run file may name; None: that folder.
    """
    own = [entry for entry in sys.path if entry and Path(entry).is_dir()]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [*own, str(path)])),
        PATH_VARIABLE: str(path if trusted_path is None else trusted_path),
    }
    program = "import sys; from ludus.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-P", "-c", program, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


COMMANDS = [
    ("check", "run.toml"),
    ("check", "run/run.toml"),
    ("train", "run.toml", "--run", "again"),
    ("resume", "run", "--set", "run.decisions=900"),
    ("eval", "run", "main@latest", "random", "--matches", "2"),
    ("watch", "run"),
    ("play", "run"),
    ("league", "run"),
    ("league", "verify", "run"),
    ("report", "run"),
    ("bench", "selfplay", "run.toml"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "module"),
    [*((command, "foreign_odds") for command in COMMANDS), *((command, "subprocess") for command in COMMANDS[:4])],
)
def test_commands_execute_nothing_in_the_folder(folder, tmp_path, command, module):
    """Neither by a module in the folder, nor by one of Python, nor by modules that shadow those of ludus."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    code = f"open({str(tmp_path / 'executed')!r}, 'w').close()\n"
    for name in ("foreign_odds", "torch", "zmq", "sitecustomize", "ludus_local"):
        (copy / f"{name}.py").write_text(code)
    for file in (copy / "run.toml", copy / "run" / "run.toml"):
        text = file.read_text().replace("foreign_odds:Odds", f"{module}:getoutput")
        file.write_text(text + f'\n[environment.pettingzoo.options]\ncmd = "touch {tmp_path}/executed"\n')
    done = ludus(copy, *command)
    assert not (tmp_path / "executed").exists()
    assert "Traceback" not in done.stderr
    if command[0] not in ("league", "report"):  # these read the store only
        assert done.returncode != 0
        assert module in done.stdout + done.stderr


@pytest.mark.slow
def test_trust_by_name_reaches_worker_processes(folder, tmp_path):
    """A module that is found outside of the trusted folders."""
    command = ("train", "run.toml", "--run", str(tmp_path / "run"))
    refused = ludus(folder, *command, path=folder, trusted_path="/nowhere")
    assert refused.returncode == 1
    assert "add --trust-module foreign_odds" in refused.stderr
    done = ludus(folder, *command, "--trust-module", "foreign_odds", path=folder, trusted_path="/nowhere")
    assert done.returncode == 0, done.stderr
