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


@pytest.mark.parametrize(("argument", "status"), [("--help", 0), ("--no-such-option", 2)])
@pytest.mark.parametrize("script", SCRIPTS, ids=[str(path.relative_to(ROOT)) for path in SCRIPTS])
def test_scripts_tell_how_they_are_called(monkeypatch, capsys, script, argument, status):
    """They neither measure nor write for somebody who asks, or who misspells an option."""
    if script.name in LIBRARIES:
        pytest.importorskip(LIBRARIES[script.name])
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # some set those that are not
        monkeypatch.setenv(name, "1")
    monkeypatch.syspath_prepend(script.parent)
    monkeypatch.setattr(sys, "argv", [script.name, argument])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(script), run_name="__main__")
    assert stopped.value.code == status
    assert f"usage: {script.name}" in "".join(capsys.readouterr())
