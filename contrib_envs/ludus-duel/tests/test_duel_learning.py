"""A player learns the duel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "duel.toml"


@pytest.mark.slow
def test_ppo_beats_the_random_fighter(tmp_path):
    """With 200,000 decisions of the example by self-play, in one process; untrained it gets 0.7 of the points."""
    pytest.importorskip("ludus_ppo")
    settings = [
        "run.minutes=0",
        "run.decisions=200000",
        "evaluation.final_matches=200",
        "players.main_agent.matchmaker=latest-self-play",
        "players.main_agent.against-anchors={}",
    ]
    options = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, "-m", "ludus", "train", str(EXAMPLE), "--run", str(tmp_path / "run"), "--workers", "0"]
    completed = subprocess.run([*command, "--json", *options], capture_output=True, text=True, check=True, timeout=600)
    record = json.loads(completed.stdout)["players"]["main_agent"]["anchors"]["random"]
    assert record["wins"] + record["draws"] + record["losses"] >= 100
    assert record["interval"][0] > 0.85
