"""``ludus exploitability`` measures what a run has learned."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from ludus.errors import ConfigError
from ludus.runs import open_run
from ludus_openspiel.command import exploitability

RUN = """
[run]
seed = 4
workers = 0
decisions = 700
[environment]
name = "openspiel"
[environment.openspiel]
game = "kuhn_poker"
[sampling]
matches = 8
fixture_matches = 8
rows_per_fixture = 4
[players.main]
algorithm = "dummy-gradient"
matchmaker = "dummy-uniform"
freeze_every_decisions = 200
[players.main.dummy-gradient]
segment_decisions = 4
batch_decisions = 64
[anchors.cfr]
agent = "openspiel-cfr"
[evaluation]
enabled = false
final_matches = 0
"""

SELF_PLAY = """
[run]
seed = 1
workers = 0
decisions = 200_000
[environment]
name = "openspiel"
[environment.openspiel]
game = "kuhn_poker"
[sampling]
matches = 128
fixture_matches = 128
rows_per_fixture = 64
[players.main]
algorithm = "ppo"
network = "mlp"
matchmaker = "latest-self-play"
freeze_every_decisions = 10_000
[players.main.ppo]
learning_rate = 3e-3
learning_rate_schedule = "linear"
adam_beta1 = 0.0
gamma = 1.0
gae_lambda = 1.0
ent_coef = 0.2
normalize_advantage = false
segment_decisions = 4
batch_decisions = 1024
num_minibatches = 1
[players.main.mlp]
hidden = [64, 64]
activation = "relu"
[evaluation]
enabled = false
final_matches = 0
"""


def train(folder, text):
    """Train a run with the command and return its folder."""
    (folder / "kuhn.toml").write_text(text)
    command = [sys.executable, "-m", "ludus", "train", str(folder / "kuhn.toml"), "--run", str(folder / "run")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "run"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a short run."""
    return train(tmp_path_factory.mktemp("runs"), RUN)


def invoke(*arguments):
    """Run the command and return what it prints."""
    result = CliRunner().invoke(exploitability, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def measured(*arguments):
    """Run the command and return the values that it prints."""
    return json.loads(invoke(*arguments, "--samples", 200, "--json"))


def test_the_latest_model_is_measured(folder):
    """By default the first player's."""
    result = measured(folder)
    with open_run(folder) as run:
        latest = run.league.players["main"].models[-1]
        assert result["decisions"] == run.models[latest].decisions
    assert result["participant"] == latest
    assert result == measured(folder, "main") == measured(folder, latest)
    assert result["game"] == "kuhn_poker"
    assert 0.1 < result["exploitability"] == result["nash_conv"] / 2 == sum(result["improvements"]) / 2


def test_estimates_are_marked(folder):
    """The output names the number of samples."""
    assert measured(folder)["samples"] == 200
    assert "(estimated from 200 decisions each)" in invoke(folder, "--samples", 200)
    assert measured(folder, "cfr")["samples"] == 0
    assert "estimated" not in invoke(folder, "cfr")


def test_anchors_and_installed_agents_are_measured(folder):
    """CFR is close to an equilibrium, random play is not."""
    assert measured(folder, "cfr")["exploitability"] < 0.01
    random = json.loads(invoke(folder, "random", "--json"))
    assert random["exploitability"] == pytest.approx(0.4583, abs=0.03)
    assert random["participant"] == "random"
    assert "decisions" not in random


def test_the_average_is_measured(folder):
    """Over all models of the player, whichever model is named."""
    result = measured(folder, "--average")
    assert result["models"] >= 3
    assert result == measured(folder, "main@1", "--average")
    assert result["exploitability"] != measured(folder)["exploitability"]
    assert result["exploitability"] != measured(folder, "--average", "--weighting", "linear")["exploitability"]


def test_the_history_lists_all_models(folder):
    """A line for each model, with the average so far; the last line is the average of all."""
    result = measured(folder, "--history")
    history = result["history"]
    assert [line["participant"] for line in history] == [f"main@{i}" for i in range(1, result["models"] + 1)]
    assert history[0]["average"] == pytest.approx(history[0]["exploitability"])
    assert history[-1]["average"] == result["exploitability"]
    assert history[0]["decisions"] < history[1]["decisions"]
    lines = invoke(folder, "--history", "--samples", 200).splitlines()
    assert len(lines) == result["models"] + 1
    assert lines[0].startswith("main@1: ")
    assert lines[-1].startswith(f"average of {result['models']} models of main at kuhn_poker: exploitability ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["nobody"], "participant 'nobody'"), (["random", "--average"], "unknown player random; the run has main")],
)
def test_unknown_players_raise(folder, arguments, message):
    """The message lists the known ones."""
    with pytest.raises(ConfigError, match=message):
        invoke(folder, *arguments)


@pytest.mark.slow
def test_self_play_approaches_an_equilibrium(tmp_path):
    """The average of the frozen models is far less exploitable than uniform play, which loses 0.458."""
    result = measured(train(tmp_path, SELF_PLAY), "--average")
    assert result["samples"] == 0
    assert result["models"] >= 10
    assert result["exploitability"] < 0.2


@pytest.mark.parametrize(
    ("key", "was", "now"), [("game", "kuhn_poker", "leduc_poker"), ("observation", "auto", "observation")]
)
def test_a_run_resumes_with_the_same_game_only(folder, key, was, now):
    """Even if the weights would fit another game."""
    setting = f"environment.openspiel.{key}='{now}'"
    command = [sys.executable, "-m", "ludus", "resume", str(folder), "--set", setting]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 1
    assert f"--set environment.openspiel.{key}: was {was!r}, got {now!r}: " in result.stderr


def test_general_sum_games_are_compared_by_returns_with_a_baseline(tmp_path):
    """Random play meets itself at the end, so that a gain over it is known: in the prisoner's dilemma 1.5 or less."""
    text = RUN.replace("kuhn_poker", "matrix_pd").replace("openspiel-cfr", "random").replace("cfr", "random")
    folder = train(tmp_path, text.replace("final_matches = 0", "final_matches = 100"))
    command = [sys.executable, "-m", "ludus", "report", str(folder), "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    (row,) = [row for row in report["players"]["main"]["returns"] if row["against"] == "random"]
    assert row["gain"]["over"] == "random"
    assert 0 < row["gain"]["mean"] < 1.5 + 0.8  # four standard errors
    assert report["rule"] == "the team with the highest mean return of its seats wins"
