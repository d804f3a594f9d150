"""A whole run from the command line, in a team game with rewards that only a global critic can predict."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

RUN = """
[run]
seed = 1
minutes = 0
decisions = 27_000

[environment]
name = "team-game"

[sampling]
matches = 64
fixture_matches = 64
rows_per_fixture = 64

[players.main]
algorithm = "mappo"
network = "mlp"
matchmaker = "latest-self-play"
freeze_every_decisions = 30_000

[players.main.mappo]
critic = "CRITIC"
learning_rate = 3e-3
batch_decisions = 768
segment_decisions = 1
epochs = 4

[players.main.mlp]
hidden = [32]
"""


def ludus(folder, *arguments):
    """Run one command and return the JSON that it prints."""
    command = [sys.executable, "-m", "ludus", *map(str, arguments), "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(("critic", "least", "most"), [("global", 0.9, 1.0), ("local", 0.0, 0.5)])
def test_a_team_learns_fast_by_a_critic_that_sees_everything(tmp_path, critic, least, most):
    """The score is the share of matches in which every seat is right; guessing gives 1/64."""
    pytest.importorskip("ludus_probes")
    (tmp_path / "run.toml").write_text(RUN.replace("CRITIC", critic))
    status = ludus(tmp_path, "train", "run.toml", "--run", "run", "--workers", 0)
    newest = status["players"]["main"]["newest"]
    assert least <= ludus(tmp_path, "eval", "run", newest, "--matches", 400)["score"] <= most
