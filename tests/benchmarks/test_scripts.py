"""What scripts say before they do anything."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "benchmarks/peers", "docs", "examples/duel_exploiters", "examples/minimax_exploiter")
SCRIPTS = [
    path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.py")) if "__main__" in path.read_text("utf-8")
]
LIBRARIES = {
    "peer_pufferlib.py": "pufferlib",
    "peer_sample_factory.py": "sample_factory",
    "peer_sb3.py": "stable_baselines3",
    "make_demo_picture.py": "matplotlib",
    "scaling.py": "matplotlib",
}


@pytest.fixture
def call(monkeypatch, capsys):
    """Return a function that runs a script which stops at its arguments, and returns its exit status and its words."""

    def run(script, *arguments):
        if script.name in LIBRARIES:
            pytest.importorskip(LIBRARIES[script.name])
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # some set those that are not
            monkeypatch.setenv(name, "1")
        monkeypatch.syspath_prepend(script.parent)
        monkeypatch.setattr(sys, "argv", [script.name, *arguments])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(script), run_name="__main__")
        return stopped.value.code, "".join(capsys.readouterr())

    return run


@pytest.mark.parametrize(("argument", "status"), [("--help", 0), ("--no-such-option", 2)])
@pytest.mark.parametrize("script", SCRIPTS, ids=[str(path.relative_to(ROOT)) for path in SCRIPTS])
def test_scripts_tell_how_they_are_called(call, script, argument, status):
    """They neither measure nor write for somebody who asks, or who misspells an option."""
    code, told = call(script, argument)
    assert code == status
    assert f"usage: {script.name}" in told


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("ablations.py", ["--matches", "0"]),
        ("adapters.py", ["--rounds", "0"]),
        ("hosts.py", ["--repeats", "0"]),
        ("inference_server.py", ["--clients", "8", "0"]),
        ("league.py", ["--seeds", "-1"]),
        ("league_ablations.py", ["dis", "--points", "0"]),
        ("league_samplers.py", ["--samplers", "0"]),
        ("learners.py", ["--rounds", "0"]),
        ("networks.py", ["0"]),
        ("opponents.py", ["0"]),
        ("processes.py", ["--widths", "0"]),
        ("store.py", ["--models", "0"]),
        ("weights.py", ["--samplers", "-1"]),
        ("weights.py", ["--samplers", "many"]),
    ],
)
def test_a_count_of_nothing_is_wrong_usage(call, script, arguments):
    """Before anything is measured that there would be no figure of."""
    code, told = call(ROOT / "benchmarks" / script, *arguments)
    assert code == 2
    assert f"expected a whole number ≥ 1, got {arguments[-1]}" in told


@pytest.mark.parametrize("script", ["hosts.py", "processes.py"])
def test_a_run_that_cannot_be_measured_is_told_at_once(call, script, tmp_path):
    """Before the first process is started."""
    code, told = call(ROOT / "benchmarks" / script, str(tmp_path / "none.toml"))
    assert code == 2
    assert "none.toml: no such file" in told


def test_peers_that_are_not_installed_are_told_at_once(call, tmp_path):
    """And how to get them; ludus runs in the interpreter that is there."""
    venvs = tmp_path / "venvs"
    code, told = call(ROOT / "benchmarks/peers/run.py", "--venvs", str(venvs), "--only", "ludus", "--only", "sb3")
    assert code == 2
    assert f"not there: {venvs}/sb3/bin/python; install.py --venvs {venvs} makes them" in told
