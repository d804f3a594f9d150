"""Processes that stand for samplers, and the learner's side of talking to them.

They must start fast and need no policy, so nothing of `_pieces` is imported here.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field
from ludus.errors import LinkError
from ludus.wire import Credit, Heartbeat, Hello, Segments, Stop
from ludus_local import carriage
from ludus_local.link import HostLink
from ludus_local.memory import SharedFolder, remove, shared_path
from ludus_local.transport import ZmqEndpoint, ipc_address, private_ipc_dir

__all__ = ["Receiver", "WeightsSender", "packed_bytes"]

_LEARNER, _PLAYER = "learner-bench", "bench"
_WINDOW = 4  # blocks under way
_PATIENCE_S = 60.0
_LEAVE_S = 2.0  # for all together; those that still start do not hear that they are to stop
_LOOK_S = 2e-4  # between two looks at the board, which samplers take between two ticks


@contextmanager
def deaf_children() -> Iterator[None]:
    """Start processes that never hear Ctrl-C, which reaches a whole terminal; this process hears it afterwards.

    Ignoring it meanwhile would be inherited, too, but a Ctrl-C of that moment would be lost.
    """
    resource_tracker.ensure_running()  # it is started with the first process otherwise, and unblocks the signal
    heard: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))  # threads do not block it
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        if heard:
            signal.raise_signal(signal.SIGINT)


class _Peers:
    """A learner's link in a private folder, with processes that reach it.

    Args:
        shared: Whether what is large goes through shared memory.
        tcp: Whether messages go through TCP, as between hosts, instead of sockets of the file system.

    Raises:
        LinkError: There is no shared memory.
    """

    def __init__(self, *, shared: bool, tcp: bool = False) -> None:
        self.sockets = private_ipc_dir()
        endpoint = ZmqEndpoint(_LEARNER)
        self.address = endpoint.bind("tcp://127.0.0.1:0" if tcp else ipc_address(self.sockets, _LEARNER))
        folder = SharedFolder.beside(self.sockets, _LEARNER) if shared else None
        self.link = HostLink(endpoint, folder, address=self.address)
        self.processes: list[Any] = []
        self.pids: dict[str, int] = {}
        if shared and folder is None:
            self.close()
            raise LinkError("there is no shared memory here")

    def start(self, target: Any, name: str, *arguments: object) -> None:
        """Start a process that runs ``target(sockets, address, name, *arguments)``."""
        made = multiprocessing.get_context("spawn").Process(
            target=target, args=(str(self.sockets), self.address, name, *arguments), name=name, daemon=True
        )
        self.pids[name] = 0
        with deaf_children():
            made.start()
            self.processes.append(made)

    def wait_for_all(self) -> None:
        """Wait until every process has said hello.

        Raises:
            LinkError: One does not.
        """
        end = time.monotonic() + _PATIENCE_S
        while missing := [name for name, pid in self.pids.items() if not pid]:
            for peer, message in self.link.receive(0.1):
                if isinstance(message, Hello):
                    self.pids[peer] = message.pid
            if time.monotonic() > end:
                raise LinkError(f"{', '.join(sorted(missing))} did not start within {_PATIENCE_S:.0f} s")

    def grant(self, name: str, *, taken: int = 0, version: int = 0, weights: Mapping[str, np.ndarray]) -> None:
        """Say to a process which blocks are taken, and bring it weights unless it finds them in shared memory."""
        credit = Credit(
            player=_PLAYER,
            acked=taken,
            released=taken,
            credits=_WINDOW,
            pid=self.pids[name],
            version=version,
            weights=weights,
        )
        self.link.send(name, credit)

    def close(self) -> None:
        """End the processes and remove the folders."""
        for name in self.pids:
            self.link.send(name, Stop())
        end = time.monotonic() + _LEAVE_S
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
            process.kill()
            process.join()
        self.link.close()
        for folder in (self.sockets, shared_path(self.sockets)):
            remove(folder)


def _connect(sockets: str, address: str, name: str, *, shared: bool) -> HostLink:
    endpoint = ZmqEndpoint(name)
    endpoint.connect(_LEARNER, address)
    link = HostLink(endpoint, SharedFolder.beside(Path(sockets), name) if shared else None)
    link.send(_LEARNER, Hello(pid=os.getpid()))
    return link


# -- segments ------------------------------------------------------------------------------------------------------


class Receiver:
    """A learner that is sent one block of segments again and again by another process and copies it once.

    Args:
        arrays: The block, see `SegmentBatch.arrays`.
        shared: Through shared memory instead of sockets.
        tcp: Through TCP, as between hosts.

    Raises:
        LinkError: There is no shared memory, or the process does not start.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], *, shared: bool, tcp: bool = False) -> None:
        self._peers = _Peers(shared=shared, tcp=tcp)
        self._buffers = {name: np.zeros_like(array) for name, array in arrays.items()}
        self._bytes = float(sum(array.nbytes for array in arrays.values()))
        self._taken = 0
        try:
            self._peers.start(_send_blocks, "sampler-0", dict(arrays), shared)
            self._peers.wait_for_all()
            self._peers.grant("sampler-0", weights={})
        except BaseException:
            self.close()
            raise

    def work(self) -> float:
        """Take what has arrived, at least one block, and return its bytes.

        Raises:
            LinkError: Nothing arrives.
        """
        received, end = 0.0, time.monotonic() + _PATIENCE_S
        while not received:
            if time.monotonic() > end:
                raise LinkError(f"no block arrived within {_PATIENCE_S:.0f} s")
            for _, message in self._peers.link.receive(1.0):
                if isinstance(message, Segments):
                    for name, array in message.arrays.items():
                        np.copyto(self._buffers[name], array)
                    self._taken = message.block
                    received += self._bytes
                    self._peers.grant("sampler-0", taken=self._taken, weights={})
        return received

    def close(self) -> None:
        """End the other process."""
        self._peers.close()


def _send_blocks(sockets: str, address: str, name: str, arrays: dict[str, np.ndarray], shared: bool) -> None:
    """Send a block whenever there is credit, until told to stop."""
    link = _connect(sockets, address, name, shared=shared)
    filled: set[int] = set()
    sent, allowed, end = 0, 0, time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        for _, message in link.receive(0.0 if sent < allowed else 0.1):
            if not isinstance(message, Credit):
                return
            allowed, end = message.released + message.credits, time.monotonic() + _PATIENCE_S
        if sent < allowed:
            sent += 1
            block = _block(arrays, link, filled)
            link.send(_LEARNER, Segments(player=_PLAYER, block=sent, pid=os.getpid(), arrays=block))


def _block(arrays: dict[str, np.ndarray], link: HostLink, filled: set[int]) -> Mapping[str, np.ndarray]:
    """Return the block as it was recorded: in shared memory if there is any, which is filled when it is used first."""
    lent = link.allocate(_PLAYER, {name: (array.shape, array.dtype) for name, array in arrays.items()})
    if lent is None:
        return arrays
    where = lent["length"].ctypes.data
    if where not in filled:
        filled.add(where)
        for name, array in arrays.items():
            lent[name][...] = array
    return lent


def packed_bytes(arrays: Mapping[str, np.ndarray]) -> int:
    """Return how many bytes a block's arrays have on their way through TCP."""
    block = Segments(player=_PLAYER, block=1, pid=os.getpid(), arrays=arrays)
    sent = carriage.pack(block, None, carriage.ways("tcp:", shared=False))
    return sum(array.nbytes for array in sent.arrays.values())


# -- weights -------------------------------------------------------------------------------------------------------


class WeightsSender:
    """A learner that publishes weights to several processes and waits until all have copied them.

    Args:
        weights: What it publishes.
        samplers: How many processes.
        shared: Through a board in shared memory instead of messages.

    Raises:
        LinkError: There is no shared memory, or a process does not start.
    """

    def __init__(self, weights: Mapping[str, np.ndarray], *, samplers: int, shared: bool) -> None:
        self._peers, self._weights, self._version = _Peers(shared=shared), dict(weights), 0
        self._shared = shared
        try:
            for number in range(samplers):
                self._peers.start(_follow, f"sampler-{number}", shared)
            self._peers.wait_for_all()
            self._publish()
        except BaseException:
            self.close()
            raise

    def work(self) -> float:
        """Publish once, wait until all have it, and return 1.

        Raises:
            LinkError: One does not take it.
        """
        self._version += 1
        self._publish()
        missing, end = set(self._peers.pids), time.monotonic() + _PATIENCE_S
        while missing:
            for peer, message in self._peers.link.receive(1.0):
                if isinstance(message, Heartbeat) and message.count >= self._version:
                    missing.discard(peer)
            if time.monotonic() > end:
                raise LinkError(f"{', '.join(sorted(missing))} did not take version {self._version}")
        return 1.0

    def _publish(self) -> None:
        self._peers.link.publish(self._weights, self._version)
        for name in self._peers.pids if self._version == 0 or not self._shared else ():
            self._peers.grant(name, version=self._version, weights=self._weights)

    def close(self) -> None:
        """End the other processes."""
        self._peers.close()


def _follow(sockets: str, address: str, name: str, shared: bool) -> None:
    """Copy every version of the weights, from the board or from messages, and say so, until told to stop."""
    link, follower = _connect(sockets, address, name, shared=shared), _Follower()
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end and not follower.stopped:
        before = follower.version
        for _, message in link.receive(0.0 if shared else 0.1):
            follower.handle(message)
        link.refresh(_LEARNER, follower.version, follower.take)
        if follower.version > before:
            end = time.monotonic() + _PATIENCE_S
            link.send(_LEARNER, Heartbeat(count=follower.version))
        elif shared:
            time.sleep(_LOOK_S)


@define
class _Follower:
    """What a sampler knows of its learner's weights."""

    version: int = -1
    stopped: bool = False
    _own: dict[str, np.ndarray] = field(factory=dict)

    def handle(self, message: Any) -> None:
        """Take one message of the learner."""
        match message:
            case Stop():
                self.stopped = True
            case Credit() if message.weights:
                self.take(message.weights, message.version)

    def take(self, weights: Mapping[str, np.ndarray], version: int) -> None:
        """Copy weights."""
        for name, array in weights.items():
            np.copyto(self._own.setdefault(name, np.empty_like(array)), array)
        self.version = version
