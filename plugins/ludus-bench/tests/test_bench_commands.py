"""Every command, with settings as small as they can be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress

import attrs
import numpy as np
import psutil
import pytest
import torch
from ludus.__main__ import main
from ludus._models import load_arrays
from ludus.errors import ConfigError, ContractError
from ludus.kernels import has_bf16
from ludus.runs import open_run
from ludus_bench._pieces import Source, open_setup
from ludus_bench._sampling import Dealer
from ludus_bench.gemm import trace_gemms
from ludus_bench.machine import process_tree
from ludus_bench.parts import AS_PLAYED, Acting, Computing, Rates, Updating, all_different, as_played, harmonic, rows_of
from ludus_bench.play import RandomPlay
from ludus_bench.report import Limit
from ludus_bench.single import on_device
from ludus_bench.timing import Rate, Stopwatch

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


# -- parts ---------------------------------------------------------------------------------------------------------


def setup_of(*overrides, algorithm="ppo"):
    """Return a small configuration."""
    return open_setup(
        Source(environment="dummy-count", algorithm=algorithm, overrides=("sampling.matches=4", *overrides))
    )


def acting_of(setup, **how):
    """Return six decisions of a configuration."""
    with closing(setup.sampling(matches=4)) as sampling:
        return Acting(learned=setup.learned(**how), batches=[rows_of(sampling.record(8), 6)])


def updating_of(setup, **how):
    """Return an update of a configuration."""
    learned = setup.learned(**how)
    with closing(setup.sampling(matches=4)) as sampling:
        return Updating.of(learned, sampling.record(learned.trainer.batch_decisions))


def test_random_play_is_legal_and_goes_on_for_ever():
    """Rows that end start anew; the environment raises at an illegal action."""
    play = RandomPlay(setup_of().environment(3), Stopwatch("wall"))
    for _ in range(200):
        assert play.step() == 3.0
    assert play.ticks == 600
    assert 0 < play.decisions <= 2 * 600
    assert play.inside.total_s > 0


def test_rows_are_decisions_repeated_where_there_are_fewer():
    """With everything that was recorded of them."""
    setup = setup_of()
    sampling = setup.sampling(matches=4)
    recorded = sampling.record(20)
    sampling.close()
    few, many = rows_of(recorded, 5), rows_of(recorded, 10_000)
    assert {len(array) for array in few.values()} == {5}
    assert {len(array) for array in many.values()} == {10_000}
    assert np.array_equal(few["action"], many["action"][:5])
    assert few["decided"].all()


def test_samplers_get_new_weights_after_every_block():
    """Or what a network answered before would be remembered for ever."""
    with closing(setup_of().sampling(matches=4)) as sampling:
        versions = [block.version.max() for block in sampling.record(1000)]
    assert len(versions) > 3
    assert versions[1:] == sorted(set(versions))  # the second is begun before the first has arrived


def test_what_is_played_before_is_not_recorded(monkeypatch):
    """So that matches that began together are out of step."""
    with closing(setup_of().sampling(matches=4)) as sampling:
        played, work = [], sampling.work
        monkeypatch.setattr(sampling, "work", lambda: played.append(work()) or played[-1])
        recorded = sampling.record(20, after=500)
    assert sum(played) >= 500
    assert 20 <= sum(batch.num_decisions for batch in recorded) < 300


def test_an_update_takes_about_one_batch():
    """However much was recorded."""
    setup = setup_of("players.main_agent.ppo.batch_decisions=32", "players.main_agent.ppo.segment_decisions=4")
    sampling = setup.sampling(matches=4)
    recorded = sampling.record(200)
    sampling.close()
    updating = Updating.of(setup.learned(), recorded)
    assert 24 <= updating.decisions < 48
    assert updating.work() == updating.decisions


def test_acting_decides_for_all_rows():
    """And says for how many."""
    acting = acting_of(setup_of())
    assert acting.work() == 6.0
    assert [len(rows["action"]) for rows in acting.batches] == [6]


def test_decisions_as_played_meet_new_weights_after_every_block(monkeypatch):
    """Tick by tick, each block by itself; the rest of a tick that a block ends with is left out."""
    setup = setup_of()
    with closing(setup.sampling(matches=4)) as sampling:
        recorded = sampling.record(400)
    learned, rows, done = setup.learned(), 3, []
    monkeypatch.setattr(learned.policy, "load", lambda weights: done.append("load"))
    act = learned.policy.act
    monkeypatch.setattr(learned.policy, "act", lambda seen, **how: done.append(len(seen["obs"])) or act(seen, **how))
    acting = as_played(learned, recorded, rows)
    assert acting.work() == acting.count
    assert done == [x for block in recorded for x in ("load", *[rows] * (block.num_decisions // rows))]
    assert len(recorded) > 1


def test_decisions_that_are_all_different_hold_what_was_seen():
    """Every element has the values that it had, mostly beside others; where nothing was decided nothing changes."""
    pytest.importorskip("ludus_board")
    setup = open_setup(Source(environment="connect4"))
    with closing(setup.sampling(matches=64)) as sampling:
        recorded = sampling.record(4000, after=4000)
    changed = all_different(recorded)
    assert any(np.count_nonzero(~block.trainable()) for block in recorded)
    for before, since in zip(recorded, changed, strict=True):
        chosen = before.trainable()
        assert since.observation.keys() == before.observation.keys()
        for name, leaf in before.observation.items():
            dealt = since.observation[name]
            assert (dealt.dtype, dealt.shape) == (leaf.dtype, leaf.shape)
            np.testing.assert_array_equal(np.sort(dealt[chosen], axis=0), np.sort(leaf[chosen], axis=0))
            np.testing.assert_array_equal(dealt[~chosen], leaf[~chosen])
        np.testing.assert_array_equal(since.action, before.action)
    assert share_of_different(recorded) < 0.9
    assert share_of_different(changed) > 0.99


def test_large_observations_differ_by_some_of_their_elements(monkeypatch):
    """Of images it would take long to deal all anew."""
    pytest.importorskip("ludus_board")
    monkeypatch.setattr("ludus_bench.parts._MOST_DEALT", 5)
    with closing(open_setup(Source(environment="connect4")).sampling(matches=64)) as sampling:
        recorded = sampling.record(4000, after=4000)
    for before, since in zip(recorded, all_different(recorded), strict=True):
        for name, leaf in before.observation.items():
            changed = (since.observation[name] != leaf).any(axis=(0, 1))
            assert 1 <= np.count_nonzero(changed) <= 5


def share_of_different(batches):
    """Return which share of observations are the first of their kind."""
    seen = rows_of(batches, sum(np.count_nonzero(batch.trainable()) for batch in batches))
    leaves = [leaf.reshape(len(leaf), -1) for name, leaf in seen.items() if name.startswith("observation/")]
    rows = np.concatenate(leaves, axis=1)
    return len(np.unique(rows, axis=0)) / len(rows)


def test_policies_have_a_cache_only_where_they_are_to_be_as_in_a_run():
    """By themselves they are asked about every row."""
    for on in ("true", "false"):
        setup = setup_of(f"sampling.evaluation_cache={on}")
        cached = [hasattr(setup.learned(cached=how).policy._inference, "parameters") for how in (True, False)]
        assert cached == [on == "true", False]


@pytest.mark.parametrize("on", ["true", "false"])
def test_samplers_count_what_their_networks_evaluate(on):
    """Through caches, where there are such."""
    with closing(setup_of(f"sampling.evaluation_cache={on}").sampling(matches=4)) as sampling:
        sampling.record(64)
        counted, made = sampling._sampler.evaluations, sampling._sampler.count
    assert (counted.wanted, counted.made > 0) == ((made, True) if on == "true" else (0, False))


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_a_decision_has_the_products_of_the_networks_that_act(algorithm):
    """Two layers and the heads; the critics of sac have nothing to say then."""
    pytest.importorskip(f"ludus_{algorithm}")
    setup = setup_of(algorithm=algorithm)
    heads = {"ppo": 2, "sac": 1}[algorithm]
    assert len(acting_of(setup, plain=True).gemms()) == 2 + heads


@pytest.mark.parametrize("kernels", ["auto", "numpy", "torch", "onednn"])
def test_an_update_has_the_products_of_every_pass(kernels):
    """Forwards, and backwards to the weights and to all inputs but the first, whatever the kernels are.

    With rounded gradients both heads are one product.
    """
    options = {"epochs": 3, "num_minibatches": 2, "batch_decisions": 32, "segment_decisions": 4, "cpu_kernels": kernels}
    setup = setup_of(*(f"players.main_agent.ppo.{name}={value}" for name, value in options.items()))
    products = 3 if has_bf16() else 4
    assert len(updating_of(setup, plain=True).gemms()) == 3 * 2 * (products + products + products - 1)


def test_networks_that_only_make_targets_have_no_gradients():
    """Deep Q-learning runs three networks with as many rows, and learns one."""
    pytest.importorskip("ludus_dqn")
    options = {"updates_per_batch": 5, "minibatch_size": 16, "learning_starts": 1, "double": "true"}
    setup = setup_of(*(f"players.main_agent.dqn.{name}={value}" for name, value in options.items()), algorithm="dqn")
    gemms = updating_of(setup, plain=True).gemms()
    forward, backward = 3, 5
    assert len(gemms) == 5 * (3 * forward + backward)


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


def test_a_trainer_that_never_learns_is_said_instead_of_measured(monkeypatch):
    """With how long it was waited for."""
    pytest.importorskip("ludus_dqn")
    monkeypatch.setattr("ludus_bench.parts._MOST_UPDATES", 3)
    setup = setup_of("players.main_agent.dqn.learning_starts=90_000", algorithm="dqn")
    with pytest.raises(ConfigError, match=r"player 'main_agent': the first 3 updates, with .* learned nothing"):
        updating_of(setup)


@pytest.mark.parametrize("part", ["forward", "update"])
def test_critics_that_read_actions_are_measured(capsys, part):
    """Which are no part of what is observed."""
    pytest.importorskip("ludus_sac")
    pytest.importorskip("ludus_gymnasium")
    pendulum = ["--env", "gymnasium", "--set", "environment.gymnasium.id=Pendulum-v1", "--algorithm", "sac"]
    sizes = ["--set", "sampling.matches=4", "--set", "players.main_agent.sac.updates_per_batch=1"]
    found = result_of(capsys, part, *pendulum, *sizes, *TINY)
    assert all(figure["limit"] > 0 for figure in found["figures"])


def test_a_network_runs_alone_on_a_device():
    """With its inputs taken there and its heads taken back."""
    setup = setup_of()
    work = on_device(acting_of(setup), setup.network(), "cpu")
    assert work() == 6.0
    assert len(trace_gemms(work)) == 4


def test_without_a_network_there_is_nothing_to_run_alone():
    """Which is said with the algorithm's name."""
    with pytest.raises(ConfigError, match="'dummy-gradient' runs no network"):
        setup_of(algorithm="dummy-gradient").network()


def test_a_game_in_which_nobody_acts_is_said_instead_of_played_for_ever(monkeypatch):
    """With what to do about it."""
    with closing(setup_of().sampling(matches=4)) as sampling:
        monkeypatch.setattr(sampling, "work", lambda: 0.0)
        with pytest.raises(ContractError, match="no seat acted"):
            sampling.record(1)


def test_without_another_team_there_are_no_opponents(capsys):
    """Whatever the algorithm is."""
    pytest.importorskip("ludus_gymnasium")
    assert main(["bench", "opponents", "--env", "gymnasium"]) == 1
    assert capsys.readouterr().err == "error: environment 'gymnasium' has one team, so nobody is an opponent there\n"


def test_opponents_differ_from_each_other(tmp_path):
    """Each has a file of its own."""
    found = setup_of().freeze(3, tmp_path)
    assert len(set(found.hashes.values())) == 3
    assert list(found.hashes) == ["main_agent@1", "main_agent@2", "main_agent@3"]


def test_opponents_are_models_of_the_player_that_learns_their_role(tmp_path):
    """Both roles in turn, each against every model of the other one, drawn by lot."""
    setup = open_setup(Source(environment="dummy-guess"))
    hider, seeker = setup.players
    frozen = setup.freeze(3, tmp_path)
    roles = [seat.role for seat in setup.spec().seats]
    dealer = Dealer(((0, hider), (1, seeker)), 16, frozen.first(2))
    assert roles == [hider, seeker]
    fixtures = dealer.deal(40).fixtures
    assert {(fixture.player, *fixture.participants) for fixture in fixtures} == {
        (hider, f"{hider}@0+", f"{seeker}@1"),
        (hider, f"{hider}@0+", f"{seeker}@2"),
        (seeker, f"{hider}@1", f"{seeker}@0+"),
        (seeker, f"{hider}@2", f"{seeker}@0+"),
    }
    assert [fixture.player for fixture in fixtures[:4]] in ([hider, seeker] * 2, [seeker, hider] * 2)
    for fixture in fixtures:
        (model,) = set(fixture.participants) & set(frozen.hashes)
        assert fixture.models == {model: frozen.hashes[model]}


def test_opponents_of_other_roles_see_what_their_role_sees(capsys):
    """In a game where the roles observe different things."""
    pytest.importorskip("ludus_chase")
    counts = ["--count", "2", "--matches", "4", "--rows-per-fixture", "2"]
    found = result_of(capsys, "opponents", "--env", "chase", *counts, *TINY)
    checked(found, "opponents", ["decisions_per_s"])


def test_a_minibatch_becomes_a_number_of_minibatches():
    """As near as whole numbers allow."""
    setup = setup_of("players.main_agent.ppo.batch_decisions=100")
    assert setup.with_minibatch(30).minibatch_option == ("players.main_agent.ppo.num_minibatches", 3)
    assert setup_of(algorithm="dummy-gradient").minibatch_option is None


def test_a_configuration_is_written_with_other_values_and_without_sinks():
    """What is not named stays."""
    text = setup_of("metrics.interval_s=5.0").dump(run={"workers": 3}, sampling={"matches": 7})
    assert "workers = 3" in text
    assert "matches = 7" in text
    assert 'matchmaker = "latest-self-play"' in text
    assert "metrics" not in text


def test_rates_one_after_another_add_up_as_times():
    """1 / (1/2 + 1/2) = 1."""
    assert harmonic(2.0, 2.0) == 1.0
    assert harmonic(3.0, 6.0) == pytest.approx(2.0)


def test_rates_measured_in_turns_are_joined():
    """Repeats of all turns count, and medians of what there is one of in each."""

    def turn(env, update, limit):
        limits = {"forward": None, "update": Limit(value=limit, of="products")}
        each, played = (computing(x * update, cores=update / 10) for x in (1, 2))
        return Rates(env=env, each=each, played=played, rows=4, minibatch=8, limits=limits)

    joined = Rates.joined([turn(1.0, 5.0, 30.0), turn(2.0, 7.0, 10.0), turn(6.0, 9.0, 20.0)])
    assert (joined.env, joined.rows, joined.minibatch) == (2.0, 4, 8)
    assert joined.each.update == Rate(per_s=(5.0, 7.0, 9.0), cores=pytest.approx(0.7))
    assert joined.played.forward == Rate(per_s=(10.0, 14.0, 18.0), cores=pytest.approx(0.7))
    assert joined.limits == {"forward": None, "update": Limit(value=20.0, of="products")}


def computing(per_s, cores=1.0):
    """Return equal rates of forward and update."""
    rate = Rate(per_s=(per_s,), cores=cores)
    return Computing(forward=rate, update=rate)


def test_a_gpu_bounds_what_all_cores_play():
    """It updates no faster for there being more of them."""
    rates = Rates(env=6.0, each=computing(6.0), played=computing(12.0), rows=4, minibatch=8, limits={})
    assert rates.selfplay(2) == rates.selfplay(2, gpus=1) == pytest.approx(4)
    assert rates.selfplay(16) == rates.selfplay(16, gpus=9) == pytest.approx(32)
    assert (rates.selfplay(16, gpus=1), rates.selfplay(16, gpus=2)) == (6, 12)
    assert rates.selfplay(2, as_played=True) == pytest.approx(6)
    assert rates.selfplay(16, gpus=1, as_played=True) == 12


def test_gpus_are_those_that_learners_get(monkeypatch):
    """Of all where any will do, and no more than there are learners."""
    setup = open_setup(Source(environment="dummy-count"))
    assert (setup.device, setup.gpus) == ("cpu", 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    for device, learners, expected in (("cuda", 1, 1), ("cuda", 2, 2), ("cuda", 4, 3), ("cuda:1", 4, 1)):
        run = attrs.evolve(setup.config.run, device=device)
        player = attrs.evolve(setup.config.players["main_agent"], learner_processes=learners)
        config = attrs.evolve(setup.config, run=run, players={"main_agent": player})
        assert attrs.evolve(setup, config=config).gpus == expected


def test_without_a_file_every_role_has_a_player():
    """Named after the role where there are several."""
    assert open_setup(Source(environment="dummy-count")).players == ("main_agent",)
    several = open_setup(Source(environment="dummy-guess"))
    assert several.players == tuple(role.name for role in several.spec().roles)
    assert len(several.players) == 2
