"""How many bytes wait in the UDP sockets of processes, from the tables of Linux."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

_TABLE = Path("/proc/net/udp")
_SOCKET = "socket:["
_TIMEOUT_S = 0.05


class Inboxes:
    """The UDP sockets of some processes.

    Args:
        processes: Ids of the processes.
    """

    def __init__(self, processes: Sequence[int]) -> None:
        self._sockets = {inode for process in processes for inode in _sockets_of(process)}

    def read(self) -> dict[str, int]:
        """Return the number of waiting bytes of each UDP socket, by its inode."""
        with contextlib.suppress(OSError):
            rows = map(str.split, _TABLE.read_text().splitlines()[1:])
            return {row[9]: int(row[4].partition(":")[2], 16) for row in rows if row[9] in self._sockets}
        return {}

    def wait_for_more(self, before: dict[str, int]) -> None:
        """Wait until every socket has more bytes than before, for 50 ms at most."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline_s:
            now = self.read()
            if all(now.get(inode, 0) > size for inode, size in before.items()):
                return


def _sockets_of(process: int) -> list[str]:
    """Return the inodes of the sockets of a process."""
    inodes = []
    for link in Path("/proc", str(process), "fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(link.readlink())
            if target.startswith(_SOCKET):
                inodes.append(target[len(_SOCKET) : -1])
    return inodes
