"""Whole runs with the server in one process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from ludus._config.run_config import load_config
from ludus._plugins.manager import load_plugins
from ludus._run.runner import train
from ludus.errors import ConfigError

ROOT = Path(__file__).parents[3]
SERVER = ("sampling.inference=server", "sampling.server.deadline_ms=2")


def test_equal_seeds_give_equal_single_process_runs(tmp_path):
    """The local runtime is used, with equal results bit for bit."""
    digests = []
    for name, settings in (("a", SERVER), ("b", SERVER), ("c", ("sampling.inference=lean",))):
        plugins, run_dir = load_plugins(), tmp_path / name
        overrides = (
            "run.minutes=0",
            "run.workers=0",
            "run.decisions=3000",
            "sampling.matches=16",
            "players.main_agent.freeze_every_decisions=1000",
            "players.main_agent.ppo.batch_decisions=512",
            "players.main_agent.mlp.hidden=[16]",
            "evaluation.final_matches=0",
            *settings,
        )
        config = load_config(ROOT / "examples" / "tictactoe.toml", overrides=overrides, plugins=plugins)
        train(config, plugins=plugins, run_dir=run_dir, print_line=lambda line: None)
        digests.append(sorted(path.name for path in (run_dir / "models").glob("*.safetensors")))
    assert len(digests[0]) >= 2
    assert digests[0] == digests[1] == digests[2]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs to have no GPU")
def test_a_missing_gpu_is_reported_before_anything_is_written(tmp_path):
    """With the option, for any number of processes."""
    plugins, run_dir = load_plugins(), tmp_path / "run"
    expected = "sampling.server.device: expected a device that torch computes on here (cpu), got 'cuda'"
    for workers in (0, 1):
        overrides = (*SERVER, "sampling.server.device=cuda", f"run.workers={workers}")
        config = load_config(ROOT / "examples" / "tictactoe.toml", overrides=overrides, plugins=plugins)
        with pytest.raises(ConfigError, match=re.escape(expected)):
            train(config, plugins=plugins, run_dir=run_dir, print_line=lambda line: None)
        assert not run_dir.exists()
