"""Limits of what one message may cost, and the findings where a message exceeds them."""

from __future__ import annotations

import resource
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import Self

from attrs import define, field, frozen
from ludus.errors import LudusError

#: Limits of one message: seconds of CPU time and of waiting, and bytes by which the memory of the process grows.
MAX_CPU_S = 1.0
MAX_WALL_S = 30.0  # a busy machine may not run the process for seconds
MAX_BYTES = 64 * 2**20

_RESET_PEAK = "5"  # of /proc/self/clear_refs, see proc(5)


@frozen
class Finding:
    """A message that did what no message may do.

    Attributes:
        what: What it did, in one line.
        place: Where, so that equal findings are counted once.
        route: Sender and receiver.
    """

    what: str
    place: str
    route: str


def peak_bytes() -> int:
    """Return the largest memory of this process since the last `reset_peak`, or since its start."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def reset_peak() -> None:
    """Forget the largest memory of this process; does nothing where the system cannot."""
    try:
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return


@define
class Meter:
    """Measures one message after another, as a context.

    Attributes:
        problem: What exceeded a limit; empty if nothing did.
        raised: The exception that was raised, which is suppressed; None without one.
    """

    problem: str = field(init=False, default="")
    raised: Exception | None = field(init=False, default=None)
    _cpu_s: float = field(init=False, default=0.0)
    _wall_s: float = field(init=False, default=0.0)
    _peak_bytes: int = field(init=False, default=0)

    def __enter__(self) -> Self:
        self.problem, self.raised = "", None
        self._peak_bytes = peak_bytes()
        self._wall_s, self._cpu_s = time.perf_counter(), time.thread_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        cpu_s, wall_s = time.thread_time() - self._cpu_s, time.perf_counter() - self._wall_s
        grown = peak_bytes() - self._peak_bytes
        if cpu_s > MAX_CPU_S:
            self.problem = f"took {cpu_s:.1f} s of CPU time, at most {MAX_CPU_S:g} are allowed"
        elif wall_s > MAX_WALL_S:
            self.problem = f"blocked for {wall_s:.1f} s, at most {MAX_WALL_S:g} are allowed"
        elif grown > MAX_BYTES:
            self.problem = f"took {grown / 2**20:.0f} MiB of memory, at most {MAX_BYTES >> 20} are allowed"
        if isinstance(error, Exception):
            self.raised = error
        return error is None or isinstance(error, Exception)


def place_of(error: Exception) -> str:
    """Return where an exception was raised, as file and function: the last frame of this repository."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "ludus" in frame.filename]
    if not frames:
        return type(error).__name__
    last = frames[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.name}"


def describe(error: Exception) -> str:
    """Return an exception as one line."""
    name = "" if isinstance(error, LudusError) else f"{type(error).__name__}: "
    return (name + " ".join(str(error).split()))[:300] or type(error).__name__
