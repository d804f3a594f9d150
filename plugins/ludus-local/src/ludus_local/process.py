"""Worker processes and limits of the machine: start and end, exit with the parent, open files, cores and memory."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import frozen
from ludus.errors import WorkerError
from ludus.trust import child_variables

from ludus_local.logs import LogPipe, RotatingLog

_PR_SET_PDEATHSIG = 1
_POLL_S = 1.0
_DRAIN_S = 0.5  # for the last output of a process; its children may keep the pipe open
_TITLE_BYTES = 15  # limit of the kernel
_CGROUP = Path("/sys/fs/cgroup")
_OPEN_FILES = 65_536  # some systems report no limit and reject large ones


def die_with_parent(parent_pid: int) -> None:
    """Kill this process (SIGKILL) when its parent ends, for whatever reason.

    The worker calls this itself: unlike a ``preexec_fn``, that is safe if the parent has threads. On Linux the kernel
    sends the signal when the *thread* that started this process ends, so launch from one that lives as long as the run.
    On other systems a thread checks about once a second.

    Args:
        parent_pid: Process id of the parent. If it has already ended, this process ends now.
    """
    if not (sys.platform == "linux" and _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)):
        threading.Thread(target=_watch, args=(parent_pid,), name="parent-watch", daemon=True).start()
    _end_if_orphaned(parent_pid)  # the parent may have ended before the kernel was asked


def set_process_title(title: str) -> None:
    """Set the process name that `ps -o comm`, `top` and `pgrep` show; does nothing if that is not possible.

    Args:
        title: The name. Because of the kernel's limit of 15 bytes, only the first nine and the last five bytes of a
            longer one are shown; the end often distinguishes workers.
    """
    name = title.encode("ascii", "replace")
    if len(name) > _TITLE_BYTES:
        name = name[:9] + b"~" + name[-5:]
    if sys.platform == "linux":
        Path("/proc/self/comm").write_bytes(name)


def _prctl(option: int, value: int) -> bool:
    return bool(ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0)


def _watch(parent_pid: int) -> None:
    while True:
        _end_if_orphaned(parent_pid)
        time.sleep(_POLL_S)


def _end_if_orphaned(parent_pid: int) -> None:
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGKILL)


def allow_open_files() -> None:
    """Raise the limit of open files of this process and its children to the system's limit, at most 65,536.

    The default limit is 256 or 1,024 on most systems.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    granted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < granted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))


def available_cores(*, cgroup: Path = _CGROUP) -> float:
    """Return how many cores the processes of this run may use together, by affinity and the limits of a container.

    Args:
        cgroup: Mount point of the control groups.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(float(affinity), _quota(cgroup))


def oversubscription(threads: int, cores: float) -> str:
    """Return a warning if more threads compute than there are cores, else an empty text.

    Args:
        threads: Threads of all processes.
        cores: See `available_cores`.
    """
    if threads <= cores:
        return ""
    return (
        f"oversubscribed: {threads} computing threads on {cores:g} cores; they wait for each other — "
        f"fewer run.workers, run.sampler_threads, run.learner_threads or learner_processes would help"
    )


def _quota(cgroup: Path) -> float:
    """Return the cores granted by control groups (version 2, then 1), infinite without a limit."""
    with suppress(OSError, ValueError):
        limit, period = (cgroup / "cpu.max").read_text().split()
        return float("inf") if limit == "max" else int(limit) / int(period)
    with suppress(OSError, ValueError):
        limit_us = int((cgroup / "cpu" / "cpu.cfs_quota_us").read_text())
        period_us = int((cgroup / "cpu" / "cpu.cfs_period_us").read_text())
        return limit_us / period_us if limit_us > 0 else float("inf")
    return float("inf")


@frozen(kw_only=True)
class WorkerCommand:
    """The command that starts a worker process.

    Args:
        name: Unique name (``"sampler-0"``), shown in `ps`.
        argv: The command line.
        environment: Environment variables to add.
        log_path: File to which its standard output and error are appended, and those of its children.
        log_bytes: Limit of that file and the one before it.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    log_path: str
    log_bytes: int = 16 * 2**20


class LocalProcess:
    """A child process in a session of its own.

    Args:
        process: The process.
        log: Its output.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: LogPipe) -> None:
        self._process, self._log = process, log

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit status, None while it runs; negative for a signal. Kills the children of an ended process."""
        if self._process.returncode is None and _has_ended(self._process.pid):
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)  # the id is not reused before `poll` below
            self._process.wait()
            self._log.drain(_DRAIN_S)
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
    parent (`die_with_parent`), since code between fork and exec is not safe in a process with
    threads.

    Raises:
        WorkerError: The program or the log file cannot be used.
    """
    log_path = Path(command.log_path)
    try:
        log_path.parent.mkdir(exist_ok=True)
        log_path.open("ab").close()
        pipe = LogPipe(RotatingLog(log_path, command.log_bytes))
        try:
            process = subprocess.Popen(  # noqa: S603 - a launcher starts given commands
                list(command.argv),
                env={**os.environ, **child_variables(), **command.environment},
                stdin=subprocess.DEVNULL,
                stdout=pipe.write_end,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(pipe.write_end)
    except OSError as error:
        raise WorkerError(f"worker {command.name} could not be started: {error}") from error
    return LocalProcess(process, pipe)
