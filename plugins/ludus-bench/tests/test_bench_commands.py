"""Every command of ``ludus bench``, with minimal settings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest
from ludus.__main__ import main
from ludus_bench.timing import harmonic

TINY = ["--repeats", "1", "--seconds", "0.01", "--warmup", "0"]
DUMMY = ["--env", "dummy-guess", "--algorithm", "dummy-gradient"]
PPO = ["--env", "dummy-count", "--algorithm", "ppo", "--network", "mlp"]
PPO += ["--set", "players.main_agent.mlp.hidden=[8]", "--set", "players.main_agent.ppo.batch_decisions=64"]
SMALL = ["--set", "sampling.matches=4", "--set", "sampling.rows_per_fixture=2", "--set", "sampling.fixture_matches=4"]
SMALL += ["--set", "players.main_agent.ppo.segment_decisions=8"]


@pytest.fixture(autouse=True)
def _default_environment(monkeypatch):
    monkeypatch.delenv("LUDUS_DEBUG", raising=False)


def result_of(capsys, *arguments):
    """Run ``ludus bench … --json`` and return the parsed output."""
    status = main(["bench", *arguments, "--json"])
    out = capsys.readouterr()
    assert status == 0, out.err
    return json.loads(out.out)


def checked_figures(found, command, names):
    """Check the keys that all reports share and return the figures."""
    assert found["command"] == command
    assert {"machine", "config", "figures", "spread"} <= found.keys()
    assert {figure["name"] for figure in found["figures"]} == set(names)
    for figure in found["figures"]:
        assert figure["low"] <= figure["median"] <= figure["high"]
        if figure["limit"] is not None:
            assert figure["limit"] > 0
            assert figure["ratio"] == pytest.approx(figure["median"] / figure["limit"])
    return found["figures"]


def test_env_measures_every_number_of_matches(capsys):
    """The limit is the environment's own step."""
    found = result_of(capsys, "env", "dummy-guess", "--matches", "2,3", *TINY)
    figures = checked_figures(found, "env", ["ticks_per_s", "decisions_per_s"])
    assert [figure["matches"] for figure in figures] == [2, 2, 3, 3]
    assert all(0 < figure["ratio"] <= 1 for figure in figures)


@pytest.mark.parametrize(
    ("environment", "options", "library"),
    [
        ("pettingzoo", {"id": "classic/tictactoe_v3"}, "PettingZoo's AEC interface of classic/tictactoe_v3 alone"),
        ("pettingzoo", {"id": "classic/rps_v2"}, "PettingZoo's parallel interface of classic/rps_v2 alone"),
        ("pettingzoo", {"id": "classic/rps_v2", "api": "aec"}, "PettingZoo's AEC interface of classic/rps_v2 alone"),
        ("gymnasium", {"id": "MountainCar-v0", "frame_skip": 2}, "gymnasium.make('MountainCar-v0') alone"),
        ("gymnasium", {"id": "gymnasium.envs:Taxi-v4"}, "gymnasium.make('gymnasium.envs:Taxi-v4') alone"),
    ],
)
def test_adapters_are_compared_with_their_library(capsys, environment, options, library):
    """With the interface that the adapter chooses, and any form of the id."""
    pytest.importorskip(f"ludus_{environment}")
    settings = [f"--set=environment.{environment}.{key}={value}" for key, value in options.items()]
    found = result_of(capsys, "env", environment, *settings, "--matches", "2", *TINY)
    figures = checked_figures(found, "env", ["ticks_per_s", "decisions_per_s", "adapter_ticks_per_s"])
    assert figures[2]["limit_of"] == library
    assert figures[2]["ratio"] > 0.01


@pytest.mark.parametrize(("terminal", "options", "lines"), [(True, [], 2), (True, ["--json"], 0), (False, [], 0)])
def test_measurements_are_logged_at_a_terminal(capsys, monkeypatch, terminal, options, lines):
    """One line per measurement, only at a terminal and without --json; a second command repeats no lines."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    for _ in range(2):
        assert main(["bench", "env", "dummy-guess", "--matches", "2,3", *TINY, *options]) == 0
        assert capsys.readouterr().err.splitlines() == ["measuring play: 0.01 s"] * lines


def test_env_takes_options_of_the_environment(capsys):
    """``--set`` takes the keys of a TOML file."""
    result_of(capsys, "env", "dummy-guess", "--matches", "1", "--set", "environment.dummy-guess.rounds=3", *TINY)


def test_forward_measures_every_batch_size(capsys):
    """One figure for each number of rows, next to the products of the network."""
    figures = checked_figures(
        result_of(capsys, "forward", *PPO, *SMALL, "--rows", "1,5", *TINY), "forward", ["decisions_per_s"]
    )
    assert [figure["rows"] for figure in figures] == [1, 5]
    assert {figure["limit_of"] for figure in figures} == {"matrix products and convolutions alone"}
    assert all(0 < figure["ratio"] < 1 for figure in figures)


def test_update_counts_the_samples_of_every_pass(capsys):
    """Two epochs train on every decision twice."""
    found = result_of(capsys, "update", *PPO, *SMALL, "--set", "players.main_agent.ppo.epochs=2", *TINY)
    figures = checked_figures(found, "update", ["samples_per_s", "updates_per_s"])
    assert found["passes"] == 2
    samples, updates = (figure["median"] for figure in figures)
    assert samples == pytest.approx(2 * updates * figures[0]["decisions"])
    assert all(0 < figure["ratio"] < 1 for figure in figures)


def test_sampling_is_limited_by_environment_and_policy(capsys):
    """A note splits the time of a decision."""
    found = result_of(capsys, "sampling", *PPO, *SMALL, "--matches", "3", *TINY)
    (figure,) = checked_figures(found, "sampling", ["decisions_per_s"])
    assert figure["limit_of"] == "1/(1/environment + 1/forward)"
    assert "µs per decision" in found["notes"][0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("forward", "--env", "connect4", "--threads", "100000000000000000000"),
        ("forward", "--env", "connect4", "--rows", "1e30"),
        ("update", "--env", "connect4", "--repeats", "1000000000"),
    ],
)
def test_numbers_out_of_range_are_usage_errors(capsys, arguments):
    """The command exits with status 2."""
    assert main(["bench", *arguments]) == 2
    assert f"Invalid value for '{arguments[-2]}'" in capsys.readouterr().err


def test_tune_ends_with_lines_of_toml(capsys, tmp_path):
    """They hold the chosen settings."""
    found = result_of(capsys, "tune", *PPO, *SMALL, "--seconds", "1")
    checked_figures(found, "tune", ["sampling_per_s", "update_per_s"])
    assert found["best"].keys() == {"workers", "learner_processes", "learner_threads", "matches", "minibatch"}
    path = tmp_path / "tuned.toml"
    path.write_text(found["toml"])
    text = path.read_text()
    assert f"matches = {found['best']['matches']}" in text
    assert "[players.main_agent.ppo]" in text


SELFPLAY = {
    "decisions_per_s",
    "env_ticks_per_s",
    "samples_trained_per_s",
    "sample_reuse",
    "staleness",
    "limit_per_s",
    "ratio",
    "peak_rss_mb",
    "config",
}


@pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_selfplay_reports_rates_and_limit(capsys, caplog, workers):
    """Of a whole run in one process or several; every step is logged."""
    caplog.set_level("INFO", "ludus_bench")
    found = result_of(capsys, "selfplay", *PPO, *SMALL, "--seconds", "1", "--warmup", "0", "--workers", workers)
    checked_figures(found, "selfplay", ["decisions_per_s", "env_per_s", "forward_per_s", "update_per_s"])
    assert found.keys() >= SELFPLAY
    assert found["ratio"] == pytest.approx(found["decisions_per_s"] / found["limit_per_s"])
    parts = found["parts"]
    whole = harmonic(parts["env_per_s"], parts["forward_per_s"], parts["update_per_s"])
    assert found["limit_per_s"] == pytest.approx(found["machine"]["cores"] * whole)
    assert found["peak_rss_mb"] > 50
    measuring, *others = [record.getMessage() for record in caplog.records if record.name.startswith("ludus_bench")]
    assert others == ["starting a run", "the run learns; measuring it"]
    assert measuring.startswith("measuring env, forward, update: ")


def is_alive(process):
    """Return whether a process exists and is no zombie."""
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_signals_end_the_measured_run(number, tmp_path):
    """No process stays; the temporary folder stays only after SIGKILL."""
    with subprocess.Popen(
        [sys.executable, "-m", "ludus", "bench", "selfplay", *DUMMY, "--workers", "1", "--seconds", "300"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509 - nohup is inherited
    ) as process:
        end = time.monotonic() + 60
        while not list(tmp_path.glob("ludus-bench-*/run/models/*.safetensors")) and time.monotonic() < end:
            time.sleep(0.05)
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        status = process.wait(30)
    assert len(started) >= 1 + 3
    end = time.monotonic() + 10
    while any(map(is_alive, started)) and time.monotonic() < end:
        time.sleep(0.05)
    stayed = [process.name() for process in started if is_alive(process)]
    for process in filter(is_alive, started):
        process.kill()
    assert stayed == []
    left = list(tmp_path.glob("ludus-bench-*"))
    assert (status, len(left)) == ((-number, 1) if number == signal.SIGKILL else (130, 0))


# -- wrong input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["env", "no-such-game"], "no-such-game"),
        (["env", "dummy-guess", "--set", "environment.dummy-guess.nothing=1"], "unknown key"),
        (["forward"], "give a TOML file or --env NAME"),
        (["update", "--env", "dummy-count", "--network", "nothing"], "'nothing'"),
        (["forward", "run.toml", "--env", "dummy-guess"], "not both"),
        (["sampling", "missing.toml"], "missing.toml"),
        (["forward", *DUMMY, "--device", "nonsense"], "--device: expected cpu or cuda"),
        (["env", "dummy-guess", "--matches", "0"], "expected whole numbers"),
        (["env", "dummy-guess", "--matches", "many"], "expected whole numbers"),
    ],
)
def test_wrong_input_is_reported_in_one_line(capsys, arguments, message):
    """Nothing is measured."""
    assert main(["bench", *arguments]) in (1, 2)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.lower().startswith("error")]
    assert message in line


def test_a_trainer_with_a_replay_buffer_is_measured_while_it_learns(capsys):
    """Updates that only fill the buffer are not measured."""
    pytest.importorskip("ludus_dqn")
    options = {"learning_starts": 200, "batch_decisions": 64, "minibatch_size": 16, "updates_per_batch": 3}
    sets = [f"--set=players.main_agent.dqn.{name}={value}" for name, value in options.items()]
    found = result_of(capsys, "update", "--env", "dummy-count", "--algorithm", "dqn", *sets, *TINY)
    figure, _ = checked_figures(found, "update", ["samples_per_s", "updates_per_s"])
    assert figure["minibatch"] == 16
    assert found["passes"] == pytest.approx(3 * 16 / figure["decisions"])


@pytest.mark.parametrize("part", ["forward", "update"])
def test_critics_that_read_actions_are_measured(capsys, part):
    """Actions are no part of the observation."""
    pytest.importorskip("ludus_sac")
    pytest.importorskip("ludus_gymnasium")
    pendulum = ["--env", "gymnasium", "--set", "environment.gymnasium.id=Pendulum-v1", "--algorithm", "sac"]
    sizes = ["--set", "sampling.matches=4", "--set", "players.main_agent.sac.updates_per_batch=1"]
    found = result_of(capsys, part, *pendulum, *sizes, *TINY)
    assert all(figure["median"] > 0 for figure in found["figures"])
