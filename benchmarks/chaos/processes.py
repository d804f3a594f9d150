"""Processes of a run: found by name or by a mark in their environment, and waited for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped,unused-ignore]
from attrs import define, field

MARK = "LUDUS_CHAOS_MARK"
TIMEOUT_S = 300.0


def processes(parent: int) -> dict[str, int]:
    """Return the process ids of the workers that `parent` started, by name."""
    pids = {}
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(parent).children():
            with suppress(psutil.NoSuchProcess):
                name = re.search(r" -m ludus_\w+\.\w+ .*--name (\S+)", " ".join(child.cmdline()))
                if name:
                    pids[name[1]] = child.pid
    return pids


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def marked(mark: str) -> list[int]:
    """Return the ids of all running processes whose environment variable `MARK` has a value."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes, of which some may have ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def wait(condition: Callable[[], bool], *, timeout_s: float = TIMEOUT_S) -> float:
    """Wait for a condition and return the seconds that it took.

    Raises:
        TimeoutError: The condition does not hold after `timeout_s`.
    """
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > timeout_s:
            raise TimeoutError(f"the condition does not hold after {timeout_s:.0f} s")
        time.sleep(0.05)
    return time.monotonic() - start


@define(eq=False)
class LudusCommand:
    """A ``ludus`` command in a process of its own, with all processes that it starts.

    Args:
        output_path: File to which the output of all starts is appended.
        environment: Environment variables to add.
    """

    output_path: Path
    environment: Mapping[str, str] = field(factory=dict)
    _mark: str = field(init=False, factory=lambda: uuid.uuid4().hex)
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    def start(self, *arguments: object) -> None:
        """Start ``ludus`` with arguments."""
        with self.output_path.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ludus", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", MARK: self._mark, **self.environment},
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Return the process of the command."""
        assert self._process is not None, "not started"
        return self._process

    @property
    def workers(self) -> dict[str, int]:
        """Return the process ids of the workers, by name."""
        return processes(self.process.pid)

    @property
    def output(self) -> str:
        """Return the output; undecodable bytes are replaced, which a file that is read while it grows may have."""
        return self.output_path.read_text(encoding="utf-8", errors="replace")

    def has_ended(self) -> bool:
        """Return whether the command has ended; its workers may still run."""
        return self.process.poll() is not None

    def remaining(self) -> list[int]:
        """Return the ids of all running processes that any start of this command has led to."""
        return marked(self._mark)

    def orphans(self, *, timeout_s: float = 10.0) -> int:
        """Return how many processes still run some seconds after the end of the command, and kill them."""
        with suppress(TimeoutError):
            wait(lambda: not self.remaining(), timeout_s=timeout_s)
        left = self.remaining()
        send_signal(left, signal.SIGKILL)
        return len(left)

    def close(self) -> None:
        """Kill all processes."""
        if self._process is not None:
            send_signal([self._process.pid, *self.remaining()], signal.SIGKILL)
            self._process.wait()
