"""Log files of worker processes: what a process and its children print, in files of limited size.

A thread of the parent reads the pipe that is the standard output and error of a worker, so that the limit holds for
everything that is written to it, also by C code and by processes that a game starts.
"""

from __future__ import annotations

import fcntl
import os
import select
import threading
import time
from contextlib import suppress
from pathlib import Path

from attrs import define, field

__all__ = ["LogPipe", "RotatingLog"]

_CHUNK_BYTES = 2**20
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", None)  # on Linux; small pipes slow down a game that prints much
_BYTES_PER_S = 2**20  # more than that in a second is a flood, of which the start and the end are kept
_TAIL_BYTES = 2**16  # of a flood; a traceback may be at its end


@define
class RotatingLog:
    """Appends to a file; at half of the limit the file replaces ``FILE.1``, and an empty one is started.

    Args:
        path: The file.
        max_bytes: Limit of both files together.
    """

    path: Path
    max_bytes: int
    _window_s: float = field(init=False, default=0.0)  # start of the present second
    _window_bytes: int = field(init=False, default=0)
    _dropped: int = field(init=False, default=0)
    _tail: bytes = field(init=False, default=b"")

    @property
    def is_flooded(self) -> bool:
        """Return whether output of the present second is held back."""
        return bool(self._dropped)

    def write(self, data: bytes, *, now_s: float) -> None:
        """Append output, or only its start and its end where there is too much in a second."""
        self.end_second(now_s=now_s)
        room = max(_BYTES_PER_S - self._window_bytes, 0)
        self._window_bytes += len(data)
        if data[:room]:
            self._append(data[:room])
        if rest := data[room:]:
            self._dropped += len(rest)
            self._tail = (self._tail + rest)[-_TAIL_BYTES:]

    def end_second(self, *, now_s: float) -> None:
        """Append the end of a flood, if its second is over."""
        if now_s - self._window_s < 1.0:
            return
        if self._dropped:
            self._append(b"\n[%d bytes of output dropped]\n" % (self._dropped - len(self._tail)) + self._tail)
        self._window_s, self._window_bytes, self._dropped, self._tail = now_s, 0, 0, b""

    def _append(self, data: bytes) -> None:
        half = self.max_bytes // 2
        with suppress(OSError):  # the disk may be full, or the folder may be gone
            if self.path.exists() and self.path.stat().st_size + len(data) > half:
                self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            with self.path.open("ab") as file:
                file.write(data[-half:])


class LogPipe:
    """A pipe whose content a thread appends to a log until all its writers have closed it.

    Args:
        log: The log.

    Attributes:
        write_end: File descriptor for the child; the caller closes it once the child has it.
    """

    def __init__(self, log: RotatingLog) -> None:
        self._log = log
        self._read_end, self.write_end = os.pipe()
        if _SET_PIPE_SIZE is not None:
            with suppress(OSError):  # the system grants a user only so much memory for pipes
                fcntl.fcntl(self.write_end, _SET_PIPE_SIZE, _CHUNK_BYTES)
        self._thread = threading.Thread(target=self._copy, name=f"log-{log.path.stem}", daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        poll = select.poll()
        poll.register(self._read_end, select.POLLIN)
        while True:
            if not poll.poll(1000 if self._log.is_flooded else None):
                self._log.end_second(now_s=time.monotonic())
                continue
            data = os.read(self._read_end, _CHUNK_BYTES)
            if not data:
                break
            self._log.write(data, now_s=time.monotonic())
        self._log.end_second(now_s=float("inf"))
        os.close(self._read_end)

    def drain(self, timeout_s: float) -> None:
        """Wait until everything is in the log, or longer than the timeout for processes that keep the pipe."""
        self._thread.join(timeout_s)
