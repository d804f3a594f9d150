"""A whole run from the command line, in a game that only exploration solves."""

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
decisions = 150_000

[environment]
name = "corridor"

[sampling]
matches = 64
fixture_matches = 64
rows_per_fixture = 64

[players.main]
algorithm = "ALGORITHM"
network = "mlp"
matchmaker = "latest-self-play"
freeze_every_decisions = 150_000

[players.main.ALGORITHM]
learning_rate = 1e-3
batch_decisions = 2048

[players.main.mlp]
hidden = [64]
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
@pytest.mark.parametrize(("algorithm", "lowest", "highest"), [("rnd-ppo", 0.95, 1.0), ("ppo", 0.0, 0.11)])
def test_the_corridor_is_walked_by_who_explores(tmp_path, algorithm, lowest, highest):
    """With equal options, PPO takes the door beside the start: 0.1 instead of 1."""
    pytest.importorskip("ludus_probes")
    (tmp_path / "run.toml").write_text(RUN.replace("ALGORITHM", algorithm))
    status = ludus(tmp_path, "train", "run.toml", "--run", "run", "--workers", 0)
    newest = status["players"]["main"]["newest"]
    assert lowest <= ludus(tmp_path, "eval", "run", newest, "--matches", 200)["mean_return"] <= highest
