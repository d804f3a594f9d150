"""Limits of a run whose workers all run in one process, as a launcher has them for every sampler."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from attrs import define, field

from ludus.errors import WorkerError
from ludus.processes import find_processes, memory_bytes, resident_bytes, used_bytes

_POLL_S = 0.1  # between two looks at this process
_SCANS_EVERY = 20  # looks between two that include its children
_MEMORY_SHARE = 0.8  # of the machine, unless the run has a limit


@define
class OwnLimits:
    """Ends a run that uses too much memory or starts too many processes, which would take the machine down.

    On systems without ``/proc`` it does nothing.

    Args:
        sampler_memory_mb: Memory of this process and its children, in MiB; 0: a share of the machine.
        sampler_processes: Number of children.
        clock: Seconds.
    """

    sampler_memory_mb: int
    sampler_processes: int
    clock: Callable[[], float]
    _due_s: float = field(init=False, default=-math.inf)
    _looks: int = field(init=False, default=0)
    _before: set[int] | None = field(init=False, default=None)  # children of the program that runs ludus

    def check(self) -> None:
        """Compare use and limits, if that is due.

        Raises:
            WorkerError: A limit is exceeded; the children that were started during the run are killed.
        """
        now_s = self.clock()
        if now_s < self._due_s or not os.path.exists("/proc/self/status"):  # noqa: PTH110 - ten times a second
            return
        self._due_s = now_s + _POLL_S
        children = self._children() if self._looks % _SCANS_EVERY == 0 else set()
        self._looks += 1
        if reason := self._excess(children):
            for pid in children or self._children():
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            raise WorkerError(f"{reason}; the run ends, since all of its workers are in one process (run.workers = 0)")

    def _children(self) -> set[int]:
        """Return the children that were started since the first call."""
        own = os.getpid()
        found = {pid for pid in find_processes({own: ""})[own] if pid != own}
        self._before = found if self._before is None else self._before
        return found - self._before

    def _excess(self, children: set[int]) -> str:
        """Return which limit this process and its children exceed; empty if none."""
        most = self.sampler_processes
        if len(children) > most:
            return f"{len(children):,} processes were started, more than run.sampler_processes = {most:,}"
        limit, pids = self.sampler_memory_mb * 2**20 or int(_MEMORY_SHARE * memory_bytes()), [os.getpid(), *children]
        if sum(map(resident_bytes, pids)) <= limit or (used := sum(map(used_bytes, pids))) <= limit:
            return ""
        return f"used {used / 2**20:,.0f} MiB, more than run.sampler_memory_mb = {limit / 2**20:,.0f}"
