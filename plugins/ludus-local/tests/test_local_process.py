"""Worker processes end with their parent, set their title, and find the limits of the machine."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ludus.processes import memory_bytes
from ludus_local import process as _process

LINUX = sys.platform == "linux"

CHILD = """
import sys, time
from ludus_local import process as _process
{before}
_process.die_with_parent(int(sys.argv[1]))
print("ready", flush=True)
time.sleep(60)
"""
PARENT = """
import os, subprocess, sys, threading
child = subprocess.Popen([sys.executable, "-c", {child!r}, str(os.getpid())], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
threading.Event().wait()
"""
POLLING = "_process._prctl = lambda *_: False; _process._POLL_S = 0.05"


def is_alive(pid):
    """Return whether a process exists and is not a zombie."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(shown.strip()) and not shown.strip().startswith("Z")


@pytest.mark.parametrize("before", ["", POLLING], ids=["native", "polling"])
def test_a_worker_ends_when_its_parent_is_killed(before):
    """Even by SIGKILL."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(child=CHILD.format(before=before))], stdout=subprocess.PIPE, text=True
    )
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 10
    while is_alive(pid):
        assert time.monotonic() < deadline, "the worker outlived its parent"
        time.sleep(0.02)


def test_a_worker_whose_parent_is_already_gone_ends_at_once():
    """The parent may end before the worker has registered for its death."""
    gone = 1 if os.getpid() != 1 else 2
    child = subprocess.run(
        [sys.executable, "-c", CHILD.format(before=""), str(gone)], capture_output=True, timeout=30, check=False
    )
    assert child.returncode == -signal.SIGKILL
    assert child.stdout == b""


@pytest.mark.skipif(not LINUX, reason="only Linux lets a process name itself without another dependency")
@pytest.mark.parametrize(
    ("title", "shown"),
    [("sampler-0", "sampler-0"), ("x" * 15, "x" * 15), ("learner-league_exploiter_2", "learner-l~ter_2"), ("ä", "?")],
)
def test_the_title_is_what_ps_shows(title, shown):
    """Long titles keep the end, which distinguishes workers."""
    before = Path("/proc/self/comm").read_text().strip()
    try:
        _process.set_process_title(title)
        [line] = subprocess.run(
            ["ps", "-o", "comm=", "-p", str(os.getpid())], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert line.strip() == shown
    finally:
        _process.set_process_title(before)


def test_other_systems_keep_the_title(monkeypatch):
    """Setting it has no effect."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(Path, "write_bytes", lambda *_: pytest.fail("wrote a file"))
    _process.set_process_title("sampler-0")


# -- cores -------------------------------------------------------------------------------------------------------------

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def test_without_control_groups_the_affinity_counts(tmp_path):
    """An empty folder sets no limit."""
    assert _process.available_cores(cgroup=tmp_path) == CORES


@pytest.mark.parametrize(("text", "cores"), [("50000 100000\n", 0.5), ("max 100000\n", CORES)])
def test_a_quota_of_version_2_counts(tmp_path, text, cores):
    """Microseconds granted per period."""
    (tmp_path / "cpu.max").write_text(text)
    assert _process.available_cores(cgroup=tmp_path) == cores


def test_oversubscription_is_reported():
    """Only if there are more threads than cores."""
    assert _process.oversubscription(2, 2.0) == ""
    assert "3 computing threads on 2.5 cores" in _process.oversubscription(3, 2.5)


@pytest.mark.parametrize("place", ["memory.max", "memory/memory.limit_in_bytes"])
def test_a_container_limits_memory(tmp_path, place):
    """In either version of control groups, if the limit is below the machine's memory."""
    machine = memory_bytes(cgroup=tmp_path)
    (tmp_path / place).parent.mkdir(exist_ok=True)
    observed = []
    for text in ("1048576\n", "max\n", f"{2**62}\n"):
        (tmp_path / place).write_text(text)
        observed.append(memory_bytes(cgroup=tmp_path))
    assert observed == [2**20, machine, machine]


@pytest.mark.parametrize(("quota", "cores"), [("25000", 0.25), ("-1", CORES)])
def test_a_quota_of_version_1_counts(tmp_path, quota, cores):
    """-1 sets no limit."""
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert _process.available_cores(cgroup=tmp_path) == cores


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [(256, 4096, 4096), (4096, 4096, 4096), (256, resource.RLIM_INFINITY, 65_536), (100_000, 200_000, 100_000)],
    ids=["up to what is granted", "all of it", "not without end", "no less than before"],
)
def test_the_limit_of_open_files_is_raised(monkeypatch, soft, hard, expected):
    """Whatever the default is."""
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, asked: limits.append(asked))
    _process.allow_open_files()
    assert limits[-1] == (expected, hard)


def test_a_limit_that_cannot_be_raised_is_no_error(monkeypatch):
    """It stays as it was."""

    def refuse(_, asked):
        raise ValueError(asked)

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    _process.allow_open_files()
