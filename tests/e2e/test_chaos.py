"""Faults at random moments of real runs: nothing committed is lost, and what is lost is found."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from chaos.campaign import strike
from chaos.effect import Effect
from chaos.faults import Fault
from chaos.processes import send_signal
from chaos.target import COORDINATOR, Target

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("coordinator", 4), ("everything", 3)])
def test_a_run_survives_faults_that_a_seed_draws(kind, count):
    """The short form of ``make chaos``."""
    command = [sys.executable, "-m", "chaos", str(count), "--seed", "1", "--kind", kind, "--stop-s", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=BENCHMARKS, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"| all | {kind} | {count} | 0 | 0 | 0 | 0 |" in done.stdout
    assert "verify and recount: agree" in done.stdout


def delete_matches(target, _kind, _rng):
    """Kill the coordinator and delete every second row of the match log."""
    send_signal([target.league.process.pid], signal.SIGKILL)
    target.league.process.wait()
    target.league.command.orphans()
    with sqlite3.connect(target.league.folder / "league.sqlite") as database:
        database.execute("DROP TRIGGER matches_stay")
        database.execute("DELETE FROM matches WHERE fixture % 2 = 0")
        database.execute("UPDATE totals SET matches = matches / 2")
    database.close()
    return Effect(summary="matches deleted")


@pytest.mark.slow
def test_a_loss_is_found(tmp_path):
    """By the counts before and after, by the verification, and by the recount."""
    target = Target(tmp_path / "target", with_host=False)
    try:
        target.start()
        fault = Fault(name="deletion", kinds=(COORDINATOR,), start=delete_matches)
        instant = strike(target, fault, COORDINATOR, random.Random(0))
    finally:
        target.close()
    assert not instant.is_clean
    assert instant.lost_matches > 0
    assert any("checksum" in problem for problem in instant.problems)
    assert any("payoff of" in problem for problem in instant.problems)
