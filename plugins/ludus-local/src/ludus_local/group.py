"""Groups of processes of one machine: what is large lies in shared memory, sockets say when it is there.

All are connected with the first of a group. A *round* is one exchange of small frames: everyone says one to the first,
which answers with all of them, so nobody is through before everyone has come. Sums go through memory in two rounds:
each process writes what it has, adds up its part of what all have written, and reads the parts of all. So sums are the
same everywhere, to the bit.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen
from ludus.errors import LinkError, WireError

from ludus_local.memory import ArraySpec, Layout, SharedFile, SharedFolder

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LocalCall", "LocalGroup", "LocalRendezvous"]

_FRAME, _HEAD = 256, 64  # bytes that one says in a round, and of what all are about to do; names of files are shorter
_LEAST_BYTES = 1 << 20
_GIVEN, _SUMS = 0, 1  # copies in a file
_ALL = "bytes"


class LocalGroup:
    """A process's place in a group; see `ludus.launcher.ProcessGroup`. Made by `LocalCall` and `LocalRendezvous`.

    Args:
        rank: Of this process.
        size: Of the group.
        connections: From the first to the others, in their order; from others to the first. With a timeout.
        folder: Of this process.
    """

    def __init__(self, rank: int, size: int, connections: Sequence[socket.socket], folder: SharedFolder) -> None:
        self.rank, self.size = rank, size
        self._connections = connections
        self._folder = folder
        self._files: list[SharedFile] = []  # one for each, by rank
        self._capacity = 0  # bytes of a copy

    def mean(self, tensors: Sequence[Tensor], *, weight: float = 1.0) -> None:
        """Replace tensors by their means, in place; see `ludus.group.Group`."""
        import torch  # noqa: PLC0415 - whoever has tensors has loaded it

        counts = [tensor.numel() for tensor in tensors]
        first = tensors[0].detach().cpu().numpy()
        total = sum(counts) + 1  # the last one is the weight
        given, sums = (self._copies(copy, total, first.dtype) for copy in (_GIVEN, _SUMS))
        own, place = given[self.rank], 0
        for tensor, count in zip(tensors, counts, strict=True):
            np.multiply(tensor.detach().cpu().numpy().reshape(-1), weight, out=own[place : place + count])
            place += count
        own[-1] = weight
        self._round(f"mean {total} {first.dtype}")
        bounds = [total * rank // self.size for rank in range(self.size + 1)]
        parts = [slice(*bounds[rank : rank + 2]) for rank in range(self.size)]
        part, added = parts[self.rank], sums[self.rank]
        added[part] = given[0][part]
        for other in given[1:]:
            added[part] += other[part]
        self._round("added")
        whole, weights = np.empty(total, first.dtype), sums[-1][-1]
        for one, theirs in zip(parts, sums, strict=True):
            np.divide(theirs[one], weights, out=whole[one])
        for tensor, mean in zip(tensors, torch.split(torch.from_numpy(whole[:-1]), counts), strict=True):
            tensor.detach().copy_(mean.view_as(tensor))

    def least(self, number: float) -> float:
        """Return the least of the numbers that all call this with."""
        return min(float(struct.unpack_from("d", said)[0]) for said in self._round("least", struct.pack("d", number)))

    def copy(self, tensors: Sequence[Tensor], *, source: int) -> None:
        """Replace tensors by those of one trainer, in place."""
        import torch  # noqa: PLC0415 - as above

        arrays = [tensor.detach().cpu().contiguous().numpy() for tensor in tensors]
        whole = np.concatenate([np.empty(0, np.uint8), *(array.reshape(-1).view(np.uint8) for array in arrays)])
        for start in range(0, whole.size, step := max(self._capacity, _LEAST_BYTES)):
            part = whole[start : start + step]
            shown = self._copies(_GIVEN, part.size, part.dtype)[source]
            if self.rank == source:
                shown[...] = part
            self._round(f"copy {whole.size} of {source}")
            if self.rank != source:
                part[...] = shown
            self._round("copied")  # before that nobody writes anything else there
        if self.rank != source:
            parts = np.split(whole, np.cumsum([array.nbytes for array in arrays]))
            for tensor, array, part in zip(tensors, arrays, parts, strict=False):
                tensor.detach().copy_(torch.from_numpy(part.copy().view(array.dtype).reshape(array.shape)))

    def close(self) -> None:
        """Leave; whoever waits for this process hears of it at once."""
        for connection in self._connections:
            connection.close()
        if self._files:
            self._files[self.rank].path.unlink(missing_ok=True)

    def _copies(self, copy: int, count: int, dtype: np.dtype[np.generic]) -> list[np.ndarray]:
        """Return so many numbers of one copy in the memory of each; only those of this process can be written to."""
        size = count * dtype.itemsize
        if size > self._capacity:
            self._grow(size)
        return [file.copies[copy][_ALL][:size].view(dtype) for file in self._files]

    def _grow(self, size: int) -> None:
        """Make larger files; all of a group do so at the same time."""
        capacity = max(_LEAST_BYTES, 1 << (size - 1).bit_length())
        layout = Layout({_ALL: ArraySpec(dtype="|u1", shape=(capacity,))})
        own = self._folder.create(layout, copies=2)
        try:
            names = [said.rstrip(b"\0").decode() for said in self._round(f"grow {capacity}", own.name.encode())]
            files = [
                own if rank == self.rank else self._folder.attach(name.rsplit(".", 2)[0], name, layout, copies=2)
                for rank, name in enumerate(names)
            ]
        except (LinkError, WireError) as error:
            own.path.unlink(missing_ok=True)
            raise LinkError(str(error)) from None
        if self._files:
            self._files[self.rank].path.unlink(missing_ok=True)
        self._files, self._capacity = files, capacity

    def _round(self, what: str, said: bytes = b"") -> list[bytes]:
        """Return what everyone says, by rank.

        Args:
            what: All of them are about to do.
            said: By this one.

        Raises:
            LinkError: One is gone, has not come for too long, or is about to do something else.
        """
        head = what.encode().ljust(_HEAD, b"\0")
        own = (head + said).ljust(_FRAME, b"\0")
        try:
            if self.rank:
                self._connections[0].sendall(own)
                everything = _receive(self._connections[0], _FRAME * self.size)
            else:
                everything = b"".join([own, *(_receive(one, _FRAME) for one in self._connections)])
                for connection in self._connections:
                    connection.sendall(everything)
        except OSError as error:
            raise _gone(error) from None
        frames = [everything[start : start + _FRAME] for start in range(0, len(everything), _FRAME)]
        for frame in frames:
            if not frame.startswith(head):
                other = frame[:_HEAD].rstrip(b"\0").decode()
                raise LinkError(f"the processes of the learner do not go together: {what!r} here, {other!r} there")
        return [frame[_HEAD:] for frame in frames]


class LocalCall:
    """A group that is to be; see `ludus.launcher.PendingGroup`. Made by `LocalRendezvous`.

    Args:
        path: Of its socket.
        folder: Shared memory of this process.
        size: Of the group.
        timeout_s: See `ludus.launcher.Rendezvous.call`.
    """

    def __init__(self, path: Path, folder: SharedFolder, *, size: int, timeout_s: float) -> None:
        self._path, self._folder, self._size, self._timeout_s = path, folder, size, timeout_s
        self._came: dict[int, socket.socket] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(str(path))
            self._listener.listen(size)
        except OSError as error:
            self._listener.close()
            raise LinkError(f"no socket for the processes of the learner: {error}") from None
        self._listener.setblocking(False)

    def poll(self) -> LocalGroup | None:
        """Return the group once all have come; see `ludus.launcher.PendingGroup`."""
        try:
            with suppress(BlockingIOError):
                while len(self._came) < self._size - 1:
                    connection, _ = self._listener.accept()
                    connection.settimeout(self._timeout_s)
                    self._came[_receive(connection, 1)[0]] = connection  # said at once
        except OSError as error:
            raise _gone(error) from None
        if len(self._came) < self._size - 1:
            return None
        connections, self._came = [self._came[rank] for rank in sorted(self._came)], {}
        self.close()
        return LocalGroup(0, self._size, connections, self._folder)

    def close(self) -> None:
        """Let go those who have come."""
        for connection in (self._listener, *self._came.values()):
            connection.close()
        self._path.unlink(missing_ok=True)


@frozen
class LocalRendezvous:
    """Where the processes of a learner meet on this machine; see `ludus.launcher.Rendezvous`.

    Args:
        sockets: A private folder.
        folder: Shared memory of this process.
    """

    sockets: Path
    folder: SharedFolder

    def call(self, name: str, *, size: int, timeout_s: float) -> LocalCall:
        """Open a meeting; see `ludus.launcher.Rendezvous.call`."""
        return LocalCall(self.sockets / name, self.folder, size=size, timeout_s=timeout_s)

    def join(self, name: str, *, rank: int, size: int, timeout_s: float) -> LocalGroup:
        """Come to a meeting; see `ludus.launcher.Rendezvous.join`."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(self.sockets / name))
            connection.sendall(bytes([rank]))
        except OSError as error:
            connection.close()
            raise LinkError(f"the learner has given up the meeting: {error}") from None
        return LocalGroup(rank, size, [connection], self.folder)


def _gone(error: OSError) -> LinkError:
    return LinkError(f"another process of the learner is gone: {error or type(error).__name__}")


def _receive(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes."""
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError("it has left")
        received += part
    return bytes(received)
