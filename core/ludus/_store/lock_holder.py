"""Find the process that writes a run, without taking its lock: a start of the run at that moment would fail."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ludus._store.foreign_files import open_regular

_PROC = Path("/proc")


def running_pid(run_dir: Path) -> int:
    """Return the id of the process that holds the lock of a run folder; 0 if the run is stopped.

    The lock file names the process, and a file that another person has made may name any. So the process must have
    opened the file. A process whose files this user may not read does not count.
    """
    path = run_dir / "lock"
    with suppress(OSError, ValueError):
        with open_regular(path) as file:
            pid, status = int(file.read(20)), os.fstat(file.fileno())
        with os.scandir(_PROC / str(pid) / "fd") as handles:
            if pid > 0 and any(_is_file(handle, status) for handle in handles):
                return pid
    return 0


def _is_file(handle: os.DirEntry[str], status: os.stat_result) -> bool:
    try:
        return os.path.samestat(handle.stat(), status)
    except OSError:  # it was closed meanwhile
        return False
