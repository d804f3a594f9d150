"""Processes that run a worker each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from ludus.errors import WorkerError
from ludus_local import plugin
from ludus_local.launcher import LocalLauncher
from ludus_local.process import WorkerCommand, launch as start_process

SLEEP = "import time; print('ready', flush=True); time.sleep(60)"


@pytest.fixture
def launch(tmp_path):
    """Launch Python code as a worker; running ones are killed at the end."""
    launched = []

    def start(code, *, environment=None):
        process = start_process(
            WorkerCommand(
                name="sampler-0",
                argv=[sys.executable, "-c", code],
                environment=environment or {},
                log_path=str(tmp_path / "logs" / "sampler-0.log"),
            )
        )
        launched.append(process)
        return process

    yield start
    for process in launched:
        process.kill()
        finish(process)


def eventually(condition):
    """Wait until a condition holds and return what it returned."""
    deadline = time.monotonic() + 10
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return value


def finish(process):
    """Wait for the end of a process and return its exit status."""
    eventually(lambda: process.poll() is not None)
    return process.poll()


@pytest.fixture
def log(tmp_path):
    """Return a function that reads the worker's log."""
    path = tmp_path / "logs" / "sampler-0.log"
    return lambda: path.read_text() if path.exists() else ""


def test_the_exit_status_is_reported(launch):
    """The coordinator distinguishes success from failure by it."""
    assert finish(launch("raise SystemExit(3)")) == 3
    assert finish(launch("")) == 0


def test_a_running_worker_has_no_exit_status_and_a_pid(launch, log):
    """The process is the one that was started."""
    process = launch("import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    assert int(eventually(log)) == process.pid
    assert process.poll() is None


def test_output_and_errors_are_appended_to_the_log(launch, log):
    """The log of a restarted worker continues."""
    finish(launch("import sys; print('first'); print('oops', file=sys.stderr)"))
    finish(launch("print('second')"))
    assert sorted(log().split()[:2]) == ["first", "oops"]
    assert log().endswith("second\n")


def test_environment_variables_are_added(launch, log, monkeypatch):
    """The worker sees the parent's variables and its own."""
    monkeypatch.setenv("LUDUS_TEST_OUTER", "outer")
    code = "import os; print(os.environ['LUDUS_TEST_OUTER'], os.environ['LUDUS_TEST_INNER'])"
    finish(launch(code, environment={"LUDUS_TEST_INNER": "inner"}))
    assert log() == "outer inner\n"


def test_standard_input_is_empty(launch, log):
    """No worker reads from the terminal."""
    finish(launch("import sys; print(repr(sys.stdin.read()))"))
    assert log() == "''\n"


def test_a_missing_run_folder_is_not_made(tmp_path):
    """It was moved or removed."""
    log_path = tmp_path / "run" / "logs" / "sampler-0.log"
    command = WorkerCommand(name="sampler-0", argv=[sys.executable, "-c", ""], environment={}, log_path=str(log_path))
    with pytest.raises(WorkerError, match=r"sampler-0 could not be started: .*No such file"):
        start_process(command)
    assert list(tmp_path.iterdir()) == []


def test_terminate_lets_the_worker_clean_up(launch, log):
    """The worker may handle SIGTERM."""
    process = launch(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)"
    )
    eventually(log)
    process.terminate()
    assert finish(process) == 7


def test_kill_ends_a_worker_that_ignores_signals(launch, log):
    """SIGKILL is a negative exit status."""
    process = launch("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEP)
    eventually(log)
    process.terminate()
    process.kill()
    assert finish(process) == -signal.SIGKILL


def test_kill_also_ends_children(launch, log):
    """A game server does not outlive its sampler."""
    process = launch(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)"
    )
    child = int(eventually(log))
    process.kill()

    def state():
        shown = subprocess.run(["ps", "-o", "stat=", "-p", str(child)], capture_output=True, text=True, check=False)
        return shown.stdout.strip()

    eventually(lambda: state()[:1] in ("", "Z"))


def test_ended_workers_can_be_killed_again(launch):
    """The caller need not check whether a worker runs."""
    process = launch("")
    finish(process)
    process.terminate()
    process.kill()
    assert process.poll() == 0


def test_workers_do_not_share_the_terminal(launch, log):
    """Ctrl-C signals the terminal's foreground group, which excludes workers."""
    process = launch(SLEEP)
    eventually(log)
    assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid


@pytest.mark.parametrize(
    ("argv", "log_path", "problem"),
    [(["/nowhere/program"], "log", "/nowhere/program"), (["true"], "taken/log", "taken")],
)
def test_a_worker_that_cannot_be_started_is_a_worker_error(tmp_path, argv, log_path, problem):
    """The error names the worker and what is missing."""
    (tmp_path / "taken").write_text("a file")
    command = WorkerCommand(name="sampler-0", argv=argv, environment={}, log_path=str(tmp_path / log_path))
    with pytest.raises(WorkerError, match=f"worker sampler-0 could not be started: .*{problem}"):
        start_process(command)


def test_the_plugin_registers_the_launcher():
    """Under its name in TOML."""
    [component] = plugin.ludus_register_launchers()
    assert component.name == "local"
    assert component.load_factory() is LocalLauncher
    assert component.load_config() is None


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="the system does not tell of ends before they are waited for")
def test_children_end_with_their_worker(launch, log):
    """Even if the worker crashed."""
    code = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    process = launch(code)
    assert finish(process) == -signal.SIGKILL
    child = int(log())
    shown = ["ps", "-o", "stat=", "-p", str(child)]
    eventually(
        lambda: subprocess.run(shown, capture_output=True, text=True, check=False).stdout.strip()[:1] in ("", "Z")
    )


def test_ends_are_noticed_without_sigchld(launch):
    """If SIGCHLD is ignored, children cannot be waited for."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert finish(launch("")) is not None
    finally:
        signal.signal(signal.SIGCHLD, before)
