"""Samplers whose games allocate or fork without bound are killed and restarted; the machine goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from ludus.errors import WorkerError
from ludus.launcher import Session, WorkerSpec
from ludus.processes import find_processes, used_bytes
from ludus_local.process import WorkerCommand, launch
from ludus_local.supervisor import Supervisor

ALLOCATE = "import time\nheld = []\nwhile True: held.append(bytearray(2**20)); time.sleep(0.001)"
IN_A_CHILD = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {ALLOCATE!r}])"
IN_SHARED_MEMORY = (
    "import mmap, time\nheld = mmap.mmap(-1, 2**32)\n"
    "for i in range(0, 2**32, 2**20): held[i:i+2**20] = b'x' * 2**20; time.sleep(0.001)"
)
FORK = (
    "import os, time\n"
    "for _ in range(300):\n"
    "    if not os.fork():\n"
    "        time.sleep(60); os._exit(0)\n"
    "    time.sleep(0.001)\n"
    "time.sleep(60)"
)
FORK_AND_LEAVE = FORK.replace("time.sleep(60); os._exit(0)", "os.setsid(); time.sleep(60); os._exit(0)")


@pytest.fixture
def supervise(tmp_path):
    """Return a maker of supervisors of one worker that runs a script, with 100 MiB and 50 processes."""
    made = []

    def make(script, *, name="sampler-0", restarts=0):
        lines = []
        session = Session(
            run_dir=tmp_path,
            number=1,
            stall_s=60.0,
            restarts=restarts,
            print_line=lines.append,
            sampler_memory_mb=100,
            sampler_processes=50,
        )

        def start(command):
            argv = [sys.executable, "-S", "-c", script]
            return launch(
                WorkerCommand(name=name, argv=argv, environment=command.environment, log_path=command.log_path)
            )

        supervisor = Supervisor(session=session, sockets=tmp_path / "sockets", launch=start)
        made.append(supervisor)
        supervisor.start([WorkerSpec(name, 1)])
        return supervisor, lines

    yield make
    for supervisor in made:
        supervisor.finish(timeout_s=0.0, poll=lambda: None)


def check_until(supervisor, condition, timeout_s=20.0):
    """Check the workers until a condition holds."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s
        supervisor.check(last_seen_s={}, errors={})
        time.sleep(0.02)


@pytest.mark.parametrize("script", [ALLOCATE, IN_A_CHILD, IN_SHARED_MEMORY], ids=["itself", "child", "shared"])
def test_a_worker_that_allocates_without_bound_is_one_line(supervise, script):
    """The line names worker, limit and option."""
    supervisor, _ = supervise(script)
    with pytest.raises(
        WorkerError, match=r"^sampler-0: used \d+ MiB.*, more than run.sampler_memory_mb = 100; killed — 1 times within"
    ):
        check_until(supervisor, lambda: False)


@pytest.mark.parametrize("script", [FORK, FORK_AND_LEAVE], ids=["same session", "other sessions"])
def test_a_worker_that_forks_without_bound_is_one_line(supervise, script):
    """All of its processes are killed, also those that left its session."""
    supervisor, _ = supervise(script)
    (pid,) = supervisor.pids.values()
    with pytest.raises(
        WorkerError, match=r"^sampler-0: had \d+ processes, more than run.sampler_processes = 50; killed — 1 times"
    ):
        check_until(supervisor, lambda: False)
    time.sleep(0.2)
    sessions = subprocess.run(["ps", "-eo", "sid=,stat="], capture_output=True, text=True, check=True).stdout
    assert str(pid) not in {line.split()[0] for line in sessions.splitlines() if "Z" not in line}


def test_a_killed_worker_is_restarted(supervise):
    """As after any other death."""
    supervisor, lines = supervise(ALLOCATE, restarts=1)
    check_until(supervisor, lambda: lines)
    assert lines[0].startswith("sampler-0: used ")
    assert "; killed — restarted; see " in lines[0]
    with pytest.raises(WorkerError, match="2 times within a minute"):
        check_until(supervisor, lambda: False)


def test_learners_have_no_limit(supervise):
    """Their replay buffers are configured, and they run no game."""
    supervisor, lines = supervise("held = bytearray(300 * 2**20); import time; time.sleep(60)", name="learner-main")
    (pid,) = supervisor.pids.values()
    check_until(supervisor, lambda: used_bytes(pid) > 300 * 2**20)
    deadline_s = time.monotonic() + 1.5
    check_until(supervisor, lambda: time.monotonic() > deadline_s)
    assert not lines
    assert supervisor.alive == ["learner-main"]


def test_pages_that_children_share_count_once(supervise):
    """A game may fork a hundred processes of a large parent."""
    script = (
        "import os, time\nheld = bytearray(60 * 2**20)\n"
        "for _ in range(10):\n    if not os.fork(): time.sleep(60); os._exit(0)\ntime.sleep(60)"
    )
    supervisor, lines = supervise(script)
    deadline_s = time.monotonic() + 3.0
    check_until(supervisor, lambda: time.monotonic() > deadline_s)
    assert not lines


def test_processes_of_a_worker_are_found():
    """Descendants, wherever they are."""
    child = subprocess.Popen(
        [sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '60'], start_new_session=True)"],
        start_new_session=True,
    )
    try:
        deadline_s = time.monotonic() + 10
        while len(found := find_processes({child.pid: "sampler-0"})[child.pid]) < 2:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        assert child.pid in found
        assert os.getpid() not in found
    finally:
        for pid in found:
            os.kill(pid, 9)
        child.wait()
