"""Agents of the user's own modules play where the module is trusted."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from ludus.__main__ import main
from ludus.errors import ConfigError
from ludus_agents.config import PythonConfig
from ludus_agents.python import make_python
from ludus_dummy.config import CountConfig
from ludus_dummy.count import Count

MODULE = '''
"""Bots of a user."""

import numpy as np


class Adder:
    def __init__(self, *, spec, role, number=1):
        self.number = number

    def act(self, observation, *, action_mask, seat_ids, rng):
        wanted = np.full((len(seat_ids), 1), self.number - 1, np.int64)
        return np.minimum(wanted, action_mask.sum(axis=1, keepdims=True) - 1)

    def reset(self, seat_ids):
        pass


class Idle:
    def act(self, observation, **more):
        pass


number = 3
'''
RUN = """
[run]
seed = 3
workers = 0
decisions = 200
[environment]
name = "dummy-count"
[sampling]
matches = 4
rows_per_fixture = 4
[players.main]
algorithm = "dummy-gradient"
network = "dummy-linear"
matchmaker = "against-anchors"
[anchors.adder]
agent = "python"
python.path = "toy_agents:Adder"
python.options = { number = 2 }
[evaluation]
enabled = false
final_matches = 8
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with the module and a configuration; the module can be found but is not trusted."""
    Path(tmp_path, "toy_agents.py").write_text(MODULE, encoding="utf-8")
    Path(tmp_path, "run.toml").write_text(RUN, encoding="utf-8")
    monkeypatch.setattr("sys.path", [str(tmp_path), *__import__("sys").path])
    monkeypatch.delitem(__import__("sys").modules, "toy_agents", raising=False)
    importlib.invalidate_caches()
    return tmp_path


def train(folder):
    """Return the exit status of a run."""
    return main(["train", str(folder / "run.toml"), "--run", str(folder / "run")])


def test_a_trusted_module_plays(folder, capsys, monkeypatch):
    """The anchor is trained against and plays the final matches."""
    monkeypatch.setenv("LUDUS_TRUST_MODULES", "toy_agents")
    assert train(folder) == 0
    assert "final evaluation: main@1 against adder" in capsys.readouterr().out
    assert main(["check", str(folder / "run.toml")]) == 0
    assert "anchor adder: agent python plays player" in capsys.readouterr().out


def test_an_untrusted_module_is_refused_before_it_is_imported(folder, capsys):
    """A run file is data."""
    Path(folder, "toy_agents.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    assert train(folder) != 0
    error = capsys.readouterr().err
    assert "anchors.adder.python.path" in error
    assert "the module 'toy_agents' is not trusted on this machine" in error
    assert "imported" not in error


def test_options_are_arguments_of_the_class(folder):
    """Beside the spec and the role."""
    spec = Count(CountConfig(), num_matches=1).spec
    agent = make_python(PythonConfig(path="toy_agents:Adder", options={"number": 3}), spec=spec, role="player")
    actions = agent.act({}, action_mask=np.ones((2, 3), bool), seat_ids=np.arange(2), rng=np.random.default_rng(0))
    assert actions.tolist() == [[2], [2]]


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("toy_agents:Adder", {"numbr": 2}, "cannot be made with spec, role and .*numbr"),
        ("toy_agents:Idle", {}, "got a class without reset"),
        ("toy_agents:number", {}, "got int"),
        ("toy_agents:Missing", {}, "got nothing of that name"),
        ("no_such_module:Adder", {}, "cannot import 'no_such_module'"),
    ],
)
def test_what_is_no_agent_is_refused(folder, path, options, message):
    """One line names the path and what is wrong."""
    spec = Count(CountConfig(), num_matches=1).spec
    with pytest.raises(ConfigError, match=f"agent python: path: .*{message}"):
        make_python(PythonConfig(path=path, options=options), spec=spec, role="player")


@pytest.mark.parametrize("path", ["toy_agents", "toy_agents:", ":Adder", "toy agents:Adder"])
def test_malformed_paths_are_refused(path):
    """The option checks its form."""
    with pytest.raises(ValueError, match="module:Class"):
        PythonConfig(path=path)
