"""Games that hold processes, or that are slow to make and to start: real runs of the command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest
import tomli_w

GAME = '''
import multiprocessing, os, signal, subprocess, sys, time
import gymnasium, numpy as np
from gymnasium import spaces


def rules(pipe):
    while True:
        pipe.send(pipe.recv() + 1)


class Game(gymnasium.Env):
    """The rules run in a child process; starts are logged."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, method="", make_s=0.0, reset_s=0.0, log="", hang=False, daemon=True, engine=False):
        time.sleep(make_s)
        self.reset_s, self.log, self.hang = reset_s, log, hang
        self.child = self.pipe = None
        self.engine = subprocess.Popen(["sleep", "100"]) if engine else None
        if method:
            context = multiprocessing.get_context(method)
            self.pipe, far = context.Pipe()
            self.child = context.Process(target=rules, args=(far,), daemon=daemon)
            self.child.start()
        self.write("made")

    def write(self, word):
        if self.log:
            with open(self.log, "a") as file:
                file.write(f"{word}\\n")

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        time.sleep(self.reset_s)
        self.ticks = 0
        self.write("reset")
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.ticks += 1
        if self.pipe is not None:
            self.pipe.send(self.ticks - 1)
            assert self.pipe.recv() == self.ticks
        if self.hang and self.ticks == 3:
            self.write("hangs")
            self.pipe.recv()
        return np.zeros(1, np.float32), 1.0, self.ticks == 10, False, {}

    def close(self):
        if self.engine is not None:
            self.engine.kill()
            self.engine.wait()
        if self.child is not None:
            self.child.terminate()
            self.child.join()


gymnasium.register("Game-v0", entry_point="game:Game")
'''


@pytest.fixture
def configure(tmp_path):
    """Return a function that writes the TOML file of a small run of the game."""
    (tmp_path / "game.py").write_text(GAME)

    def make(options, **sections):
        tables = {
            "run": {"seed": 1, "decisions": 400, "workers": 0, **sections.get("run", {})},
            "environment": {"name": "gymnasium", "gymnasium": {"id": "game:Game-v0", "options": options}},
            "sampling": {"matches": 2, "rows_per_fixture": 2, **sections.get("sampling", {})},
            "players": {
                "main": {
                    "algorithm": "dummy-gradient",
                    "dummy-gradient": {"segment_decisions": 4, "batch_decisions": 64},
                    "matchmaker": "dummy-uniform",
                    **sections.get("main", {}),
                }
            },
            "evaluation": {"enabled": False, "final_matches": 0, **sections.get("evaluation", {})},
            "league": {"rating": "dummy-share"},
        }
        path = tmp_path / "run.toml"
        path.write_text(tomli_w.dumps(tables))
        return path

    return make


@pytest.fixture
def start(tmp_path):
    """Return a function that starts the command in the folder of the game, and ends what still runs."""
    started = []

    def make(*arguments):
        path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
        process = subprocess.Popen(
            [sys.executable, "-m", "ludus", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield make
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def finish(process, timeout_s=60):
    """Return the exit status and the output of a command."""
    output, _ = process.communicate(timeout=timeout_s)
    return process.returncode, output


def count_starts(path):
    """Return how often a game was made."""
    return path.read_text().count("made") if path.exists() else 0


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("method", ["fork", pytest.param("forkserver", marks=pytest.mark.slow), "spawn"])
def test_a_game_with_a_process_trains(configure, start, method, workers):
    """Its close ends the process, although ludus handles SIGTERM."""
    path = configure({"method": method}, run={"workers": workers})
    status, output = finish(start("train", path, "--run", "run"))
    assert (status, "stopped: 400 decisions are learned" in output) == (0, True), output
    assert "was killed" not in output


@pytest.mark.parametrize("command", ["check", "eval"])
def test_commands_end_the_processes_of_a_game(configure, start, command):
    """As train does."""
    path = configure({"method": "fork"})
    if command == "eval":
        assert finish(start("train", path, "--run", "run"))[0] == 0
        status, output = finish(start("eval", "run", "main@latest", "--matches", 4))
    else:
        status, output = finish(start("check", path))
    assert status == 0, output


def test_a_process_that_a_game_leaves_ends(configure, start, tmp_path):
    """Python would wait for it, since it is no daemon."""
    path = configure({"method": "fork", "daemon": False})
    (tmp_path / "game.py").write_text(GAME.replace("self.child.terminate()", "return"))
    status, output = finish(start("train", path, "--run", "run", "--workers", 1), timeout_s=40)
    assert status == 0, output
    assert "did not stop" not in output


@pytest.mark.parametrize("game_workers", [0, 1])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_leave_no_engine_of_a_checked_game(configure, start, tmp_path, number, game_workers):
    """The game hangs in a tick, in this process or in one that plays it for the check."""
    path = configure({"method": "fork", "hang": True, "engine": True, "log": str(tmp_path / "log")})
    process = start("check", path, "--set", f"environment.gymnasium.workers={game_workers}")
    wait_for(tmp_path / "log", "hangs")
    process.send_signal(number)
    assert finish(process)[0] == 130
    assert [pid for pid in children_of_group(process.pid) if pid != process.pid] == []


def children_of_group(group):
    """Return the processes of a process group that still run."""
    listed = subprocess.run(["ps", "-eo", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return [int(pid) for pid, pgid, state in rows if int(pgid) == group and not state.startswith("Z")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_ends_a_game_that_hangs(configure, start, tmp_path, number):
    """The game waits for an answer that never comes, in the process of the coordinator."""
    path = configure({"method": "fork", "hang": True, "log": str(tmp_path / "log")})
    (tmp_path / "sitecustomize.py").write_text("import ludus._run.session as s; s._END_TIMEOUT_S = 1.0")
    process = start("train", path, "--run", "run")
    wait_for(tmp_path / "log", "hangs")
    process.send_signal(number)
    status, output = finish(process, timeout_s=30)
    assert status == 130, output
    assert "Traceback" not in output


def wait_for(path, word, *, times=1):
    """Wait until games have logged a word so often."""
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_text().count(word) >= times):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_ctrl_c_reaches_the_game_too(configure, start, tmp_path):
    """The process of the game dies first; the run stops cleanly all the same."""
    path = configure({"method": "fork", "log": str(tmp_path / "log")}, run={"decisions": 0, "minutes": 5.0})
    process = start("train", path, "--run", "run")
    wait_for(tmp_path / "log", "reset", times=6)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    status, output = finish(process, timeout_s=30)
    assert status == 130, output
    assert "stopped: SIGINT" in output


@pytest.mark.parametrize(("workers", "starts"), [(0, 3), (1, 4)])
@pytest.mark.parametrize("evaluation", [{"enabled": False}, {"enabled": True}])
def test_no_copy_is_made_that_is_not_played(configure, start, tmp_path, workers, starts, evaluation):
    """One for the spec in every process that needs it, and two matches; there is nothing to evaluate."""
    path = configure({"log": str(tmp_path / "log")}, run={"workers": workers}, evaluation=evaluation)
    status, output = finish(start("train", path, "--run", "run"))
    assert status == 0, output
    assert count_starts(tmp_path / "log") == starts


def test_check_makes_as_many_copies_as_a_sampler(configure, start, tmp_path):
    """A licence may allow for no more."""
    path = configure({"log": str(tmp_path / "log")}, sampling={"matches": 1, "rows_per_fixture": 1})
    status, output = finish(start("check", path))
    assert status == 0, output
    assert count_starts(tmp_path / "log") == 1


def test_slow_starts_are_not_taken_for_hanging(configure, start):
    """Making the games and starting their matches takes longer than `run.stall_s`; a line names the options."""
    main = {"dummy-gradient": {"segment_decisions": 4, "batch_decisions": 16}}
    run = {"workers": 1, "stall_s": 2.0, "decisions": 16}
    path = configure({"reset_s": 0.8}, run=run, sampling={"matches": 4}, main=main)
    status, output = finish(start("train", path, "--run", "run"))
    assert status == 0, output
    assert "was killed" not in output
    (line,) = re.findall(r"^sampler-0: .* takes long.*$", output, re.MULTILINE)
    assert all(option in line for option in ("sampling.matches", "environment.*.workers", "run.stall_s"))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_that_learned_nothing_fails(configure, start, workers):
    """The reason is one line."""
    main = {"dummy-gradient": {"segment_decisions": 4, "batch_decisions": 100_000}}
    path = configure({"reset_s": 0.2}, run={"workers": workers, "decisions": 0, "minutes": 0.04}, main=main)
    status, output = finish(start("train", path, "--run", "run"))
    assert status == 1, output
    assert re.search(r"^error: nothing was learned: ", output, re.MULTILINE), output


@pytest.mark.parametrize("game_workers", [0, 2])
def test_a_signal_ends_a_run_that_starts_matches(configure, start, tmp_path, game_workers):
    """Between two games, in the process of the coordinator."""
    options = {"reset_s": 0.8, "log": str(tmp_path / "log")}
    path = configure(options, sampling={"matches": 60})
    overrides = ["--set", f"environment.gymnasium.workers={game_workers}"]
    process = start("train", path, "--run", "run", *overrides)
    wait_for(tmp_path / "log", "reset", times=4)
    process.send_signal(signal.SIGTERM)
    started_s = time.monotonic()
    status, output = finish(process, timeout_s=40)
    assert status == 130, output
    assert time.monotonic() - started_s < 15
