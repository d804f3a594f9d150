"""Parts of a machine that faults disturb: a small disk, a wall clock, and a network link."""

from __future__ import annotations

import errno
import os
import queue
import shutil
import socket
import struct
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from attrs import define, field

_CLOCK_SOURCE = Path(__file__).with_name("wall_clock.c")
_CHUNK = 1 << 16


@define
class Disk:
    """A file system of a fixed size in memory.

    Args:
        path: Folder at which it is mounted.
        megabytes: Its size.
    """

    path: Path
    megabytes: int = 256

    def mount(self) -> str:
        """Mount the file system and return an empty text, or why that is not possible."""
        self.path.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={self.megabytes}m", "tmpfs", str(self.path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""

    def unmount(self) -> None:
        """Unmount the file system, also while processes use it."""
        subprocess.run(["umount", "--lazy", str(self.path)], check=False)

    def fill(self) -> None:
        """Write a file until no byte is free."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                self._append(file.fileno(), size)

    def _append(self, file: int, size: int) -> None:
        data = bytes(size)
        with suppress(OSError):
            while os.write(file, data) == size:
                pass

    def free(self) -> None:
        """Remove the file that fills the disk."""
        self._filler.unlink(missing_ok=True)

    @property
    def _filler(self) -> Path:
        return self.path / "filler"


@define
class WallClock:
    """The wall clock of the processes that get `environment`; other clocks run on.

    Args:
        folder: Folder for its files.

    Attributes:
        offset_s: Seconds by which it differs from the clock of the machine.
    """

    folder: Path
    offset_s: int = field(init=False, default=0)

    def build(self) -> str:
        """Compile the library that shifts the clock and return an empty text, or why that is not possible."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file.write_bytes(struct.pack("=q", 0))
        if (compiler := shutil.which("cc")) is None:
            return "no C compiler"
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(self._library), str(_CLOCK_SOURCE), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stderr.strip().partition("\n")[0] if done.returncode else ""

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables of processes that use this clock."""
        return {"LD_PRELOAD": str(self._library), "LUDUS_CHAOS_CLOCK": str(self._file)}

    def shift(self, seconds: int) -> None:
        """Let the clock differ from that of the machine by `seconds`."""
        self.offset_s = seconds
        with self._file.open("r+b", buffering=0) as file:  # the same file: processes have it in memory
            file.write(struct.pack("=q", seconds))

    @property
    def _file(self) -> Path:
        return self.folder / "offset"

    @property
    def _library(self) -> Path:
        return self.folder / "wall_clock.so"


@define(eq=False)
class Link:
    """A TCP proxy whose delay, rate and connections can be changed.

    Args:
        run_port: Port on this machine to which connections lead.
        delay_s: Delay of all data in each direction.
        bytes_per_s: Rate of each direction; 0: no limit.
        is_down: New connections are closed at once.

    Attributes:
        sent_bytes: Bytes that were sent to the run.
    """

    run_port: int
    delay_s: float = 0.0
    bytes_per_s: float = 0.0
    is_down: bool = False
    sent_bytes: int = field(init=False, default=0)
    _listener: socket.socket = field(init=False, factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _sockets: set[socket.socket] = field(init=False, factory=set)

    @property
    def port(self) -> int:
        """Return the port at which the proxy listens."""
        return int(self._listener.getsockname()[1])

    def start(self) -> None:
        """Accept connections in the background."""
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close all connections."""
        for one in list(self._sockets):
            self._close(one)

    def restore(self) -> None:
        """Forward everything at once again."""
        self.delay_s, self.bytes_per_s, self.is_down = 0.0, 0.0, False

    def close(self) -> None:
        """Close all connections and accept no more."""
        self.is_down = True
        self._listener.close()
        self.cut()

    def _close(self, one: socket.socket) -> None:
        self._sockets.discard(one)
        with suppress(OSError):  # the peer has closed it
            one.shutdown(socket.SHUT_RDWR)
        one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = None if self.is_down else socket.create_connection(("127.0.0.1", self.run_port))
            except OSError as error:
                if error.errno != errno.ECONNREFUSED:  # closed
                    return
                far = None  # the run does not listen now
            if far is None:
                near.close()
                continue
            self._sockets |= {near, far}
            self._forward(near, far, is_upward=True)
            self._forward(far, near, is_upward=False)

    def _forward(self, source: socket.socket, target: socket.socket, *, is_upward: bool) -> None:
        """Forward one direction by two threads, so that a delay does not limit the rate."""
        waiting: queue.Queue[tuple[float, bytes]] = queue.Queue(maxsize=8)

        def receive() -> None:
            data = b"-"
            while data:
                try:
                    data = source.recv(_CHUNK)
                except OSError:  # closed
                    data = b""
                waiting.put((time.monotonic(), data))

        def send() -> None:
            while True:
                received_s, data = waiting.get()
                time.sleep(max(0.0, received_s + self.delay_s - time.monotonic()))
                if not data:
                    break
                if self.bytes_per_s:
                    time.sleep(len(data) / self.bytes_per_s)
                self.sent_bytes += len(data) if is_upward else 0
                with suppress(OSError):  # closed; the other thread ends too
                    target.sendall(data)
            self._close(source)
            self._close(target)

        for work in (receive, send):
            threading.Thread(target=work, daemon=True).start()
