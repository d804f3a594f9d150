"""Fixtures: a short run, the folder that ``ludus export`` wrote for its newest model, and a recurrent network."""

from __future__ import annotations

import json
from pathlib import Path

import ludus
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from gymnasium import spaces
from ludus.network import NetworkRequest
from ludus_networks.config import HoKConfig
from ludus_networks.presets import make_hok
from ludus_onnx.command import export
from ludus_onnx.conversion import convert
from ludus_onnx.flat_module import NETWORK_GROUPS, make_exportable

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


def make_recurrent():
    """Return the network of Honor of Kings in small, with rows of units, an LSTM and a label that chooses units."""
    torch.manual_seed(0)
    units = spaces.Box(-1, 1, (3, 4), np.float32)
    request = NetworkRequest(
        observation={"units": units, "units_present": spaces.MultiBinary(3), "kind": spaces.Discrete(3)},
        heads={"policy": 5},
        critic_heads={"value": 1},
        labels={"policy": (2, 3)},
    )
    options = HoKConfig(target=1, targets=("units",), core="lstm", core_size=8, units=(8,), vector=(8,), torso=(8,))
    network = make_hok(options, request=request).eval()
    rng = np.random.default_rng(0)
    rows = {
        "observation/units": rng.random((20, 3, 4), np.float32),
        "observation/units_present": rng.integers(0, 2, (20, 3)).astype(np.int8),
        "observation/kind": rng.integers(0, 3, 20),
        **{f"state/{name}": rng.random((20, 8), np.float32) for name in network.initial_state(1)},
    }
    return make_exportable(network, NETWORK_GROUPS, rows)


@pytest.fixture(scope="session")
def recurrent():
    """Return a recurrent network that reads units, with rows."""
    return make_recurrent()


@pytest.fixture(scope="session")
def converted(recurrent):
    """Write that network in an opset that dynamo does not write, so that both exporters are tried."""
    return convert(recurrent, opset=15)
