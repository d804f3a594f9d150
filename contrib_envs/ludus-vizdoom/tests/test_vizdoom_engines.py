"""Engines leave nothing behind, however their process ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ludus.errors import PluginError, WorkerError
from ludus_vizdoom import engine as engine_module
from ludus_vizdoom.config import ScenarioConfig
from ludus_vizdoom.engine import Engine, PlayerThread, load_library, start_all
from ludus_vizdoom.settings import GameSettings

LIMIT_S = 5.0
START = """
import time
import numpy as np
from ludus_vizdoom.{module} import make_environment
from ludus_vizdoom.config import DeathmatchConfig, ScenarioConfig
env = make_environment({config}, num_matches={matches})
env.reset(np.arange({matches}, dtype=np.uint64))
print("ready", flush=True)
time.sleep(60)
"""
RUN = """
[environment]
name = "vizdoom-deathmatch"
[environment.vizdoom-deathmatch]
players = 2
time_limit_s = 600.0

[players.main_agent]
algorithm = "ppo"
network = "mlp"
matchmaker = "latest-self-play"

[anchors.random]
agent = "random"
"""


def engines_below(process: int) -> set[int]:
    """Return the ids of the engines that a process, or one that it started, has started."""
    parents, engines = {}, set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if (folder / "cmdline").read_bytes().split(b"\0")[0].endswith(b"vizdoom/vizdoom"):
                engines.add(int(folder.name))
        except OSError:
            continue  # it has ended meanwhile
    return {engine for engine in engines if _descends(engine, process, parents)}


def _descends(process, ancestor, parents):
    while process in parents and process != ancestor:
        process = parents[process]
    return process == ancestor


def alive(processes: set[int]) -> set[int]:
    """Return those of some engines that still run."""
    found = set()
    for process in processes:
        try:
            if b"vizdoom" in Path("/proc", str(process), "cmdline").read_bytes():
                found.add(process)
        except OSError:
            continue
    return found


def wait_until(condition, limit_s) -> bool:
    """Return whether a condition holds before a time limit."""
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("module", "config", "matches", "engines"),
    [
        ("scenario_game", "ScenarioConfig()", 2, 2),
        ("deathmatch", "DeathmatchConfig(players=2)", 1, 2),
        ("scenario_game", "ScenarioConfig(workers=1)", 2, 2),
    ],
)
def test_no_engine_outlives_a_process_that_is_killed(module, config, matches, engines):
    """SIGKILL leaves it no time to clean up; the kernel kills its engines."""
    script = START.format(module=module, config=config, matches=matches)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        started = engines_below(process.pid)
        process.kill()
        process.wait()
    assert len(started) == engines
    assert wait_until(lambda: not alive(started), LIMIT_S)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_check_leaves_no_engine(tmp_path, sent):
    """Two engines of one match end with ``ludus check``."""
    (tmp_path / "run.toml").write_text(RUN)
    command = [sys.executable, "-m", "ludus", "check", "run.toml"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert wait_until(lambda: len(engines_below(process.pid)) >= 2, 60)
        started = engines_below(process.pid)
        process.send_signal(sent)
        process.communicate(timeout=30)
    assert process.returncode != 0
    assert wait_until(lambda: not alive(started), LIMIT_S)
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]  # the engine created no files here


def make_engine(*arguments) -> Engine:
    """Return an engine of the scenario basic that is not started."""
    settings = GameSettings.of(ScenarioConfig(), "basic")

    def configure(game):
        settings.apply(game)
        game.add_game_args(" ".join(arguments))

    return Engine(configure)


def test_an_engine_that_ends_while_it_starts_is_one_line(wait_for_end):
    """ViZDoom's library would end the whole process; the last output of the engine is part of the error."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("0.0.0.0", 0))
        engine = make_engine(f"-host 2 -port {other.getsockname()[1]}")
        with pytest.raises(WorkerError, match=r"engine ended while it started; its last output: .*already in use"):
            start_all([engine], 20.0)
    wait_for_end(engine)


def test_ctrl_c_of_a_terminal_is_for_the_parent_only(wait_for_end):
    """The engine has a process group of its own."""
    engine = make_engine()
    start_all([engine], 20.0)
    (process,) = engine.processes()
    group = os.getpgid(process)
    engine.close()
    assert group != os.getpgid(0)
    wait_for_end(engine)


def test_files_of_killed_engines_are_removed(tmp_path, monkeypatch):
    """Shared memory that no process uses and folders of dead processes; younger files and those in use stay."""
    monkeypatch.setattr(engine_module, "_SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(engine_module.tempfile, "gettempdir", lambda: str(tmp_path))
    for name, age_s in (("ViZDoomSMold", 100), ("ViZDoomSMyoung", 0), ("other", 100)):
        (tmp_path / name).write_bytes(b"0")
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    (tmp_path / "ludus-vizdoom-999999999-x").mkdir()
    (tmp_path / f"ludus-vizdoom-{os.getpid()}-x").mkdir()
    engine_module._remove_stale_files()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"ViZDoomSMyoung", "other", f"ludus-vizdoom-{os.getpid()}-x"}


def test_the_launcher_must_be_executable(monkeypatch, tmp_path):
    """Otherwise the installation is named."""
    monkeypatch.setattr(engine_module, "_LAUNCHER", tmp_path / "missing")
    with pytest.raises(PluginError, match="is not executable; install ludus-vizdoom again"):
        make_engine().start()


def test_errors_of_threads_are_raised_in_the_calling_thread():
    """And the thread goes on with the next call."""
    thread = PlayerThread()
    thread.call(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        thread.wait(5.0)
    thread.call(load_library)
    thread.wait(5.0)
    thread.stop(5.0)
