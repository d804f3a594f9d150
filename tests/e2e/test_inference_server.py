"""Whole runs with the inference server, whose processes are killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from chaos.processes import is_alive, wait
from ludus._run.metric_file import read_metrics


@pytest.mark.slow
def test_a_killed_server_loses_no_match(league):
    """It is restarted, samplers repeat their requests, and no process is left."""
    run = league("sampling.inference=server", "sampling.server.deadline_ms=2", workers=2)
    run.train()
    run.wait_for(lambda state: len(state.models) >= 2 and state.rated > 0)
    assert run.pids.keys() >= {"service-server", "sampler-0", "sampler-1", "evaluator-0"}
    samplers = {name: pid for name, pid in run.pids.items() if name.startswith("sampler")}
    for victim in ("service-server", "sampler-1"):
        before, killed = run.state, run.pids[victim]
        os.kill(killed, signal.SIGKILL)
        run.wait_for(lambda state, b=before: state.has_passed(b))
        wait(lambda v=victim, k=killed: run.pids.get(v, k) != k)
        run.wait_for(lambda state, b=run.state: state.has_passed(b))
    assert run.output.count("service-server: was killed by signal 9 — restarted") == 1
    assert run.pids["sampler-0"] == samplers["sampler-0"]

    def highest(name):
        metrics = read_metrics(run.folder / "metrics.jsonl")
        return max((m.value for m in metrics if m.name == f"service-server/{name}"), default=0.0)

    # a new server reports metrics after one second of requests
    wait(lambda: highest("rows_per_s") > 100 and highest("batch_requests") > 1)
    pids = run.pids
    os.kill(pids["coordinator"], signal.SIGTERM)
    assert run.process.wait(40) == 130
    assert "did not stop" not in run.output
    assert not any(map(is_alive, pids.values()))
    assert run.problems() == []
    assert highest("dropped") == 0.0
    assert list(Path("/dev/shm").glob(f"ludus-run-{pids['coordinator']}-*")) == []
