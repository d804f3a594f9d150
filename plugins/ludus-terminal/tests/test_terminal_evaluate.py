"""``ludus eval`` plays participants of a run against each other and changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from ludus._config.run_config import load_config
from ludus._plugins.manager import load_plugins
from ludus._run.runner import train
from ludus._store.store import Store
from ludus.errors import ConfigError, LudusError
from ludus_terminal import evaluate as evaluate_module
from ludus_terminal.evaluate import evaluate

RUN = """
[run]
seed = 3
workers = 0
decisions = 1200
[environment]
name = "dummy-count"
[sampling]
matches = 8
fixture_matches = 8
rows_per_fixture = 4
[players.main]
algorithm = "dummy-gradient"
matchmaker = "dummy-uniform"
freeze_every_decisions = 500
[players.main.dummy-gradient]
segment_decisions = 4
batch_decisions = 64
[anchors.random]
agent = "dummy-random"
[evaluation]
matches = 8
fixture_matches = 5
final_matches = 0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a short run."""
    tmp_path = tmp_path_factory.mktemp("runs")
    plugins = load_plugins()
    (tmp_path / "run.toml").write_text(RUN)
    config = load_config(tmp_path / "run.toml", plugins=plugins)
    train(config, plugins=plugins, run_dir=tmp_path / "r", print_line=lambda line: None)
    return tmp_path / "r"


def invoke(*arguments, code=0):
    """Run the command and return its output."""
    result = CliRunner().invoke(evaluate, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_the_result_is_json(folder):
    """The JSON has exactly these keys, so that programs can rely on them."""
    data = json.loads(invoke(folder, "main@latest", "random", "--matches", 50, "--json"))
    keys = [
        "wins",
        "draws",
        "losses",
        "score",
        "interval",
        "mean_return",
        "return_interval",
        "mean_ticks",
        "participants",
    ]
    assert list(data) == keys
    assert data["participants"] == ["main@latest", "random"]
    assert data["wins"] + data["draws"] + data["losses"] == 50
    assert data["interval"][0] < data["score"] < data["interval"][1]
    assert data["score"] > 0.5
    assert data["mean_return"] == pytest.approx(2 * data["score"] - 1)


def test_the_result_is_a_line(folder):
    """Without --json the result is one line of text."""
    text = invoke(folder, "main@1", "random", "--matches", 10)
    assert text.startswith("main@1 against random: ")
    assert "ticks per match" in text


def test_equal_seeds_give_equal_results(folder):
    """Another seed gives another result."""
    results = [invoke(folder, "main@latest", "random", "--seed", seed, "--json") for seed in (1, 1, 2)]
    assert results[0] == results[1] != results[2]


@pytest.mark.parametrize("seed", [-1, 2**63, 10**23])
def test_a_seed_out_of_range(folder, seed):
    """A seed out of range is wrong usage; the largest seed works."""
    text = invoke(folder, "main@1", "random", "--seed", seed, code=2)
    assert f"Invalid value for '--seed': {seed} is not in the range 0<=x<=9223372036854775807" in text
    invoke(folder, "main@1", "random", "--matches", 2, "--seed", 2**63 - 1)


@pytest.mark.parametrize("matches", [0, 10**20])
def test_a_number_of_matches_out_of_range(folder, matches):
    """A number of matches out of range is wrong usage, reported before a match is played."""
    text = invoke(folder, "main@1", "random", "--matches", matches, code=2)
    assert f"Invalid value for '--matches': {matches} is not in the range 1<=x<=1000000000" in text


def test_any_installed_agent_may_play(folder):
    """The perfect agent, which is no anchor of the run, does not lose to the random one."""
    data = json.loads(invoke(folder, "dummy-perfect", "main@latest", "--matches", 400, "--json"))
    assert data["score"] > 0.7


def test_the_most_likely_actions_are_repeatable(folder):
    """Two equal deterministic players each score one half, for any seed."""
    data = json.loads(invoke(folder, "main@1", "main@1", "--deterministic", "--matches", 20, "--json"))
    assert data["score"] == 0.5


def test_nothing_is_written(folder):
    """The match log of the run is unchanged."""
    with Store.read(folder) as store:
        before = store.matches.count()
    invoke(folder, "main@1", "random", "--matches", 10)
    with Store.read(folder) as store:
        assert store.matches.count() == before


def test_the_snapshot_is_closed_while_matches_are_played(folder, monkeypatch):
    """An open snapshot would keep the database of a running run from shrinking."""
    close, play, order = Store.close, evaluate_module.play_matches, []

    def played(*arguments, **more):
        order.append("played")
        return play(*arguments, **more)

    monkeypatch.setattr(Store, "close", lambda store: (order.append("closed"), close(store)))
    monkeypatch.setattr(evaluate_module, "play_matches", played)
    invoke(folder, "main@latest", "random", "--matches", 4)
    assert order[:2] == ["closed", "played"]


def test_a_scenario_is_passed_on(folder):
    """An unknown scenario is an error of the game."""
    with pytest.raises(LudusError, match="nowhere"):
        invoke(folder, "main@1", "random", "--scenario", "nowhere")


@pytest.mark.parametrize("name", ["", "A start", "\x1b[31m", "x" * 65])
def test_an_invalid_scenario_name_is_wrong_usage(folder, name):
    """The message names the option, and nothing is made before."""
    output = invoke(folder, "main@1", "random", "--scenario", name, code=2)
    assert "Invalid value for '--scenario': name: expected a name of 1 to 64" in output


def test_a_missing_opponent_is_chosen_and_printed(folder):
    """An older model meets the newest one, the newest model an anchor."""
    assert invoke(folder, "main@1", "--matches", 2).startswith("seats that were not named: player by main@")
    assert invoke(folder, "main@latest", "--matches", 2).startswith("seats that were not named: player by random\n")


def test_too_many_participants(folder):
    """The message has the number of teams and the participants."""
    with pytest.raises(ConfigError, match=r"no free seat of role player; dummy-count has 2 teams .* random, main@2"):
        invoke(folder, "main@1", "random", "main@2")


def test_live_weights_cannot_play(folder):
    """They are not stored; the message suggests a frozen model."""
    with pytest.raises(ConfigError, match="main@live is no frozen model; name one, for example main@latest"):
        invoke(folder, "main@live", "random")


def test_an_unknown_participant_is_an_error(folder):
    """The message suggests a similar name."""
    with pytest.raises(ConfigError, match="did you mean 'main@latest'"):
        invoke(folder, "main@latst", "random")


def test_standard_output_is_json_only(folder):
    """Run in a shell, --json prints nothing else."""
    arguments = [sys.executable, "-m", "ludus", "eval", str(folder), "main@latest", "random", "--matches", "10"]
    done = subprocess.run([*arguments, "--json"], capture_output=True, text=True, check=True, timeout=60)
    assert set(json.loads(done.stdout)) >= {"wins", "score", "interval"}


# -- other options of the run ------------------------------------------------------------------------------------------


def test_options_of_the_run_can_be_replaced(folder):
    """For the matches only: they end earlier, and the run keeps its options."""
    before = (folder / "run.toml").read_text()
    arguments = (folder, "main@1", "random", "--matches", 4, "--json")
    limited = json.loads(invoke(*arguments, "--set", "environment.dummy-count.tick_limit=2"))
    assert limited["mean_ticks"] == 2 < json.loads(invoke(*arguments))["mean_ticks"]
    assert (folder / "run.toml").read_text() == before


def test_every_value_is_a_row(folder, monkeypatch):
    """Each equals the result with that value alone, on the same seeds."""
    monkeypatch.setenv("COLUMNS", "120")
    arguments = (folder, "main@1", "random", "--matches", 10)
    rows = json.loads(invoke(*arguments, "--vary", "environment.dummy-count.tick_limit=1,2", "--json"))
    assert rows["key"] == "environment.dummy-count.tick_limit"
    alone = json.loads(invoke(*arguments, "--set", "environment.dummy-count.tick_limit=2", "--json"))
    assert list(rows["values"]) == ["1", "2"]
    assert rows["values"]["2"] == alone != rows["values"]["1"]
    lines = invoke(*arguments, "--vary", "environment.dummy-count.tick_limit=1,2").splitlines()
    assert lines[0].strip() == "Results by environment.dummy-count.tick_limit"
    assert [line.split()[0] for line in lines[2:]] == ["1", "2"]
    assert all("main@1 against random" in line for line in lines[2:])


def test_wrong_options_are_errors(folder):
    """One line with the key, as for other commands."""
    text = invoke(folder, "main@1", "random", "--vary", "ticks", code=2)
    assert "expected KEY=VALUE,VALUE,…, got 'ticks'" in text
    with pytest.raises(ConfigError, match=r"environment\.dummy-count\.tics: unknown key"):
        invoke(folder, "main@1", "random", "--set", "environment.dummy-count.tics=5")
    with pytest.raises(ConfigError, match=r"^--vary environment\.dummy-count\.tics: unknown key"):
        invoke(folder, "main@1", "random", "--vary", "environment.dummy-count.tics=5,6")
