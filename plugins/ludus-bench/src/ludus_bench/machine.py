"""What this computer gives to its processes: cores, threads, memory, and what a tree of processes uses of them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped,unused-ignore]
from attrs import frozen
from ludus.errors import ConfigError

from ludus_bench._pieces import available_cores, device_problem

__all__ = [
    "ProcessUse",
    "describe",
    "limit_threads",
    "process_tree",
    "to_device",
]


def describe() -> dict[str, str | float]:
    """Return what a recorded table must say about the machine."""
    return {
        "cores": available_cores(),
        "cpus": float(os.cpu_count() or 1),
        "processor": _processor(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


@contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Let numpy and torch use so many threads for a while, and memory in the way of the workers of a run."""
    import torch  # noqa: PLC0415 - slow to import
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore] # noqa: PLC0415

    from ludus_bench._pieces import prepare_to_compute  # noqa: PLC0415

    before = torch.get_num_threads()
    with threadpool_limits(limits=threads):
        prepare_to_compute(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def to_device(name: str) -> str:
    """Return a torch device after making sure that it is there.

    Raises:
        ConfigError: It is not.
    """
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise ConfigError(f"--device: expected cpu or cuda, got {name!r}")
    if problem := device_problem(name):
        raise ConfigError(f"--device: {problem}")
    return name


@frozen(kw_only=True)
class ProcessUse:
    """What one process of a tree uses.

    Args:
        pid: Its process id.
        name: As `ps` shows it.
        rss_mb: Resident memory in megabytes (10⁶ bytes), with what it shares.
        cpu_s: CPU seconds since it started.
    """

    pid: int
    name: str
    rss_mb: float
    cpu_s: float


def process_tree(pid: int) -> list[ProcessUse]:
    """Return what a process and all its descendants use now; what ends meanwhile is left out."""
    with suppress(psutil.Error):
        parent = psutil.Process(pid)
        return [use for process in (parent, *parent.children(recursive=True)) for use in _use(process)]
    return []


def _use(process: psutil.Process) -> Iterator[ProcessUse]:
    with suppress(psutil.Error):
        with process.oneshot():
            times = process.cpu_times()
            use = ProcessUse(
                pid=process.pid,
                name=process.name(),
                rss_mb=process.memory_info().rss / 1e6,
                cpu_s=times.user + times.system,
            )
        yield use
