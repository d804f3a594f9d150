"""Bad input ends in error lines that state what, where, what was expected and what to do, never in a traceback."""

from __future__ import annotations

import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chaos.league import LIGHT
from ludus._store.database import SCHEMA_VERSION
from ludus._store.store import Store
from ludus.runs import open_run
from ludus_terminal.verify import verify

FAULTY = Path(__file__).with_name("faulty.py").read_text(encoding="utf-8")


def check_error(result, *lines, status=1):
    """Check that a command failed with exactly these error lines, given as patterns."""
    assert result.status == status, result.output
    assert "Traceback" not in result.output
    assert len(result.errors) == len(lines), result.output
    for line, pattern in zip(result.errors, lines, strict=True):
        assert re.fullmatch(pattern, line), line


# -- the file and the command line ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("run.minuts=3", r"error: --set run\.minuts: unknown key.*"),
        ('run.workers="two"', r"error: --set run\.workers: expected an integer, got 'two'"),
        ("run.stall_s=0", r"error: --set run\.stall_s: expected a number ≥ 1, got 0"),
        (
            'environment.name="starcraft"',
            r"error: --set environment\.name: no installed plugin provides .*; plugins are added with: pip .*",
        ),
        ("nonsense", r"error: --set nonsense: expected key\.path=value"),
    ],
)
def test_invalid_option_is_one_line(ludus, toml, setting, line):
    """It holds the file, the key, the value and the expected values."""
    check_error(ludus("train", toml(), "--set", setting), line)


def test_all_mistakes_are_reported_at_once(ludus, toml):
    """There is one line each, with suggestions for misspelt names."""
    path = toml(run={"minuts": 3, "workers": -1}, environment={"name": "dummy-cuont"})
    check_error(
        ludus("train", path),
        r"error: .*run\.toml:run\.minuts: unknown key.*",
        r"error: .*run\.toml:run\.workers: expected a whole number from 0 to 10000, got -1",
        r"error: .*run\.toml:environment\.name: .* — did you mean 'dummy-count'\? — installed: .*",
    )


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"[run\nx = 1", r"error: bad\.toml:1: not valid TOML: .*"),
        (b"\xff\xfe\x00", r"error: bad\.toml: not a text file in UTF-8"),
        (None, r"error: bad\.toml: no such file"),
    ],
)
def test_unreadable_file_is_one_line(ludus, tmp_path, content, line):
    """The file is invalid TOML, binary, or missing."""
    if content is not None:
        (tmp_path / "bad.toml").write_bytes(content)
    check_error(ludus("train", "bad.toml"), line)


def test_wrong_usage_exits_with_2(ludus):
    """This is the convention of command lines."""
    result = ludus("train", "run.toml", "--workers", "many")
    assert result.status == 2
    assert "'many' is not a valid integer" in result.output


# -- plugins -------------------------------------------------------------------------------------------------------


def test_broken_plugin_is_reported_if_it_is_needed(ludus, install, toml):
    """Other plugins work; `ludus plugins` prints the reason."""
    install("broken-game", "raise RuntimeError('no licence')")
    check_error(
        ludus("train", toml(environment={"name": "broken-game"})),
        r"error: .*run\.toml:environment\.name: no installed plugin provides .* — not loaded: broken-game "
        r"\(see ludus plugins\)",
    )
    listed = ludus("plugins", COLUMNS="200")
    assert "RuntimeError: no licence" in listed.output
    assert ludus("train", toml(), "--set", "run.decisions=64", "--run", "ok").status == 0


def test_misspelt_hook_is_reported(ludus, install, toml):
    """A similar name is suggested; runs that do not need the plugin work."""
    install(
        "misspelt",
        "from ludus import hookimpl\n\n@hookimpl\ndef ludus_register_enviroments():\n    return []\n",
    )
    listed = " ".join(ludus("plugins", COLUMNS="400").output.split())
    assert "ludus_register_enviroments" in listed
    assert "did you mean" in listed
    assert "ludus_register_environments" in listed


# -- run folders ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory):
    """Return the folder of a finished run of a few models."""
    folder = tmp_path_factory.mktemp("trained")
    small = ("run.decisions=5000", "players.main_agent.freeze_every_decisions=2500")
    options = [part for setting in small for part in ("--set", setting)]
    subprocess.run(
        [sys.executable, "-m", "ludus", "train", LIGHT, "--run", folder / "run", "--workers", "0", *options],
        check=True,
        capture_output=True,
    )
    return folder / "run"


@pytest.fixture
def run_copy(trained_run, tmp_path):
    """Return a copy of that run, which tests may damage."""
    return Path(shutil.copytree(trained_run, tmp_path / "copy"))


def flip(path):
    """Change one bit near the end of a file."""
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def test_folder_of_a_run_is_rejected(ludus, toml, trained_run):
    """The line suggests `resume`."""
    check_error(
        ludus("train", toml(), "--run", trained_run),
        f"error: {trained_run} already holds a run: continue it with `ludus resume {trained_run}`, "
        f"or choose another folder with --run",
    )


def test_resume_needs_a_run(ludus, tmp_path):
    """The line suggests `train`."""
    check_error(
        ludus("resume", tmp_path / "none"),
        r"error: .*none holds no run \(no run\.toml in it\): start one with `ludus train FILE --run .*none`",
    )


def test_running_run_is_locked(light_league, ludus, toml):
    """`train` and `resume` fail and do not disturb it."""
    run = light_league()
    run.train()
    run.wait_for(lambda state: state.trained > 0)
    check_error(ludus("train", toml(), "--run", run.folder), r"error: .* already holds a run: .*")
    check_error(
        ludus("resume", run.folder),
        rf"error: .* is in use by pid {run.process.pid}; stop that run first, or choose another folder",
    )
    before = run.state
    run.wait_for(lambda state: state.trained > before.trained)


def test_damaged_model_is_an_error(ludus, run_copy):
    """It is neither rated nor resumed from."""
    with Store.read(run_copy) as store:
        newest = store.models.records()[-1]
    flip(run_copy / "models" / f"{newest.hash}.safetensors")
    line = rf"error: .*{newest.hash}\.safetensors: damaged: its SHA-256 is .*…, expected .*…; restore it from a copy"
    check_error(ludus("eval", run_copy, newest.participant, "random", "--matches", 10), line)
    verified = ludus("league", run_copy, "verify")
    assert verified.status == 1
    assert f"{newest.participant}: " in verified.output


@pytest.mark.parametrize("workers", [0, 1])
def test_damaged_checkpoints_are_replaced_by_the_newest_model(ludus, run_copy, workers):
    """A line states what is lost."""
    for path in run_copy.glob("learners/*/*.safetensors"):
        flip(path)
    result = ludus("resume", run_copy, "--workers", workers, "--set", "run.decisions=9000")
    assert result.status == 0, result.output
    line = r"player 'main_agent': .*\.safetensors: damaged: .*; resumed from main_agent@\d+, .* decisions .* are lost"
    assert re.search(line, result.output)


def test_newer_schema_is_an_error(ludus, run_copy):
    """The line names the required version of ludus."""
    database = sqlite3.connect(run_copy / "league.sqlite")
    database.execute("PRAGMA user_version = 99")
    database.close()
    for command in (("resume", run_copy), ("eval", run_copy, "main_agent@1", "random"), ("league", run_copy)):
        check_error(
            ludus(*command), rf"error: .*: schema 99, this ludus reads {SCHEMA_VERSION}; use the ludus that wrote it"
        )


def test_damaged_database_is_an_error(ludus, run_copy):
    """The line holds the message of SQLite."""
    for path in run_copy.glob("league.sqlite-*"):
        path.unlink()
    data = bytearray((run_copy / "league.sqlite").read_bytes())
    data[8192 : len(data) // 2] = bytes(len(data) // 2 - 8192)
    (run_copy / "league.sqlite").write_bytes(data)
    check_error(
        ludus("resume", run_copy, "--set", "run.decisions=9000"),
        r"error: .*league\.sqlite: not a sound league database: .*[Pp]age.*; restore it from a copy of the run",
    )


def test_file_instead_of_a_run_folder_is_one_line(ludus, toml, tmp_path):
    """The line suggests how to start a run of the file."""
    (tmp_path / "file").touch()
    line = r"error: file is a file, not a folder: choose another folder for the run"
    for command in (("train", toml(), "--run", "file"), ("train", toml(), "--run", "file/run"), ("resume", "file/run")):
        check_error(ludus(*command), line)
    check_error(ludus("resume", "file"), r"error: file is a file: `ludus train file` starts a run of it, .*")


@pytest.mark.parametrize("workers", [0, 1])
def test_unwritable_checkpoint_ends_the_run(ludus, toml, tmp_path, workers):
    """The line suggests a fix, after which the run can be resumed."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/learners").touch()  # a file in place of the folder
    result = ludus("train", toml(), "--run", "run", "--workers", workers)
    check_error(
        result,
        r"error: run cannot be used: .*; free disk space .* and continue with `ludus resume run`, .*",
    )
    assert "restarted" not in result.output
    (tmp_path / "run/learners").unlink()
    assert ludus("resume", "run").status == 0
    with open_run(tmp_path / "run") as run:
        assert verify(run).problems == ()
        assert run.league.players["main"].decisions >= 2000


def test_unusual_folders_work(ludus, toml, tmp_path):
    """Paths hold spaces, quotes and other letters, and are longer than socket paths may be."""
    folder = tmp_path / "a run's ünï 日本" / ("x" * 120)
    result = ludus("train", toml(), "--run", folder, "--workers", 1, "--set", "run.decisions=500")
    assert result.status == 0, result.output
    assert "go on with: ludus resume '" in result.output
    assert ludus("league", folder, "verify").status == 0


# -- environments that fail ----------------------------------------------------------------------------------------

RAISED = (
    r"environment 'faulty': faulty, line \d+, raised ZeroDivisionError in {} after \d+ ticks: no board — LUDUS_DEBUG=1 "
    r"shows how"
)
WRONG = {
    "init": r"environment 'faulty' failed: FileNotFoundError: no game here — LUDUS_DEBUG=1 shows where",
    "step": RAISED.format("step"),
    "reset": RAISED.format("reset"),
    "reward": r"environment 'faulty': the reward of role 'player' seat 1 in match 0 after \d+ ticks is nan; expected "
    r"a finite number",
    "observation": r"environment 'faulty': leaf 'obs' of role 'player' seat \d in match \d after \d+ ticks is not "
    r"finite; expected finite numbers \(player 'main': observation/obs holds a value that is not finite, from "
    r"the environment or an interface\)",
    "outcome": r"environment 'faulty': the outcome of team 0 in match \d after \d+ ticks is 2.0; expected a number "
    r"in \[0, 1\]: 1 for a win, 0.5 for a draw, 0 for a loss",
    "mask": r"environment 'faulty': label 0 of role 'player' seat \d in match \d after \d+ ticks has no legal action; "
    r"expected at least one for a seat that acts",
}


def faulty(toml, install, fault, **run):
    """Return the TOML file of a run whose environment fails after 100 ticks."""
    install("faulty", FAULTY)
    options = {"fault": fault, "after_ticks": 100}
    return toml(
        run={"restarts": 0, "decisions": 0, **run},
        environment={"name": "faulty", "faulty": options},
        evaluation={"enabled": False},
    )


@pytest.mark.parametrize(("fault", "workers"), [*((fault, 0) for fault in WRONG), ("init", 1), ("step", 1)])
def test_failing_environment_ends_the_run_with_one_line(ludus, install, toml, tmp_path, fault, workers):
    """It names the environment, the error and its location; committed state is kept."""
    result = ludus("train", faulty(toml, install, fault), "--run", "run", "--workers", workers)
    in_worker = workers and fault != "init"
    prefix = "sampler-0: " if in_worker else ""
    suffix = r" — 1 times within a minute; see run/logs/sampler-0\.log" if in_worker else ""
    check_error(result, f"error: {prefix}{WRONG[fault]}{suffix}")
    if fault != "init":
        with open_run(tmp_path / "run") as run:
            assert verify(run).problems == ()
            assert run.num_matches() > 0


@pytest.mark.slow
def test_hanging_environment_ends_the_run(ludus, install, toml, tmp_path):
    """The worker is restarted after `run.stall_s` until the limit; its log holds the location."""
    path = faulty(toml, install, "hang", stall_s=6, restarts=1)
    result = ludus("train", path, "--run", "run", "--workers", 1, timeout_s=80)
    check_error(
        result,
        r"error: sampler-0: was silent for \d+ s and was killed — 2 times within a minute; see run/logs/sampler-0\.log",
    )
    assert re.search(
        r"^sampler-0: was silent for \d+ s and was killed — restarted; see run/logs/sampler-0\.log$",
        result.output,
        re.MULTILINE,
    )
    hung = re.findall(r"faulty\.py\", line \d+ in step", (tmp_path / "run/logs/sampler-0.log").read_text("utf-8"))
    assert len(hung) == 2


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("allocate", r"used \d[\d,]* MiB, more than run.sampler_memory_mb = 1,000; killed"),
        ("fork", r"had \d+ processes, more than run.sampler_processes = 40; killed"),
    ],
)
def test_environment_without_bounds_ends_the_run(ludus, install, toml, fault, line):
    """The line names the worker, the limit and its option."""
    path = faulty(toml, install, fault, sampler_memory_mb=1000, sampler_processes=40)
    result = ludus("train", path, "--run", "run", "--workers", 1, timeout_s=60)
    check_error(result, rf"error: sampler-0: {line} — 1 times within a minute; see run/logs/sampler-0\.log")


def test_environment_that_prints_without_end_fills_no_disk(ludus, install, toml, tmp_path):
    """The run goes on, and its logs keep their limit."""
    path = faulty(toml, install, "print", log_mb=0.5, decisions=5000)
    assert ludus("train", path, "--run", "run", "--workers", 1, "--set", "evaluation.final_matches=0").status == 0
    logs = list((tmp_path / "run" / "logs").glob("sampler-0.log*"))
    assert 2**17 < sum(log.stat().st_size for log in logs) <= 2**19


def test_hanging_single_process_run_can_be_interrupted(install, toml, tmp_path, plugin_path):
    """The second Ctrl-C ends it at once."""
    path = faulty(toml, install, "hang")
    process = subprocess.Popen(
        [sys.executable, "-m", "ludus", "train", path, "--run", tmp_path / "run", "--workers", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(plugin_path), "OMP_NUM_THREADS": "1"},
    )
    try:
        assert "decisions" in process.stdout.readline()
        time.sleep(3)  # until it hangs
        process.send_signal(signal.SIGINT)
        assert "stopping cleanly" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert output == "interrupted\n"
    assert process.returncode == 130
