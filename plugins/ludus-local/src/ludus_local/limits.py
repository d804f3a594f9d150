"""Limits of the memory and the number of processes of a worker, with the processes that its games start."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

from attrs import define, field, frozen
from ludus.processes import find_processes, resident_bytes, used_bytes

__all__ = ["ResourceLimits", "ResourceWatchdog"]

_POLL_S = 0.1  # between two looks at the workers themselves
_SCANS_EVERY = 10  # looks between two that include all of their children
_PROC = Path("/proc")


@frozen
class ResourceLimits:
    """Limits of one worker.

    Args:
        memory_bytes: Private and shared memory of all of its processes.
        processes: Number of its processes.
    """

    memory_bytes: int
    processes: int


@define
class ResourceWatchdog:
    """Kills workers that exceed their limits, from a thread that goes on while the coordinator is busy.

    On systems without ``/proc`` it does nothing.

    Args:
        limits: Limits of every worker.
    """

    limits: ResourceLimits
    _pids: dict[int, str] = field(init=False, factory=dict)  # worker name by process id
    _reasons: dict[str, str] = field(init=False, factory=dict)
    _stopped: threading.Event = field(init=False, factory=threading.Event)
    _thread: threading.Thread | None = field(init=False, default=None)

    def watch(self, name: str, pid: int) -> None:
        """Watch the process of a worker, instead of its last one."""
        self._pids = {other: worker for other, worker in self._pids.items() if worker != name} | {pid: name}
        if self._thread is None and _PROC.joinpath("self", "status").exists():
            self._thread = threading.Thread(target=self._run, name="resource-watchdog", daemon=True)
            self._thread.start()

    def take_reason(self, name: str) -> str:
        """Return why a worker was killed, once; empty if it was not."""
        return self._reasons.pop(name, "")

    def close(self) -> None:
        """Stop watching."""
        self._stopped.set()

    def _run(self) -> None:
        looks = 0
        while not self._stopped.wait(_POLL_S):
            looks += 1
            pids = self._pids
            groups = {pid: [pid] for pid in pids}
            if looks % _SCANS_EVERY == 0:
                groups = find_processes(pids)
            for pid, members in groups.items():
                if reason := self._excess(members):
                    self._reasons[pids[pid]] = reason
                    _kill(pid, members)

    def _excess(self, pids: list[int]) -> str:
        """Return which limit these processes exceed; empty if none."""
        if len(pids) > self.limits.processes:
            return f"had {len(pids):,} processes, more than run.sampler_processes = {self.limits.processes:,}; killed"
        if sum(map(resident_bytes, pids)) <= self.limits.memory_bytes:
            return ""
        used = sum(map(used_bytes, pids))  # slower, and counts shared pages once
        if used <= self.limits.memory_bytes:
            return ""
        limit = self.limits.memory_bytes / 2**20
        processes = f" in {len(pids)} processes" if len(pids) > 1 else ""
        return f"used {used / 2**20:,.0f} MiB{processes}, more than run.sampler_memory_mb = {limit:,.0f}; killed"


def _kill(pid: int, members: list[int]) -> None:
    """Kill a worker with its process group at once, then processes that have left the group."""
    with suppress(OSError):
        if os.getpgid(pid) != pid or os.getsid(pid) != pid:  # the id belongs to another process now
            return
        os.killpg(pid, signal.SIGKILL)
    for member in members:
        with suppress(OSError):
            os.kill(member, signal.SIGKILL)
