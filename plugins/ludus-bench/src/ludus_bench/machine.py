"""Cores, threads, devices and memory of this machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped,unused-ignore]
from ludus.errors import ConfigError

from ludus_bench._setup import available_cores, find_device_problem


def describe_machine() -> dict[str, str | float]:
    """Return cores, processor, memory, system and Python version of this machine."""
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
    """Limit the threads of NumPy and torch, and configure memory allocation as the workers of a run do."""
    import torch  # noqa: PLC0415 - slow to import
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore] # noqa: PLC0415

    from ludus_bench._setup import configure_process  # noqa: PLC0415

    before = torch.get_num_threads()
    with threadpool_limits(limits=threads):
        configure_process(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def check_device(name: str) -> str:
    """Return the name of a torch device if the device is available.

    Raises:
        ConfigError: It is not available, or neither a CPU nor a CUDA device.
    """
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise ConfigError(f"--device: expected cpu or cuda, got {name!r}")
    if problem := find_device_problem(name):
        raise ConfigError(f"--device: {problem}")
    return name
