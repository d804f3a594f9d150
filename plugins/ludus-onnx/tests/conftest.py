"""Fixtures: a short run, and the folder that ``ludus export`` wrote for its newest model."""

from __future__ import annotations

import json
from pathlib import Path

import ludus
import pytest
from click.testing import CliRunner
from ludus_onnx.command import export

CONFIG = {
    "run": {"decisions": 600, "workers": 0},
    "environment": {"name": "tictactoe"},
    "sampling": {"matches": 8, "rows_per_fixture": 4},
    "evaluation": {"final_matches": 0},
    "players": {
        "main_agent": {
            "algorithm": "ppo",
            "network": "mlp",
            "matchmaker": "latest-self-play",
            "freeze_every_decisions": 250,
            "ppo": {"batch_decisions": 128},
            "mlp": {"hidden": [16]},
            "interfaces": ["frame-stack", "scale-observation", "flatten"],
            "frame-stack": {"frames": 2},
        }
    },
    "anchors": {"random": {"agent": "random"}},
}


class Exported:
    """A folder that ``ludus export`` wrote.

    Args:
        folder: The folder.
        output: What the command printed.
    """

    def __init__(self, folder: Path, output: str) -> None:
        self.folder, self.output = folder, output
        self.card = json.loads((folder / "card.json").read_text())
        self.golden = json.loads((folder / "golden.json").read_text())


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory):
    """Train two models and return the run folder."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    with ludus.train(CONFIG, run_dir=folder):
        return folder


@pytest.fixture(scope="session")
def exported(run_dir, tmp_path_factory):
    """Export the newest model with the default options."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    arguments = [str(run_dir), "main_agent@latest", "--onnx", str(folder), "--license", "CC-BY-4.0"]
    result = CliRunner().invoke(export, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return Exported(folder, result.output)
