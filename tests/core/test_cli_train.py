"""``ludus train`` and ``ludus resume``."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import pytest
from click.testing import CliRunner
from ludus._cli.train import resume, train
from ludus._plugins.loading import ALLOW_VARIABLE, BLOCK_VARIABLE
from ludus.errors import ConfigError, RunError


def invoke(command, *arguments, code=0):
    """Run a command and return its output."""
    result = CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_train_and_resume(toml, tmp_path):
    """The output holds the scores and the command that resumes; limits count from the first start."""
    folder = tmp_path / "r"
    text = invoke(train, toml(), "--run", folder, "--set", "run.decisions=800")
    assert "stopped: 800 decisions are learned" in text
    assert f"go on with: ludus resume {folder} --set run.decisions=MORE" in text
    assert "95 % interval" in text  # the report of ludus-terminal
    data = json.loads(invoke(resume, folder, "--set", "run.decisions=1600", "--json"))
    assert (data["run"], data["reason"]) == (str(folder), "1,600 decisions are learned")
    assert data["decisions"] >= 1600
    assert set(data) == {"run", "reason", "elapsed_s", "decisions", "matches", "players"}
    assert (folder / "run.toml").read_text().count("1600") == 1


def test_resume_with_more_minutes(toml, tmp_path):
    """The suggested option is that of the reached limit."""
    text = invoke(train, toml(run={"decisions": 0, "minutes": 0.01}), "--run", tmp_path / "r")
    assert f"go on with: ludus resume {tmp_path / 'r'} --minutes MORE" in text


def test_default_run_folder(toml, tmp_path, monkeypatch):
    """It has the name of the file."""
    monkeypatch.chdir(tmp_path)
    data = json.loads(invoke(train, toml("tiny.toml", run={"decisions": 64}), "--json"))
    assert data["run"] == "runs/tiny"
    assert (tmp_path / "runs" / "tiny" / "run.toml").exists()


def test_folder_named_like_an_option(toml, tmp_path, monkeypatch):
    """The report is printed, and the suggested command works."""
    monkeypatch.chdir(tmp_path)
    text = invoke(train, toml(run={"decisions": 64}), "--run", "-x")
    assert "95 % interval" in text
    (line,) = (line for line in text.splitlines() if line.startswith("go on with: ludus resume "))
    assert line.endswith(" ./-x --set run.decisions=MORE")
    invoke(resume, *shlex.split(line.replace("MORE", "128"))[5:])


def test_train_without_the_terminal_plugin(toml, tmp_path, monkeypatch):
    """The run is not displayed."""
    monkeypatch.setenv(ALLOW_VARIABLE, "ludus-dummy")
    text = invoke(train, toml(run={"decisions": 64}, league={"rating": "dummy-share"}), "--run", tmp_path / "r")
    assert "stopped: 64 decisions are learned\ngo on with: ludus resume" in text
    assert "interval" not in text


def test_misspelt_plugin_name_is_a_warning(toml, tmp_path, monkeypatch):
    """It is printed on standard error by both commands."""
    monkeypatch.setenv(BLOCK_VARIABLE, "dumy")
    folder = tmp_path / "r"
    for command, *rest in ((train, toml(run={"decisions": 64}), "--run", folder), (resume, folder)):
        result = CliRunner().invoke(command, [*map(str, rest), "--json"], catch_exceptions=False)
        [line] = result.stderr.splitlines()
        assert line.startswith("warning: 'dumy' is to be allowed or blocked, but no installed plugin has that name")
        assert json.loads(result.stdout)["reason"] == "64 decisions are learned"


def test_shortcuts_are_overrides(toml, tmp_path):
    """--minutes and --workers change the stored configuration."""
    folder = tmp_path / "r"
    data = json.loads(
        invoke(train, toml(run={"decisions": 0, "workers": 1}), "--run", folder, "--minutes", 0.01, "--workers", 0,
               "--json")
    )  # fmt: skip
    assert data["reason"] == "0.01 minutes are over"
    assert 0.5 <= data["elapsed_s"] < 10


def test_mistakes_are_reported_before_the_folder_is_created(toml, tmp_path):
    """An invalid file leaves no folder."""
    with pytest.raises(ConfigError, match=r"run\.decision"):
        invoke(train, toml(), "--run", tmp_path / "r", "--set", "run.decision=1")
    with pytest.raises(ConfigError, match=r"players\.\w+\.role"):
        invoke(train, toml(), "--run", tmp_path / "r", "--set", "players.main.role=nobody")
    with pytest.raises(ConfigError, match=r"^--set run\.device: expected a device that torch computes on here \(cpu"):
        invoke(train, toml(), "--run", tmp_path / "r", "--set", "run.device=gpu")
    output = invoke(train, toml(), "--run", tmp_path / "r", "--minutes", -1, code=2)
    assert "Invalid value for '--minutes'" in output
    with pytest.raises(RunError, match="holds no run"):
        invoke(resume, tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_resume_with_a_file(toml, tmp_path, monkeypatch):
    """The message suggests `train`, and names the folder of the run if it exists."""
    monkeypatch.chdir(tmp_path)
    toml("tiny.toml", run={"decisions": 64})
    start = "tiny.toml is a file: `ludus train tiny.toml` starts a run of it, "
    with pytest.raises(RunError, match=f"^{start}`ludus resume DIR` goes on with the one in a folder$"):
        invoke(resume, "tiny.toml")
    invoke(train, "tiny.toml", "--json")
    with pytest.raises(RunError, match=f"^{start}`ludus resume runs/tiny` goes on with"):
        invoke(resume, "tiny.toml")
    with pytest.raises(RunError, match="`ludus resume runs/tiny` goes on with"):
        invoke(resume, "runs/tiny/run.toml")


def test_errors_in_a_shell(toml, tmp_path):
    """There is no traceback."""
    arguments = [sys.executable, "-m", "ludus", "resume", str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "holds no run (no run.toml in it): start one with" in done.stderr
    assert "Traceback" not in done.stderr


def test_run_in_a_shell(toml, tmp_path):
    """Every worker has its own process."""
    path = toml(run={"decisions": 300, "workers": 1}, evaluation={"final_matches": 100})
    arguments = [sys.executable, "-m", "ludus", "train", str(path), "--run", str(tmp_path / "r"), "--json"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["reason"] == "300 decisions are learned"
    assert data["players"]["main"]["anchors"]["random"]["score"] > 0.2


def test_coordinator_uses_one_blas_thread():
    """Further threads would wait on the cores of workers; a variable of the user is kept."""
    code = "import os, sys, ludus._cli.train; print(os.environ['OPENBLAS_NUM_THREADS'], 'numpy' in sys.modules)"
    free = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    for given, observed in (({}, "1 False"), ({"OPENBLAS_NUM_THREADS": "3"}, "3 False")):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=free | given, check=True
        )
        assert done.stdout.strip() == observed
