"""Tests of whole runs with DQN."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.__main__ import main
from ludus.runs import open_run
from ludus_terminal.evaluate import play_pair

GAME = """
[run]
seed = 1
workers = 0
decisions = {decisions}
[environment]
name = "tictactoe"
[sampling]
matches = 16
fixture_matches = 32
rows_per_fixture = 16
[players.main_agent]
algorithm = "dqn"
network = "mlp"
matchmaker = "against-anchors"
[players.main_agent.dqn]
learning_rate = 1e-3
learning_rate_schedule = "linear"
gamma = 0.9
epsilon_decisions = {exploring}
segment_decisions = 8
batch_decisions = 128
updates_per_batch = {steps}
minibatch_size = 128
learning_starts = 128
minimax_alpha = {alpha}
[players.main_agent.mlp]
hidden = [128, 128]
activation = "relu"
[anchors.other]
agent = "{opponent}"
[evaluation]
enabled = false
final_matches = 0
"""


def train(tmp_path, text, **values):
    """Train to the end and return the run folder."""
    (tmp_path / "run.toml").write_text(text.format(**values), encoding="utf-8")
    assert main(["train", str(tmp_path / "run.toml"), "--run", str(tmp_path / "run"), "--json"]) == 0
    return tmp_path / "run"


def play(folder, *, matches, opponent=None):
    """Return the results of the newest model, playing deterministically against an opponent."""
    with open_run(folder) as run:
        environment = run.make_environment(min(matches, 64))
        try:
            (role,) = (role.name for role in environment.spec.roles)
            names = ["main_agent@latest", *([opponent] if opponent else [])]
            sides = [{role: run.agent(name, role, environment=environment, deterministic=True)} for name in names]
            return play_pair(environment, sides, matches=matches, seed=0)
        finally:
            environment.close()


def test_batches_contain_the_evaluation_of_the_next_position(tmp_path, monkeypatch):
    """Equal to that of the perfect Tic-Tac-Toe agent; NaN where the decision ended the match."""
    pytest.importorskip("ludus_board")
    from ludus_board.environment import make_tictactoe
    from ludus_board.perfect import PerfectAgent
    from ludus_dqn.trainer import DQNTrainer

    batches, update = [], DQNTrainer.update

    def record_batch(self, batch, *, progress):
        batches.append(
            {name: array.copy() for name, array in batch.arrays().items()} | {"trainable": batch.trainable()}
        )
        return update(self, batch, progress=progress)

    monkeypatch.setattr(DQNTrainer, "update", record_batch)
    train(tmp_path, GAME, decisions=3000, exploring=10**9, steps=1, alpha=0.1, opponent="tictactoe-perfect")
    perfect = PerfectAgent(None, spec=make_tictactoe(None, num_matches=1).spec, role="player")
    compared = 0
    for batch in batches:
        trainable = batch["trainable"]
        board = batch["observation/obs"][trainable].copy().reshape(-1, 9, 2)
        board[np.arange(len(board)), batch["action"][trainable][:, 0], 0] = 1
        value = batch["extras/opponent_value"][trainable]
        lines = board[:, :, 0].reshape(-1, 3, 3)
        won = lines.all(axis=1).any(axis=1) | lines.all(axis=2).any(axis=1)
        won |= np.einsum("nii->ni", lines).all(axis=1) | np.einsum("nii->ni", lines[:, ::-1]).all(axis=1)
        over = won | board.any(axis=2).all(axis=1)
        assert np.array_equal(np.isnan(value), over)
        expected = perfect.evaluate({"obs": board[~over][:, :, ::-1].reshape(-1, 3, 3, 2)}, None)
        assert np.array_equal(value[~over], expected)
        compared += len(expected)
    assert compared > 2000


def test_dqn_beats_random_play_at_tictactoe(tmp_path):
    """In 85 % more matches than it loses."""
    pytest.importorskip("ludus_board")
    folder = train(tmp_path, GAME, decisions=45_000, exploring=15_000, steps=8, alpha=0.0, opponent="random")
    record = play(folder, matches=400, opponent="other")
    assert record.wins - record.losses > 0.85 * 400
