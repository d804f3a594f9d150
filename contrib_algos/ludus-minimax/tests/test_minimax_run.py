"""A whole run: an exploiter that learns by PPO meets an anchor that evaluates."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.__main__ import main
from ludus_minimax.trainer import MinimaxPPOTrainer

RUN = """
[run]
seed = 1
workers = 0
decisions = 6000
[environment]
name = "tictactoe"
[sampling]
matches = 16
fixture_matches = 32
rows_per_fixture = 16
[players.exploiter]
algorithm = "minimax-ppo"
network = "mlp"
matchmaker = "against-anchors"
[players.exploiter.minimax-ppo]
minimax_alpha = 0.1
minimax_gamma = 1.0
segment_decisions = 8
batch_decisions = 512
[players.exploiter.mlp]
hidden = [16]
[anchors.perfect]
agent = "tictactoe-perfect"
[evaluation]
enabled = false
final_matches = 0
"""


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a run."""
    pytest.importorskip("ludus_board")
    (tmp_path / "run.toml").write_text(RUN, encoding="utf-8")
    return tmp_path


def train(folder):
    """Train to the end."""
    assert main(["train", str(folder / "run.toml"), "--run", str(folder / "run"), "--json"]) == 0


def test_the_exploiter_gets_the_evaluations_of_a_perfect_opponent(folder, monkeypatch):
    """These are 1, 0 or -1, and missing where the exploiter ended the match."""
    batches, shaped, update = [], [], MinimaxPPOTrainer.update

    def recorded(self, batch, *, progress):
        batches.append((batch.extras["opponent_value"][batch.trainable()], batch.terminated[batch.trainable()]))
        result = update(self, batch, progress=progress)
        shaped.append(result.metrics["minimax_reward"])
        return result

    monkeypatch.setattr(MinimaxPPOTrainer, "update", recorded)
    train(folder)
    value, terminated = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    assert set(np.unique(value[~np.isnan(value)])) <= {-1.0, 0.0, 1.0}
    assert np.isnan(value).any()
    assert terminated[np.isnan(value)].all()
    assert (value == 1).any()
    assert -0.2 <= min(shaped) <= max(shaped) < 0


def test_resuming_goes_on(folder):
    """The checkpoint holds the tracked minimum."""
    train(folder)
    more = ["--set", "run.decisions=8000", "--json"]
    assert main(["resume", str(folder / "run"), *more]) == 0
