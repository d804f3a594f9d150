"""Memory of this machine, and the memory and children of processes, as ``/proc`` shows them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["find_processes", "memory_bytes", "resident_bytes", "used_bytes"]

_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")


def memory_bytes(*, cgroup: Path = _CGROUP) -> int:
    """Return the memory of the machine, or of the container if it limits it.

    Args:
        cgroup: Mount point of the control groups.
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in (cgroup / "memory.max", cgroup / "memory" / "memory.limit_in_bytes"):  # of version 2, then 1
        with suppress(OSError, ValueError):  # no limit, or "max"
            return min(machine, int(limit.read_text()))
    return machine


def find_processes(workers: Mapping[int, str]) -> dict[int, list[int]]:
    """Return the processes of every worker: those of its session, and all descendants."""
    parents: dict[int, tuple[int, int]] = {}  # parent and session by process id
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                stat = Path(entry.path, "stat").read_bytes()
                _, ppid, _, sid = stat[stat.rindex(b")") + 2 :].split(maxsplit=4)[:4]
                parents[int(entry.name)] = (int(ppid), int(sid))
    owners: dict[int, int] = {pid: pid for pid in workers}
    for first in parents:
        chain, pid = list[int](), first
        while pid in parents and pid not in owners:
            chain.append(pid)
            parent, session = parents[pid]
            pid = session if session in workers else parent
        owners.update(dict.fromkeys(chain, owners.get(pid, 0)))
    groups: dict[int, list[int]] = {pid: [] for pid in workers}
    for pid, owner in owners.items():
        if owner in groups and pid in parents:
            groups[owner].append(pid)
    return groups


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process without its files; pages that it shares with others count fully."""
    return _sum_fields(_PROC / str(pid) / "status", (b"RssAnon:", b"RssShmem:"))


def used_bytes(pid: int) -> int:
    """Return the memory of a process without its files; a page of n processes counts as 1/n; 0 if it has ended."""
    return _sum_fields(_PROC / str(pid) / "smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:"))


def _sum_fields(path: Path, names: tuple[bytes, ...]) -> int:
    with suppress(OSError):
        lines = path.read_bytes().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))
    return 0
