"""Starts and ends processes of this machine that run one worker each."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import frozen
from ludus.errors import WorkerError

__all__ = ["LocalProcess", "WorkerCommand", "launch"]


@frozen(kw_only=True)
class WorkerCommand:
    """The command that starts a worker process.

    Args:
        name: Unique name (``"sampler-0"``), shown in `ps`.
        argv: The command line.
        environment: Environment variables to add.
        log_path: File to which its standard output and error are appended.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    log_path: str


class LocalProcess:
    """A child process in a session of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit status, None while it runs; negative for a signal. Kills the children of an ended process."""
        if self._process.returncode is None and _has_ended(self._process.pid):
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)  # the id is not reused before `poll` below
        return self._process.poll()

    def terminate(self) -> None:
        """Send SIGTERM to the process, not to its children."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill the process and its children in its process group (SIGKILL)."""
        if self._process.poll() is None:  # the id of an ended process may be reused
            os.killpg(self._process.pid, signal.SIGKILL)


def _has_ended(pid: int) -> bool:
    """Return whether a child has ended and was not waited for yet; False if the system has no `waitid`."""
    if not hasattr(os, "waitid"):
        return False
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # SIGCHLD is ignored, so children need not be waited for
        return False


def launch(command: WorkerCommand) -> LocalProcess:
    """Start a process.

    In a session of its own it does not get Ctrl-C and SIGHUP of the terminal. A worker itself arranges to end with its
    parent (`ludus_local.process.die_with_parent`), since code between fork and exec is not safe in a process with
    threads.

    Raises:
        WorkerError: The program or the log file cannot be used.
    """
    log_path = Path(command.log_path)
    try:
        log_path.parent.mkdir(exist_ok=True)
        with log_path.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - a launcher starts given commands
                list(command.argv),
                env={**os.environ, **command.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise WorkerError(f"worker {command.name} could not be started: {error}") from error
    return LocalProcess(process)
