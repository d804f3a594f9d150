"""How a process of a run computes."""

from __future__ import annotations

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def prepare_to_compute(threads: int) -> None:
    """Let torch use so many threads, and glibc keep the memory that is freed.

    Importing torch takes seconds and a hundred megabytes, which a process that runs no network does without: where
    nothing has imported it yet, it finds the number when something does.

    What a gradient step frees, the next one asks for again. Handing megabytes back to the system in between costs a
    page fault for every 4 KiB of them, up to half of a learner's time.
    """
    if "torch" in sys.modules:
        import torch  # noqa: PLC0415 - see above

        torch.set_num_threads(threads)
    else:
        os.environ["OMP_NUM_THREADS"] = str(threads)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the most that glibc takes
        mallopt(_M_TRIM_THRESHOLD, 256 << 20)


def device_problem(device: str) -> str:
    """Return why torch cannot compute on a device here, empty where it can."""
    if device == "cpu":
        return ""
    import torch  # noqa: PLC0415 - seconds that only other devices need here

    cuda = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if device in (*cuda, *(["cuda"] if cuda else [])):
        return ""
    try:
        torch.ones(1, device=device).sum().item()  # not every device that holds tensors computes
    except Exception:  # noqa: BLE001 - torch raises whatever its backends do
        found = ["cpu", *cuda, *(["mps"] if torch.backends.mps.is_available() else [])]
        return f"expected a device that torch computes on here ({', '.join(found)}), got {device!r}"
    return ""
