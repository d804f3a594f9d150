"""Process groups of one machine: arrays are exchanged through shared memory, and sockets signal that they are there.

All processes of a group are connected to rank 0. In a *round* every process sends a small frame to rank 0, which
answers with the frames of all; so no process leaves a round before all have entered it. A sum takes two rounds: each
process writes its values, adds up its slice of the values of all, and reads the slices of all. So all processes get
the same sums, bit for bit.
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


_FRAME_BYTES, _OPERATION_BYTES = 256, 64  # of a frame, and of the name of the operation at its start
_MIN_CAPACITY_BYTES = 1 << 20
_VALUES, _SUMS = 0, 1  # copies in a file
_ARRAY = "bytes"


class LocalGroup:
    """One process's handle of a group; see `ludus.launcher.ProcessGroup`. Made by `LocalRendezvous`.

    Args:
        rank: Rank of this process.
        size: Number of processes.
        connections: Rank 0: connections to the others, by rank. Others: the connection to rank 0. With a timeout.
        folder: Shared memory of this process.
    """

    def __init__(self, rank: int, size: int, connections: Sequence[socket.socket], folder: SharedFolder) -> None:
        self.rank, self.size = rank, size
        self._connections = connections
        self._folder = folder
        self._files: list[SharedFile] = []  # by rank
        self._capacity = 0  # bytes of a copy

    def mean(self, tensors: Sequence[Tensor], *, weight: float = 1.0) -> None:
        """Replace tensors by their means, in place; see `ludus.group.Group`."""
        import torch  # noqa: PLC0415 - every process with tensors has imported it

        counts = [tensor.numel() for tensor in tensors]
        first = tensors[0].detach().cpu().numpy()
        total = sum(counts) + 1  # the last element is the weight
        values, sums = (self._views(copy, total, first.dtype) for copy in (_VALUES, _SUMS))
        own, start = values[self.rank], 0
        for tensor, count in zip(tensors, counts, strict=True):
            np.multiply(tensor.detach().cpu().numpy().reshape(-1), weight, out=own[start : start + count])
            start += count
        own[-1] = weight
        self._round(f"mean {total} {first.dtype}")
        bounds = [total * rank // self.size for rank in range(self.size + 1)]
        slices = [slice(*bounds[rank : rank + 2]) for rank in range(self.size)]
        own_slice, own_sums = slices[self.rank], sums[self.rank]
        own_sums[own_slice] = values[0][own_slice]
        for other in values[1:]:
            own_sums[own_slice] += other[own_slice]
        self._round("added")
        whole, total_weight = np.empty(total, first.dtype), sums[-1][-1]
        for part, rank_sums in zip(slices, sums, strict=True):
            np.divide(rank_sums[part], total_weight, out=whole[part])
        for tensor, mean in zip(tensors, torch.split(torch.from_numpy(whole[:-1]), counts), strict=True):
            tensor.detach().copy_(mean.view_as(tensor))

    def least(self, number: float) -> float:
        """Return the least of the numbers that the processes pass."""
        return min(float(struct.unpack_from("d", data)[0]) for data in self._round("least", struct.pack("d", number)))

    def copy(self, tensors: Sequence[Tensor], *, source: int) -> None:
        """Replace tensors by those of one rank, in place."""
        import torch  # noqa: PLC0415 - as above

        arrays = [tensor.detach().cpu().contiguous().numpy() for tensor in tensors]
        whole = np.concatenate([np.empty(0, np.uint8), *(array.reshape(-1).view(np.uint8) for array in arrays)])
        for start in range(0, whole.size, step := max(self._capacity, _MIN_CAPACITY_BYTES)):
            part = whole[start : start + step]
            shared = self._views(_VALUES, part.size, part.dtype)[source]
            if self.rank == source:
                shared[...] = part
            self._round(f"copy {whole.size} of {source}")
            if self.rank != source:
                part[...] = shared
            self._round("copied")  # the source writes the next part only after all have read this one
        if self.rank != source:
            parts = np.split(whole, np.cumsum([array.nbytes for array in arrays]))
            for tensor, array, part in zip(tensors, arrays, parts, strict=False):
                tensor.detach().copy_(torch.from_numpy(part.copy().view(array.dtype).reshape(array.shape)))

    def close(self) -> None:
        """Leave the group; processes that wait for this one get a `LinkError` at once."""
        for connection in self._connections:
            connection.close()
        if self._files:
            self._files[self.rank].path.unlink(missing_ok=True)

    def _views(self, copy: int, count: int, dtype: np.dtype[np.generic]) -> list[np.ndarray]:
        """Return views of `count` elements of a copy, by rank; only this process's own is writeable."""
        size = count * dtype.itemsize
        if size > self._capacity:
            self._grow(size)
        return [file.copies[copy][_ARRAY][:size].view(dtype) for file in self._files]

    def _grow(self, size: int) -> None:
        """Make larger files; all processes of the group do so at the same time."""
        capacity = max(_MIN_CAPACITY_BYTES, 1 << (size - 1).bit_length())
        layout = Layout({_ARRAY: ArraySpec(dtype="|u1", shape=(capacity,))})
        own = self._folder.create(layout, copies=2)
        try:
            names = [data.rstrip(b"\0").decode() for data in self._round(f"grow {capacity}", own.name.encode())]
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

    def _round(self, operation: str, data: bytes = b"") -> list[bytes]:
        """Exchange data with all processes, and return it by rank.

        Args:
            operation: Name of the operation, the same in all processes.
            data: Data of this process.

        Raises:
            LinkError: A process has left, timed out, or entered another operation.
        """
        head = operation.encode().ljust(_OPERATION_BYTES, b"\0")
        own = (head + data).ljust(_FRAME_BYTES, b"\0")
        try:
            if self.rank:
                self._connections[0].sendall(own)
                received = _receive(self._connections[0], _FRAME_BYTES * self.size)
            else:
                received = b"".join([own, *(_receive(one, _FRAME_BYTES) for one in self._connections)])
                for connection in self._connections:
                    connection.sendall(received)
        except OSError as error:
            raise _connection_lost(error) from None
        frames = [received[start : start + _FRAME_BYTES] for start in range(0, len(received), _FRAME_BYTES)]
        for frame in frames:
            if not frame.startswith(head):
                other = frame[:_OPERATION_BYTES].rstrip(b"\0").decode()
                raise LinkError(f"process group out of step: this process is at {operation!r}, another at {other!r}")
        return [frame[_OPERATION_BYTES:] for frame in frames]


class LocalPendingGroup:
    """A group that is being formed; see `ludus.launcher.PendingGroup`. Made by `LocalRendezvous`.

    Args:
        path: Path of its socket.
        folder: Shared memory of this process.
        size: Number of processes.
        timeout_s: See `ludus.launcher.Rendezvous.open`.
    """

    def __init__(self, path: Path, folder: SharedFolder, *, size: int, timeout_s: float) -> None:
        self._path, self._folder, self._size, self._timeout_s = path, folder, size, timeout_s
        self._joined: dict[int, socket.socket] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(str(path))
            self._listener.listen(size)
        except OSError as error:
            self._listener.close()
            raise LinkError(f"no socket for a process group: {error}") from None
        self._listener.setblocking(False)

    def poll(self) -> LocalGroup | None:
        """Return the group once all processes have joined; see `ludus.launcher.PendingGroup`."""
        try:
            with suppress(BlockingIOError):
                while len(self._joined) < self._size - 1:
                    connection, _ = self._listener.accept()
                    connection.settimeout(self._timeout_s)
                    self._joined[_receive(connection, 1)[0]] = connection  # the rank is sent at once
        except OSError as error:
            raise _connection_lost(error) from None
        if len(self._joined) < self._size - 1:
            return None
        connections, self._joined = [self._joined[rank] for rank in sorted(self._joined)], {}
        self.close()
        return LocalGroup(0, self._size, connections, self._folder)

    def close(self) -> None:
        """Give the group up, unless it was returned."""
        self._listener.close()
        self._path.unlink(missing_ok=True)
        for connection in self._joined.values():
            connection.close()


@frozen
class LocalRendezvous:
    """Forms process groups on one machine; see `ludus.launcher.Rendezvous`.

    Args:
        sockets: Folder of the sockets.
        folder: Shared memory of this process.
    """

    sockets: Path
    folder: SharedFolder

    def open(self, name: str, *, size: int, timeout_s: float) -> LocalPendingGroup:
        """Open a group; see `ludus.launcher.Rendezvous.open`."""
        return LocalPendingGroup(self.sockets / name, self.folder, size=size, timeout_s=timeout_s)

    def join(self, name: str, *, rank: int, size: int, timeout_s: float) -> LocalGroup:
        """Join a group; see `ludus.launcher.Rendezvous.join`."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(self.sockets / name))
            connection.sendall(bytes([rank]))
        except OSError as error:
            connection.close()
            raise LinkError(f"the learner has closed the process group {name}: {error}") from None
        return LocalGroup(rank, size, [connection], self.folder)


def _connection_lost(error: OSError) -> LinkError:
    return LinkError(f"connection to a process of the group lost: {error or type(error).__name__}")


def _receive(connection: socket.socket, size: int) -> bytes:
    """Return exactly `size` bytes."""
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError("closed by the other process")
        received += part
    return bytes(received)
