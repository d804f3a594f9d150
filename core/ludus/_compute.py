"""How a process of a run computes."""

from __future__ import annotations

import ctypes
import sys

import torch

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def prepare_to_compute(threads: int) -> None:
    """Let torch use so many threads, and glibc keep the memory that is freed.

    What a gradient step frees, the next one asks for again. Handing megabytes back to the system in between costs a
    page fault for every 4 KiB of them, up to half of a learner's time.
    """
    torch.set_num_threads(threads)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the most that glibc takes
        mallopt(_M_TRIM_THRESHOLD, 256 << 20)
