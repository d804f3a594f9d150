"""Every command, with settings as small as they can be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import psutil
import pytest
from ludus.__main__ import main
from ludus._store.model_files import load_arrays
from ludus.runs import open_run
from ludus_bench._pieces import Source, open_setup
from ludus_bench.machine import process_tree
from ludus_bench.parts import AS_PLAYED, harmonic

TINY = ["--repeats", "1", "--seconds", "0.01", "--warmup", "0"]
DUMMY = ["--env", "dummy-guess", "--algorithm", "dummy-gradient"]
PPO = ["--env", "dummy-count", "--algorithm", "ppo", "--network", "mlp"]
PPO += ["--set", "players.main_agent.mlp.hidden=[8]", "--set", "players.main_agent.ppo.batch_decisions=64"]
SMALL = ["--set", "sampling.matches=4", "--set", "sampling.rows_per_fixture=2", "--set", "sampling.fixture_matches=4"]
SMALL += ["--set", "players.main_agent.ppo.segment_decisions=8"]


@pytest.fixture(autouse=True)
def _no_short_cuts(monkeypatch):
    monkeypatch.delenv("LUDUS_DEBUG", raising=False)


def result_of(capsys, *arguments):
    """Run ``ludus bench … --json`` and return what it printed."""
    status = main(["bench", *arguments, "--json"])
    out = capsys.readouterr()
    assert status == 0, out.err
    return json.loads(out.out)


def checked(found, command, names):
    """Check what all reports have in common and return the figures."""
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
    """Against the environment's own step."""
    found = result_of(capsys, "env", "dummy-guess", "--matches", "2,3", *TINY)
    figures = checked(found, "env", ["ticks_per_s", "decisions_per_s"])
    assert [figure["matches"] for figure in figures] == [2, 2, 3, 3]
    assert all(0 < figure["ratio"] <= 1 for figure in figures)


@pytest.mark.parametrize(("terminal", "options", "lines"), [(True, [], 2), (True, ["--json"], 0), (False, [], 0)])
def test_a_person_who_waits_is_told_what_is_measured(capsys, monkeypatch, terminal, options, lines):
    """One line per step, at a terminal and without --json only; a second command tells each once, too."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    for _ in range(2):
        assert main(["bench", "env", "dummy-guess", "--matches", "2,3", *TINY, *options]) == 0
        assert capsys.readouterr().err.splitlines() == ["measuring play: 0.01 s"] * lines


def test_env_takes_options_of_the_environment(capsys):
    """As in a TOML file."""
    result_of(capsys, "env", "dummy-guess", "--matches", "1", "--set", "environment.dummy-guess.rounds=3", *TINY)


def test_env_has_the_library_behind_an_adapter_as_its_limit(capsys):
    """It is named."""
    pytest.importorskip("ludus_gymnasium")
    found = result_of(
        capsys, "env", "gymnasium", "--set", "environment.gymnasium.id=Acrobot-v1", "--matches", "2", *TINY
    )
    assert {figure["limit_of"] for figure in found["figures"]} == {"gymnasium.make('Acrobot-v1') alone"}


def test_env_steps_several_matches_of_a_library_that_can(capsys):
    """CartPole has a vectorised implementation."""
    pytest.importorskip("ludus_gymnasium")
    found = result_of(capsys, "env", "gymnasium", "--matches", "4", *TINY)
    assert "make_vec('CartPole-v1')" in found["figures"][0]["limit_of"]


@pytest.mark.parametrize("api", ["aec", "parallel"])
def test_env_steps_the_pettingzoo_library_alone(capsys, api):
    """Through either of its interfaces."""
    pytest.importorskip("ludus_pettingzoo")
    game = {"aec": "classic/tictactoe_v3", "parallel": "classic/rps_v2"}[api]
    options = [f"environment.pettingzoo.id={game}", f"environment.pettingzoo.api={api}"]
    found = result_of(capsys, "env", "pettingzoo", *(f"--set={each}" for each in options), "--matches", "2", *TINY)
    assert found["figures"][0]["limit_of"] == f"PettingZoo's {game} alone"


def test_forward_measures_every_batch_size(capsys):
    """Against the matrix products alone."""
    figures = checked(
        result_of(capsys, "forward", *PPO, *SMALL, "--rows", "1,5", *TINY), "forward", ["decisions_per_s"]
    )
    assert [figure["rows"] for figure in figures] == [1, 5]
    assert all("matrix products" in figure["limit_of"] for figure in figures)


def test_forward_works_for_algorithms_without_networks(capsys):
    """Nothing is known to be a limit then."""
    (figure,) = checked(
        result_of(capsys, "forward", *DUMMY, "--set", "sampling.matches=4", "--rows", "3", *TINY),
        "forward",
        ["decisions_per_s"],
    )
    assert figure["limit"] is None


def test_update_counts_every_pass(capsys):
    """Two passes train on every decision twice."""
    found = result_of(capsys, "update", *PPO, *SMALL, "--set", "players.main_agent.ppo.epochs=2", *TINY)
    figures = checked(found, "update", ["samples_per_s", "updates_per_s"])
    assert found["passes"] == 2
    samples, updates = (figure["median"] for figure in figures)
    assert samples == pytest.approx(2 * updates * figures[0]["decisions"])


def test_sampling_is_limited_by_environment_and_policy(capsys):
    """The note says where the time goes."""
    found = result_of(capsys, "sampling", *PPO, *SMALL, "--matches", "3", *TINY)
    (figure,) = checked(found, "sampling", ["decisions_per_s"])
    assert figure["limit_of"] == "1/(1/environment + 1/forward)"
    assert "µs per decision" in found["notes"][0]


def test_opponents_are_compared_with_one(capsys):
    """Which is measured even if it is not asked for."""
    found = result_of(
        capsys, "opponents", *PPO, *SMALL, "--count", "3", "--matches", "8", "--rows-per-fixture", "2", *TINY
    )
    figures = checked(found, "opponents", ["decisions_per_s"])
    assert [figure["opponents"] for figure in figures] == [1, 3]
    assert figures[0]["ratio"] == 1.0
    assert found["relative"].keys() == {"1", "3"}


@pytest.mark.parametrize(("given", "rows"), [([], 2), (["--rows-per-fixture", "4"], 4)])
def test_rows_of_each_opponent_are_as_configured_unless_given(capsys, given, rows):
    """So the default says what a run loses."""
    found = result_of(capsys, "opponents", *PPO, *SMALL, "--count", "1", "--matches", "8", *given, *TINY)
    assert (found["config"]["rows_per_fixture"], found["config"]["fixture_matches"]) == (rows, 4)


def test_transport_compares_shared_memory_with_frames(capsys):
    """From a real process, a real block; over TCP it is packed."""
    found = result_of(capsys, "transport", *PPO, *SMALL, *TINY)
    figures = checked(found, "transport", ["mb_per_s"])
    assert [figure["way"] for figure in figures] == ["shared memory", "zmq frames", "tcp"]
    assert 0 < found["tcp_bytes_per_decision"] < found["bytes_per_decision"]
    assert found["shared_over_frames"] == pytest.approx(figures[0]["median"] / figures[1]["median"])


def test_an_interrupt_ends_transport_with_one_line():
    """It reaches the processes that send, too; they say nothing and are gone."""
    command = [sys.executable, "-m", "ludus", "bench", "transport", *PPO, *SMALL, "--seconds", "60"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # not inherited: a shell in the background leaves it ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        end = time.monotonic() + 60
        while len(started := process_tree(process.pid)) < 1 + 3 and time.monotonic() < end:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=30)  # until nobody holds the pipe any more
    assert len(started) >= 1 + 3
    assert said == "interrupted\n"
    assert process.returncode == 130


def test_weights_reach_every_sampler(capsys):
    """Both ways; a time in milliseconds."""
    found = result_of(capsys, "weights", "--parameters", "1e4", "--samplers", "2", *TINY)
    figures = checked(found, "weights", ["time_ms"])
    assert [figure["way"] for figure in figures] == ["shared memory", "zmq frames"]
    assert found["config"]["parameters"] == 10_000


def test_the_help_of_weights_asks_for_one_number(capsys):
    """Other commands take several with commas between them."""
    assert main(["bench", "weights", "--help"]) == 0
    assert "--parameters N " in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ("forward", "--env", "connect4", "--threads", "100000000000000000000"),
        ("forward", "--env", "connect4", "--rows", "1e30"),
        ("weights", "--parameters", "1e30"),
        ("weights", "--samplers", "1000000"),
        ("opponents", "--env", "connect4", "--count", "1000000000"),
        ("update", "--env", "connect4", "--repeats", "1000000000"),
    ],
)
def test_numbers_that_no_machine_takes_are_wrong_usage(capsys, arguments):
    """Before anything is measured."""
    assert main(["bench", *arguments]) == 2
    assert f"Invalid value for '{arguments[-2]}'" in capsys.readouterr().err


def test_tune_ends_with_lines_of_toml(capsys, tmp_path):
    """Which a configuration accepts."""
    found = result_of(capsys, "tune", *PPO, *SMALL, "--seconds", "1")
    checked(found, "tune", ["sampling_per_s", "update_per_s"])
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
def test_selfplay_prints_what_is_promised(capsys, caplog, workers):
    """Of a whole run, in one process or several; every step is told to whoever waits."""
    caplog.set_level("INFO", "ludus_bench")
    found = result_of(capsys, "selfplay", *PPO, *SMALL, "--seconds", "1", "--warmup", "0", "--workers", workers)
    both = ["decisions_per_s", "forward_per_s", "update_per_s"]
    checked(found, "selfplay", ["env_per_s", *both, *(f"{name}{AS_PLAYED}" for name in both)])
    assert found.keys() >= SELFPLAY
    assert found["ratio"] == pytest.approx(found["decisions_per_s"] / found["limit_per_s"])
    parts = found["parts"]
    whole = harmonic(parts["env_per_s"], parts["forward_per_s"], parts["update_per_s"])
    assert found["limit_per_s"] == pytest.approx(found["machine"]["cores"] * whole)
    as_played = found["as_played"]
    assert as_played.keys() == {"limit_per_s", "ratio", "ratios", "parts"}
    assert as_played["ratio"] == pytest.approx(found["decisions_per_s"] / as_played["limit_per_s"])
    whole = harmonic(found["parts"]["env_per_s"], *as_played["parts"].values())
    assert as_played["limit_per_s"] == pytest.approx(found["machine"]["cores"] * whole)
    assert found["peak_rss_mb"] > 50
    *others, measuring = [record.getMessage() for record in caplog.records if record.name.startswith("ludus_bench")]
    assert others == ["starting a run", "it learns; measuring it"]
    assert measuring.startswith("measuring env, forward, update, ")


def test_parts_can_go_on_from_what_a_run_has_learned(tmp_path):
    """Trainer, policy and sampler have the weights of the model next to a moment then, not those of a new run."""
    options = [text for flag, text in zip(PPO + SMALL, (PPO + SMALL)[1:], strict=False) if flag == "--set"]
    setup = open_setup(Source(environment="dummy-count", overrides=tuple(options)))
    path, folder = tmp_path / "small.toml", tmp_path / "run"
    path.write_text(setup.dump(run={"decisions": 600, "workers": 0}), encoding="utf-8")
    assert (
        main(["train", str(path), "--run", str(folder), "--set", "players.main_agent.freeze_every_decisions=100"]) == 0
    )
    with open_run(folder) as run:
        models = list(run.models.values())
    then = models[len(models) // 2]
    assert len({model.hash for model in models}) == len(models) > 2
    expected = load_arrays(folder / "models", then.hash)
    left = setup.during(folder, at_s=then.manifest["elapsed_s"])
    for name, array in left.learned().trainer.weights().items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
        np.testing.assert_array_equal(left._first_weights()["main_agent"][name], expected[name], err_msg=name)
    first = setup.learned().trainer.weights()
    assert any(not np.array_equal(first[name], array) for name, array in expected.items())


@pytest.mark.slow
def test_memory_follows_every_process(capsys):
    """From start to end."""
    found = result_of(capsys, "memory", *PPO, *SMALL, "--minutes", "0.01", "--warmup", "0", "--workers", "0")
    (figure,) = checked(found, "memory", ["rss_mb"])
    assert figure["process"] == "coordinator"
    assert found["processes"]["coordinator"].keys() == {"start_mb", "end_mb", "peak_mb", "slope_mb_per_minute"}


def is_alive(process):
    """Return whether a process exists and is no zombie."""
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_run_ends_with_its_measurement(number, tmp_path):
    """It has no limit of its own; what can be undone is, as after Ctrl-C."""
    with subprocess.Popen(
        [sys.executable, "-m", "ludus", "bench", "memory", *DUMMY, "--workers", "1"],
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
    ("arguments", "said"),
    [
        (["env", "no-such-game"], "no-such-game"),
        (["env", "dummy-guess", "--set", "environment.dummy-guess.nothing=1"], "unknown key"),
        (["forward"], "give a TOML file or --env NAME"),
        (["update", "--env", "dummy-count", "--network", "nothing"], "'nothing'"),
        (["forward", "run.toml", "--env", "dummy-guess"], "not both"),
        (["sampling", "missing.toml"], "missing.toml"),
        (["forward", *DUMMY, "--device", "nonsense"], "--device: expected cpu or cuda"),
        (["transport", "--env", "dummy-count", "--algorithm", "nothing"], "nothing"),
        (["weights", "--parameters", "1,2"], "expected one number"),
        (["env", "dummy-guess", "--matches", "0"], "expected whole numbers"),
        (["env", "dummy-guess", "--matches", "many"], "expected whole numbers"),
    ],
)
def test_wrong_input_is_said_in_one_line(capsys, arguments, said):
    """And nothing is measured."""
    assert main(["bench", *arguments]) in (1, 2)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.lower().startswith("error")]
    assert said in line


def test_a_gpu_that_is_not_there_is_said_in_one_line(capsys):
    """Before anything is measured."""
    assert main(["bench", "update", *DUMMY, "--device", "cuda:99"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "--device: expected a device that torch computes on here (cpu" in line


def test_a_trainer_with_a_memory_is_measured_while_it_learns(capsys):
    """Not while it only remembers; a gradient step draws what its options say."""
    pytest.importorskip("ludus_dqn")
    options = {"learning_starts": 200, "batch_decisions": 64, "minibatch_size": 16, "updates_per_batch": 3}
    sets = [f"--set=players.main_agent.dqn.{name}={value}" for name, value in options.items()]
    found = result_of(capsys, "update", "--env", "dummy-count", "--algorithm", "dqn", *sets, *TINY)
    figure, _ = checked(found, "update", ["samples_per_s", "updates_per_s"])
    assert figure["minibatch"] == 16
    assert found["passes"] == pytest.approx(3 * 16 / figure["decisions"])
    assert figure["limit"] is not None


@pytest.mark.parametrize("part", ["forward", "update"])
def test_critics_that_read_actions_are_measured(capsys, part):
    """Which are no part of what is observed."""
    pytest.importorskip("ludus_sac")
    pytest.importorskip("ludus_gymnasium")
    pendulum = ["--env", "gymnasium", "--set", "environment.gymnasium.id=Pendulum-v1", "--algorithm", "sac"]
    sizes = ["--set", "sampling.matches=4", "--set", "players.main_agent.sac.updates_per_batch=1"]
    found = result_of(capsys, part, *pendulum, *sizes, *TINY)
    assert all(figure["limit"] > 0 for figure in found["figures"])


def test_opponents_of_other_roles_see_what_their_role_sees(capsys):
    """In a game where the roles observe different things."""
    pytest.importorskip("ludus_chase")
    counts = ["--count", "2", "--matches", "4", "--rows-per-fixture", "2"]
    found = result_of(capsys, "opponents", "--env", "chase", *counts, *TINY)
    checked(found, "opponents", ["decisions_per_s"])
