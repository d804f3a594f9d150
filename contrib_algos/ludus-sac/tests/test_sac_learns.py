"""Tests of whole runs with SAC, continuous and discrete."""

from __future__ import annotations

import pytest
from ludus.__main__ import main
from ludus.runs import open_run
from ludus_terminal.evaluate import play_pair

RUN = """
[run]
seed = 1
workers = 0
decisions = {decisions}
[environment]
name = "{environment}"
[sampling]
matches = 16
fixture_matches = 32
rows_per_fixture = 16
[players.main_agent]
algorithm = "sac"
network = "mlp"
matchmaker = "{matchmaker}"
[players.main_agent.sac]
learning_rate = 1e-3
critic_learning_rate = 1e-3
alpha_learning_rate = 1e-3
gamma = 0.9
segment_decisions = 8
batch_decisions = 128
updates_per_batch = {steps}
minibatch_size = 128
learning_starts = 128
[players.main_agent.mlp]
hidden = [64, 64]
activation = "relu"
[evaluation]
enabled = false
final_matches = 0
"""


def train_and_play(tmp_path, *, opponent=None, more="", **values):
    """Train to the end and return the results of the newest model, playing deterministically."""
    (tmp_path / "run.toml").write_text(RUN.format(**values) + more, encoding="utf-8")
    folder = tmp_path / "run"
    assert main(["train", str(tmp_path / "run.toml"), "--run", str(folder), "--json"]) == 0
    with open_run(folder) as run:
        environment = run.make_environment(64)
        try:
            (role,) = (role.name for role in environment.spec.roles)
            names = ["main_agent@latest", *([opponent] if opponent else [])]
            sides = [{role: run.agent(name, role, environment=environment, deterministic=True)} for name in names]
            return play_pair(environment, sides, matches=400, seed=0)
        finally:
            environment.close()


@pytest.mark.slow
def test_sac_learns_to_steer(tmp_path):
    """Better than the best constant, -5/18, and than random play, -17/18."""
    pytest.importorskip("ludus_probes")
    record = train_and_play(tmp_path, environment="steer", matchmaker="latest-self-play", decisions=8_000, steps=24)
    assert record.mean_return > -0.1


@pytest.mark.slow
def test_sac_beats_random_play_at_tictactoe(tmp_path):
    """With masks and sparse rewards."""
    pytest.importorskip("ludus_board")
    record = train_and_play(
        tmp_path,
        environment="tictactoe",
        matchmaker="against-anchors",
        opponent="other",
        more='[anchors.other]\nagent = "random"\n',
        decisions=16_000,
        steps=12,
    )
    assert record.wins - record.losses > 0.6 * 400
