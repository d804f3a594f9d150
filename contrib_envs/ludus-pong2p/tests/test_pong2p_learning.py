"""The game can be learned by self-play."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "pong2p.toml"


@pytest.mark.slow
def test_self_play_beats_the_easy_follower(tmp_path):
    """A million decisions of the example, some ten seconds, suffice against an opponent that is never met."""
    for package in ("ludus_matchmakers", "ludus_networks", "ludus_ppo"):
        pytest.importorskip(package)
    settings = ("run.minutes=0", "run.decisions=1000000")
    options = [part for setting in settings for part in ("--set", setting)]
    run = [str(EXAMPLE), "--run", str(tmp_path / "run"), "--workers", "0", "--json", *options]
    done = subprocess.run(
        [sys.executable, "-m", "ludus", "train", *run], capture_output=True, text=True, check=True, timeout=300
    )
    result = json.loads(done.stdout)
    anchors = result["players"]["main_agent"]["anchors"]
    assert anchors["random"]["score"] >= 0.9
    assert anchors["follower-easy"]["score"] >= 0.85
    assert result["decisions"] >= 1_000_000
