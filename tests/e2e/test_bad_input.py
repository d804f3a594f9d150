"""Whatever is wrong ends in lines that say what, where, what was expected and what to do; never in a traceback."""

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
from ludus._store.store import Store
from ludus.runs import open_run
from ludus_terminal.verify import verify

LIGHT = Path(__file__).with_name("light.toml")
FAULTY = Path(__file__).with_name("faulty.py").read_text(encoding="utf-8")


def refused(result, *lines, status=1):
    """Check that a command ended with exactly these error lines, given as patterns."""
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
def test_a_wrong_setting_is_one_line(ludus, toml, setting, line):
    """It names the file, the key, the value and what was expected."""
    refused(ludus("train", toml(), "--set", setting), line)


def test_all_mistakes_are_told_at_once(ludus, toml):
    """One line each, with a suggestion where a name is nearly right."""
    path = toml(run={"minuts": 3, "workers": -1}, environment={"name": "dummy-cuont"})
    refused(
        ludus("train", path),
        r"error: .*run\.toml:run\.minuts: unknown key.*",
        r"error: .*run\.toml:run\.workers: expected a whole number ≥ 0, got -1",
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
def test_an_unreadable_file_is_one_line(ludus, tmp_path, content, line):
    """Broken TOML, no text at all, no file."""
    if content is not None:
        (tmp_path / "bad.toml").write_bytes(content)
    refused(ludus("train", "bad.toml"), line)


def test_wrong_usage_has_its_own_status(ludus):
    """2, as everywhere."""
    result = ludus("train", "run.toml", "--workers", "many")
    assert result.status == 2
    assert "'many' is not a valid integer" in result.output


# -- plugins -------------------------------------------------------------------------------------------------------


def test_a_plugin_that_cannot_be_imported_is_told_where_it_is_missed(ludus, install, toml):
    """Others work; `ludus plugins` says why it is not loaded."""
    install("broken-game", "raise RuntimeError('no licence')")
    refused(
        ludus("train", toml(environment={"name": "broken-game"})),
        r"error: .*run\.toml:environment\.name: no installed plugin provides .* — not loaded: broken-game "
        r"\(see ludus plugins\)",
    )
    listed = ludus("plugins", COLUMNS="200")
    assert "RuntimeError: no licence" in listed.output
    assert ludus("train", toml(), "--set", "run.decisions=64", "--run", "ok").status == 0


def test_a_misspelt_hook_is_told(ludus, install, toml):
    """With the one that was probably meant, and as long as nobody needs the plugin nothing stops."""
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
def trained(tmp_path_factory):
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
def copied(trained, tmp_path):
    """Return a copy of that run to damage."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def flip(path):
    """Change one bit near the end of a file."""
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def test_a_folder_with_a_run_takes_no_second_one(ludus, toml, trained):
    """The line says how to go on."""
    refused(
        ludus("train", toml(), "--run", trained),
        f"error: {trained} already holds a run: continue it with `ludus resume {trained}`, "
        f"or choose another folder with --run",
    )


def test_only_a_run_can_be_resumed(ludus, tmp_path):
    """The line says how to start one."""
    refused(
        ludus("resume", tmp_path / "none"),
        r"error: .*none holds no run \(no run\.toml in it\): start one with `ludus train FILE --run .*none`",
    )


def test_a_running_run_is_left_alone(light_league, ludus, toml):
    """Neither `train` nor `resume` get in; it does not even notice."""
    run = light_league()
    run.train()
    run.wait_for(lambda state: state.trained > 0)
    refused(ludus("train", toml(), "--run", run.folder), r"error: .* already holds a run: .*")
    refused(
        ludus("resume", run.folder),
        rf"error: .* is in use by pid {run.process.pid}; stop that run first, or choose another folder",
    )
    before = run.state
    run.wait_for(lambda state: state.trained > before.trained)


def test_a_damaged_model_is_not_used(ludus, copied):
    """Neither to rate it nor to go on as if nothing were."""
    with Store.read(copied) as store:
        newest = store.models.records()[-1]
    flip(copied / "models" / f"{newest.hash}.safetensors")
    line = rf"error: .*{newest.hash}\.safetensors: damaged: its SHA-256 is .*…, expected .*…; restore it from a copy"
    refused(ludus("eval", copied, newest.participant, "random", "--matches", 10), line)
    verified = ludus("league", copied, "verify")
    assert verified.status == 1
    assert f"{newest.participant}: " in verified.output


@pytest.mark.parametrize("workers", [0, 1])
def test_a_damaged_checkpoint_is_not_used(ludus, copied, workers):
    """A learner does not start from flipped bits; trying again would not help."""
    for path in copied.glob("learners/*/*.safetensors"):
        flip(path)
    result = ludus("resume", copied, "--workers", workers, "--set", "run.decisions=9000")
    refused(result, r"error: .*/learners/main_agent/\d+\.safetensors: damaged: .*; restore it from a copy")


def test_a_newer_schema_is_not_touched(ludus, copied):
    """The line says which ludus can."""
    database = sqlite3.connect(copied / "league.sqlite")
    database.execute("PRAGMA user_version = 99")
    database.close()
    for command in (("resume", copied), ("eval", copied, "main_agent@1", "random"), ("league", copied)):
        refused(ludus(*command), r"error: .*: schema 99, this ludus reads 2; use the ludus that wrote it")


def test_a_damaged_database_is_not_used(ludus, copied):
    """What SQLite finds is told."""
    for path in copied.glob("league.sqlite-*"):
        path.unlink()
    data = bytearray((copied / "league.sqlite").read_bytes())
    data[8192 : len(data) // 2] = bytes(len(data) // 2 - 8192)
    (copied / "league.sqlite").write_bytes(data)
    refused(
        ludus("resume", copied, "--set", "run.decisions=9000"),
        r"error: .*league\.sqlite: .*malformed.*; restore it from a copy of the run",
    )


def test_a_file_where_the_folder_should_be_is_one_line(ludus, toml, tmp_path):
    """It is no run that could be resumed; who names a file itself may have meant to start one."""
    (tmp_path / "file").touch()
    line = r"error: file is a file, not a folder: choose another folder for the run"
    for command in (("train", toml(), "--run", "file"), ("train", toml(), "--run", "file/run"), ("resume", "file/run")):
        refused(ludus(*command), line)
    refused(ludus("resume", "file"), r"error: file is a file: `ludus train file` starts a run of it, .*")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_checkpoint_that_cannot_be_written_ends_the_run(ludus, toml, tmp_path, workers):
    """At once, before a learner has lost anything, and with what to do; that done, the run goes on."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/learners").touch()  # a file stands where the folder should be
    result = ludus("train", toml(), "--run", "run", "--workers", workers)
    refused(
        result,
        r"error: run cannot be used: .*; free disk space .* and continue with `ludus resume run`, .*",
    )
    assert "restarted" not in result.output
    (tmp_path / "run/learners").unlink()
    assert ludus("resume", "run").status == 0
    with open_run(tmp_path / "run") as run:
        assert verify(run) == []
        assert run.league.players["main"].decisions >= 2000


def test_unusual_folders_work(ludus, toml, tmp_path):
    """Spaces, quotes, letters of all kinds, and a path longer than a socket's may be; the last line can be pasted."""
    folder = tmp_path / "a run's ünï 日本" / ("x" * 120)
    result = ludus("train", toml(), "--run", folder, "--workers", 1, "--set", "run.decisions=500")
    assert result.status == 0, result.output
    assert "go on with: ludus resume '" in result.output
    assert ludus("league", folder, "verify").status == 0


# -- environments that break ---------------------------------------------------------------------------------------

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
    """Return the TOML file of a run whose environment breaks after 100 ticks."""
    install("faulty", FAULTY)
    options = {"fault": fault, "after_ticks": 100}
    return toml(
        run={"restarts": 0, "decisions": 0, **run},
        environment={"name": "faulty", "faulty": options},
        evaluation={"enabled": False},
    )


@pytest.mark.parametrize("fault", WRONG)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_environment_ends_the_run_with_one_line(ludus, install, toml, tmp_path, fault, workers):
    """The line names it, what it did, where, and what to do; what was committed stays."""
    result = ludus("train", faulty(toml, install, fault), "--run", "run", "--workers", workers)
    told = "" if workers == 0 or fault == "init" else r"sampler-0: "
    often = "" if not told else r" — 1 times within a minute; see run/logs/sampler-0\.log"
    refused(result, f"error: {told}{WRONG[fault]}{often}")
    if fault != "init":
        with open_run(tmp_path / "run") as run:
            assert verify(run) == []
            assert run.num_matches() > 0


@pytest.mark.slow
def test_an_environment_that_hangs_is_given_up(ludus, install, toml, tmp_path):
    """A worker that is silent for `run.stall_s` is restarted, at last in vain; its log says where it hung."""
    path = faulty(toml, install, "hang", stall_s=6, restarts=1)
    result = ludus("train", path, "--run", "run", "--workers", 1, timeout_s=80)
    refused(
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


def test_a_hung_run_in_one_process_can_be_interrupted(install, toml, tmp_path, plugin_path):
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
