"""Logs of workers: everything that a process and its children print, in files of limited size."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from ludus_local.logs import LogPipe, RotatingLog
from ludus_local.process import WorkerCommand, launch


@pytest.fixture
def path(tmp_path):
    """Return the path of a log."""
    return tmp_path / "sampler-0.log"


def size(path):
    """Return the size of a log and of the one before it."""
    total = 0
    for file in path.parent.iterdir():
        with suppress(FileNotFoundError):  # the log was renamed meanwhile
            total += file.stat().st_size
    return total


def run(path, code, *, log_bytes=2**20, timeout_s=30.0):
    """Run Python code as a worker until it ends."""
    command = WorkerCommand(
        name="sampler-0", argv=[sys.executable, "-c", code], environment={}, log_path=str(path), log_bytes=log_bytes
    )
    process, deadline_s, largest = launch(command), time.monotonic() + timeout_s, 0
    while process.poll() is None and time.monotonic() < deadline_s:
        largest = max(largest, size(path))
        time.sleep(0.01)
    process.kill()
    process.poll()
    return max(largest, size(path))


def test_a_log_holds_all_output_in_its_order(path):
    """As long as there is little of it."""
    log = RotatingLog(path, 10_000)
    for number in range(100):
        log.write(b"line %d\n" % number, now_s=float(number))
    assert path.read_bytes() == b"".join(b"line %d\n" % number for number in range(100))


def test_a_log_rotates_at_half_of_its_limit(path):
    """The file before it stays, and both together keep the limit."""
    log = RotatingLog(path, 1000)
    for number in range(1000):
        log.write(b"%9d\n" % number, now_s=float(number))
        assert size(path) <= 1000
    before = path.with_name("sampler-0.log.1").read_bytes()
    lines = (before + path.read_bytes()).split()
    assert [int(line) for line in lines] == list(range(1000 - len(lines), 1000))
    assert len(before) == 500


def test_a_log_that_exists_is_continued(path):
    """A restarted worker appends to it, and the limit holds."""
    path.write_bytes(b"x" * 400)
    RotatingLog(path, 1000).write(b"y" * 200, now_s=5.0)
    assert path.read_bytes() == b"y" * 200
    assert path.with_name("sampler-0.log.1").read_bytes() == b"x" * 400


def test_start_and_end_of_a_flood_are_kept(path):
    """A traceback follows the output of the game."""
    log = RotatingLog(path, 2**24)
    for _ in range(64):
        log.write(b"x" * 2**16, now_s=1.0)
    log.write(b"Traceback\n", now_s=1.5)
    assert log.is_flooded
    log.end_second(now_s=2.5)
    content = path.read_bytes()
    assert content.endswith(b"xTraceback\n")
    assert b"bytes of output dropped]\n" in content
    assert 2**20 <= len(content) < 2**20 + 2**17


def test_a_full_disk_does_not_block_a_worker(path, monkeypatch):
    """Its output is lost."""
    path.mkdir()
    pipe = LogPipe(RotatingLog(path, 1000))
    for _ in range(100):
        os.write(pipe.write_end, b"x" * 2**16)
    os.close(pipe.write_end)
    pipe.drain(10.0)
    assert not pipe._thread.is_alive()


@pytest.mark.parametrize(
    "code",
    [
        "import sys, time\nend = time.time() + 1.5\nwhile time.time() < end: print('x' * 1000)",
        "import os, time\nend = time.time() + 1.5\nwhile time.time() < end: os.write(2, b'x' * 100_000)",
        "import ctypes, time\nend = time.time() + 1.5\nwhile time.time() < end: ctypes.CDLL(None).puts(b'x' * 1000)",
        "import subprocess\ntry: subprocess.run(['yes'], timeout=1.5)\nexcept subprocess.TimeoutExpired: pass",
    ],
    ids=["print", "file descriptor", "C code", "child process"],
)
def test_a_flood_keeps_the_limit(path, code):
    """However it is written; the last output is in the log."""
    assert run(path, f"{code}\nprint('the end', flush=True)", log_bytes=2**20) <= 2**20
    assert path.read_bytes().endswith(b"the end\n")


def test_output_of_a_child_that_outlives_its_worker_blocks_nothing(path):
    """A process that left the group keeps the pipe open."""
    started_s = time.monotonic()
    code = "import subprocess; print('x'); p = subprocess.Popen(['sleep', '60'], start_new_session=True); print(p.pid)"
    run(path, code)
    assert time.monotonic() - started_s < 10.0
    first, pid = path.read_bytes().split()
    assert first == b"x"
    subprocess.run(["kill", pid.decode()], check=True)
