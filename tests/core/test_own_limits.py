"""A run in one process ends when it uses too much memory or starts too many processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from ludus._run.own_limits import OwnLimits
from ludus.errors import WorkerError
from ludus.processes import used_bytes


@pytest.fixture
def started():
    """Return a function that starts processes, which end with the test."""
    processes = []

    def start(number):
        processes.extend(subprocess.Popen(["sleep", "60"]) for _ in range(number))
        return processes[-number:]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def check_often(limits, times=41):
    """Check more often than all looks need that include children."""
    for _ in range(times):
        limits.check()


def ticking():
    """Return a clock that is later by a second at every call."""
    seconds = iter(range(10**6))
    return lambda: float(next(seconds))


def test_memory_above_the_limit_is_an_error():
    """The line names use, limit and option."""
    used_mb = used_bytes(os.getpid()) >> 20
    check_often(OwnLimits(used_mb + 1000, 10, ticking()))
    text = rf"used [\d,]+ MiB, more than run\.sampler_memory_mb = {used_mb // 2:,}; the run ends"
    with pytest.raises(WorkerError, match=text):
        check_often(OwnLimits(used_mb // 2, 10, ticking()))


def test_memory_of_children_counts(started):
    """A game may keep its state in a process of its own."""
    limits = OwnLimits((used_bytes(os.getpid()) >> 20) + 200, 10, ticking())
    limits.check()
    code = "import time; data = bytearray(b'x') * (400 << 20); print('ready', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"ready\n"
        with pytest.raises(WorkerError, match="MiB, more than"):
            check_often(limits)
        assert child.wait() == -9


def test_too_many_processes_are_killed(started):
    """But not those that ran before."""
    (before,) = started(1)
    limits = OwnLimits(0, 3, ticking())
    check_often(limits)
    started(3)
    check_often(limits)
    own = started(1)
    with pytest.raises(WorkerError, match=r"4 processes were started, more than run\.sampler_processes = 3"):
        check_often(limits)
    assert own[0].wait() == -9
    assert before.poll() is None


def test_looks_are_cheap():
    """A look takes far less than the time between two."""
    limits = OwnLimits(0, 1024, time.monotonic)
    limits.check()
    start_s = time.perf_counter()
    for _ in range(10_000):
        limits.check()
    assert time.perf_counter() - start_s < 1.0
