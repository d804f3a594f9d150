"""Whole runs with the server: in one process, and with all of them, one of which is killed."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
import torch
from chaos.league import SETTINGS, League
from chaos.processes import is_alive, wait
from ludus._config.run_config import load_config
from ludus._plugins.manager import load_plugins
from ludus._run.metric_file import read_metrics
from ludus._run.runner import train
from ludus.errors import ConfigError

ROOT = Path(__file__).parents[3]
SERVER = ("sampling.inference=server", "sampling.server.deadline_ms=2")


@pytest.fixture
def league(tmp_path):
    """Return a Tic-Tac-Toe league in processes of its own that uses the server; it is ended with the test."""
    made = League(tmp_path / "run", settings=(*SETTINGS, *SERVER), workers=2)
    made.train()
    yield made
    made.close()


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


@pytest.mark.slow
def test_a_killed_server_loses_no_match(league):
    """It is restarted, samplers repeat their requests, and no process is left."""
    league.wait_for(lambda state: len(state.models) >= 2 and state.rated > 0)
    assert league.pids.keys() >= {"service-server", "sampler-0", "sampler-1", "evaluator-0"}
    samplers = {name: pid for name, pid in league.pids.items() if name.startswith("sampler")}
    for victim in ("service-server", "sampler-1"):
        before, killed = league.state, league.pids[victim]
        os.kill(killed, signal.SIGKILL)
        league.wait_for(lambda state, b=before: state.has_passed(b))
        wait(lambda v=victim, k=killed: league.pids.get(v, k) != k)
        league.wait_for(lambda state, b=league.state: state.has_passed(b))
    assert league.output.count("service-server: was killed by signal 9 — restarted") == 1
    assert league.pids["sampler-0"] == samplers["sampler-0"]

    def highest(name):
        metrics = read_metrics(league.folder / "metrics.jsonl")
        return max((m.value for m in metrics if m.name == f"service-server/{name}"), default=0.0)

    # a new server reports metrics after one second of requests
    wait(lambda: highest("rows_per_s") > 100 and highest("batch_requests") > 1)
    pids = league.pids
    os.kill(pids["coordinator"], signal.SIGTERM)
    assert league.process.wait(40) == 130
    assert "did not stop" not in league.output
    assert not any(map(is_alive, pids.values()))
    assert league.problems() == []
    assert highest("dropped") == 0.0
    assert list(Path("/dev/shm").glob(f"ludus-run-{pids['coordinator']}-*")) == []
