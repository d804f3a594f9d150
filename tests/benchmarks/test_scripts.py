"""Command lines of the scripts in `benchmarks/`, `docs/` and `examples/`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "benchmarks/peers", "docs", "examples/exploiters", "examples/minimax_exploiter")
SCRIPTS = [
    path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.py")) if "__main__" in path.read_text("utf-8")
]
LIBRARIES = {
    "peer_pufferlib.py": "pufferlib",
    "peer_sample_factory.py": "sample_factory",
    "peer_sb3.py": "stable_baselines3",
}


@pytest.fixture
def call(monkeypatch, capsys):
    """Return a function that runs a script up to its argument parser and returns exit status and output."""

    def run(script, *arguments):
        if script.name in LIBRARIES:
            pytest.importorskip(LIBRARIES[script.name])
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            monkeypatch.setenv(name, "1")
        monkeypatch.syspath_prepend(script.parent)
        monkeypatch.setattr(sys, "argv", [script.name, *arguments])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(script), run_name="__main__")
        return stopped.value.code, "".join(capsys.readouterr())

    return run


@pytest.mark.parametrize(("argument", "status"), [("--help", 0), ("--no-such-option", 2)])
@pytest.mark.parametrize("script", SCRIPTS, ids=[str(path.relative_to(ROOT)) for path in SCRIPTS])
def test_scripts_print_their_usage(call, script, argument, status):
    """For --help and for unknown options, without measuring anything."""
    code, output = call(script, argument)
    assert code == status
    assert f"usage: {script.name}" in output


def test_peers_that_are_not_installed_are_a_usage_error(call, tmp_path):
    """The message names the command that installs them; ludus runs in the current interpreter."""
    venvs = tmp_path / "venvs"
    code, output = call(ROOT / "benchmarks/peers/run.py", "--venvs", str(venvs), "--only", "ludus", "--only", "sb3")
    assert code == 2
    assert f"not installed: {venvs}/sb3/bin/python; run install.py --venvs {venvs}" in output
