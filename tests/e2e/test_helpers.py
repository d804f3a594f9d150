"""Learners of several processes: a run loses no committed work when its helpers die."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest
from chaos.processes import is_alive

HELPER = "helper-1-main_agent"


def helpers(run):
    """Return how many helpers the learner reported last; -1 without a report."""
    path = run.folder / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()[-1:] if path.exists() else []
    return int(next((json.loads(line)["m"].get("learner/main_agent/helpers", -1) for line in lines), -1))


def is_training_together(run):
    """Return a condition: models and ratings exist, and the helper takes part."""
    return lambda state: len(state.models) >= 2 and state.rated > 0 and helpers(run) == 1


@pytest.mark.slow
def test_killed_learners_and_helpers_form_a_group_again(check_kill, check_stop, league):
    """A learner goes on without its helper; no committed work is lost, and no process is left."""
    run = league("players.main_agent.learner_processes=2")
    run.train()
    run.wait_for(is_training_together(run))
    learner = run.pids["learner-main_agent"]
    for name in (HELPER, "learner-main_agent", "coordinator"):
        check_kill(run, name)
        run.wait_for(is_training_together(run))
        assert (run.pids["learner-main_agent"] == learner) == (name == HELPER)
        learner = run.pids["learner-main_agent"]
    check_stop(run, signal.SIGINT, processes=5)
    assert "did not stop" not in run.output


@pytest.mark.slow
def test_a_learner_goes_on_without_a_helper_that_hangs(league):
    """It computes the update again without it; only the helper is replaced."""
    run = league("players.main_agent.learner_processes=2", "run.stall_s=8")
    run.train()
    run.wait_for(is_training_together(run))
    pids, before = run.pids, run.state
    os.kill(pids[HELPER], signal.SIGSTOP)
    run.wait_for(lambda state: state.has_passed(before) and run.pids.get(HELPER, pids[HELPER]) != pids[HELPER])
    run.wait_for(is_training_together(run))
    assert {name: pid for name, pid in run.pids.items() if name != HELPER} == {
        name: pid for name, pid in pids.items() if name != HELPER
    }
    assert not is_alive(pids[HELPER])
    assert re.search(rf"^{HELPER}: was silent for \d+ s and was killed — restarted; see ", run.output, re.MULTILINE)
    assert "this update is computed without helpers" in (run.folder / "logs" / "learner-main_agent.log").read_text(
        encoding="utf-8"
    )


def test_several_processes_are_rejected_for_other_algorithms(ludus, toml, tmp_path):
    """By one line, before anything is written."""
    path = toml(run={"workers": 1})
    done = ludus("train", path, "--run", tmp_path / "run", "--set", "players.main.learner_processes=2")
    assert done.status == 1
    assert len(done.errors) == 1
    assert "players.main.learner_processes: expected 1, as 'dummy-gradient' learns in one process" in done.errors[0]
    assert not (tmp_path / "run").exists()
