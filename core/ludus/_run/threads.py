"""Prepare a process for computing: threads, memory allocator and devices."""

from __future__ import annotations

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # constants of glibc's malloc.h


def configure_process(threads: int) -> None:
    """Set the number of threads of torch, and let glibc keep freed memory.

    torch is not imported for that: importing it takes seconds and a hundred megabytes, and processes that run no
    network never do. The environment variable takes effect if torch is imported later.

    A gradient step allocates as much memory as the previous one freed. Returning it to the system in between costs a
    page fault per 4 KiB, up to half of a learner's time.
    """
    if "torch" in sys.modules:
        import torch  # noqa: PLC0415 - imported already

        torch.set_num_threads(threads)
    else:
        os.environ["OMP_NUM_THREADS"] = str(threads)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the maximum of glibc
        mallopt(_M_TRIM_THRESHOLD, 256 << 20)


def find_device_problem(device: str) -> str:
    """Return why torch cannot compute on a device of this host; empty if it can."""
    if device == "cpu":
        return ""
    import torch  # noqa: PLC0415 - takes seconds, which only other devices need

    cuda = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if device in (*cuda, *(["cuda"] if cuda else [])):
        return ""
    try:
        torch.ones(1, device=device).sum().item()  # some devices hold tensors but cannot compute
    except Exception:  # noqa: BLE001 - backends raise exceptions of any class
        available = ["cpu", *cuda, *(["mps"] if torch.backends.mps.is_available() else [])]
        return f"expected a device that torch computes on here ({', '.join(available)}), got {device!r}"
    return ""
