"""Processes that stand for samplers, and the learner's side of talking to them; like `_pieces`, on private modules.

Kept apart from `_pieces` because the processes that are started here must start fast: they need no policy.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field
from ludus._board import Board, BoardReader
from ludus._carriage import SLOT, load, unload
from ludus._messages import Credit, Hello, Progress, Segments, Stop
from ludus._shared import SharedFolder, shared_path
from ludus._slots import SlotReader, Slots
from ludus._transport import ZmqEndpoint, ipc_address, private_ipc_dir
from ludus.errors import LinkError
from ludus.segment import SegmentBatch

__all__ = ["Receiver", "WeightsSender"]

_LEARNER, _PLAYER = "learner-bench", "bench"
_WINDOW = 4  # blocks under way
_PATIENCE_S = 60.0
_LOOK_S = 2e-4  # between two looks at the board, which samplers take between two ticks


class _Peers:
    """A learner's endpoint in a private folder, with processes that connect to it."""

    def __init__(self) -> None:
        self.sockets = private_ipc_dir()
        self.endpoint = ZmqEndpoint(_LEARNER)
        self.endpoint.bind(ipc_address(self.sockets, _LEARNER))
        self.folder = SharedFolder.beside(self.sockets, _LEARNER)
        self.processes: list[Any] = []
        self.names: list[str] = []

    def start(self, target: Any, name: str, *arguments: object) -> None:
        """Start a process that runs ``target(sockets, name, *arguments)``."""
        made = multiprocessing.get_context("spawn").Process(
            target=target, args=(str(self.sockets), name, *arguments), name=name, daemon=True
        )
        made.start()
        self.processes.append(made)
        self.names.append(name)

    def wait_for_all(self) -> None:
        """Wait until every process has said hello.

        Raises:
            LinkError: One does not.
        """
        missing, end = set(self.names), time.monotonic() + _PATIENCE_S
        while missing:
            missing -= {peer for peer, message in self.endpoint.receive(0.1) if isinstance(message, Hello)}
            if time.monotonic() > end:
                raise LinkError(f"{', '.join(sorted(missing))} did not start within {_PATIENCE_S:.0f} s")

    def close(self) -> None:
        """End the processes and remove the folders."""
        for name in self.names:
            self.endpoint.send(name, Stop())
        for process in self.processes:
            process.join(2.0)
            process.kill()
            process.join()
        self.endpoint.close()
        for folder in (self.sockets, shared_path(self.sockets)):
            shutil.rmtree(folder, ignore_errors=True)


def _connect(sockets: str, name: str) -> ZmqEndpoint:
    endpoint = ZmqEndpoint(name)
    endpoint.connect(_LEARNER, ipc_address(Path(sockets), _LEARNER))
    return endpoint


# -- segments ------------------------------------------------------------------------------------------------------


class Receiver:
    """A learner that is sent one block of segments again and again by another process and copies it once.

    Args:
        arrays: The block, see `SegmentBatch.arrays`.
        shared: Through shared memory instead of sockets.

    Raises:
        LinkError: There is no shared memory, or the process does not start.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], *, shared: bool) -> None:
        self._peers = _Peers()
        self._buffers = {name: np.zeros_like(array) for name, array in arrays.items()}
        self._bytes = float(sum(array.nbytes for array in arrays.values()))
        self._taken = 0
        try:
            if shared and self._peers.folder is None:
                raise LinkError("there is no shared memory here")
            self._reader = SlotReader(self._peers.folder, "sampler-0") if self._peers.folder else None
            self._peers.start(_send_blocks, "sampler-0", dict(arrays), shared)
            self._peers.wait_for_all()
            self._grant()
        except BaseException:
            self.close()
            raise

    def work(self) -> float:
        """Take what has arrived, at least one block, and return its bytes."""
        received = 0.0
        while not received:
            for _, message in self._peers.endpoint.receive(1.0):
                if isinstance(message, Segments):
                    for name, array in unload(message, self._reader).arrays().items():
                        np.copyto(self._buffers[name], array)
                    self._taken = message.block
                    received += self._bytes
                    self._grant()
        return received

    def _grant(self) -> None:
        credit = Credit(player=_PLAYER, acked=self._taken, released=self._taken, credits=_WINDOW, version=0)
        self._peers.endpoint.send("sampler-0", credit)

    def close(self) -> None:
        """End the other process."""
        self._peers.close()


def _send_blocks(sockets: str, name: str, arrays: dict[str, np.ndarray], shared: bool) -> None:
    """Send a block whenever there is credit, until told to stop."""
    endpoint = _connect(sockets, name)
    folder = SharedFolder.beside(Path(sockets), name) if shared else None
    slots = Slots(folder) if folder is not None else None
    endpoint.send(_LEARNER, Hello(worker=name, pid=os.getpid()))
    held: dict[int, Any] = {}
    sent, allowed, end = 0, 0, time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        for _, message in endpoint.receive(0.0 if sent < allowed else 0.1):
            if not isinstance(message, Credit):
                return
            allowed, end = message.released + message.credits, time.monotonic() + _PATIENCE_S
            for block in [block for block in held if block <= message.released]:
                held.pop(block).release()
        if sent < allowed:
            sent += 1
            batch = _block(arrays, slots)
            if batch.lease is not None:
                held[sent] = batch.lease
            ways = (SLOT,) if shared else ()
            endpoint.send(_LEARNER, load(batch, worker=name, player=_PLAYER, block=sent, pid=os.getpid(), ways=ways))


def _block(arrays: dict[str, np.ndarray], slots: Slots | None) -> SegmentBatch:
    """Return the block as it was recorded: in a slot if there are any, which is filled when it is used first."""
    slot = None if slots is None else slots.take({name: (array.shape, array.dtype) for name, array in arrays.items()})
    if slot is None:
        return SegmentBatch.from_arrays(arrays)
    if slot.generation == 1:
        for name, array in arrays.items():
            slot.arrays[name][...] = array
    batch = SegmentBatch.from_arrays(slot.arrays)
    batch.lease = slot
    return batch


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
        self._peers, self._weights, self._version = _Peers(), dict(weights), 0
        self._board: Board | None = None
        try:
            if shared:
                if self._peers.folder is None:
                    raise LinkError("there is no shared memory here")
                self._board = Board.of(self._peers.folder, self._weights)
            for number in range(samplers):
                self._peers.start(_follow, f"sampler-{number}")
            self._peers.wait_for_all()
            self._announce()
        except BaseException:
            self.close()
            raise

    def work(self) -> float:
        """Publish once, wait until all have it, and return 1.

        Raises:
            LinkError: One does not take it.
        """
        self._version += 1
        if self._board is not None:
            self._board.publish(self._weights, self._version)
        else:
            self._announce()
        missing, end = set(self._peers.names), time.monotonic() + _PATIENCE_S
        while missing:
            for peer, message in self._peers.endpoint.receive(1.0):
                if isinstance(message, Progress) and message.count >= self._version:
                    missing.discard(peer)
            if time.monotonic() > end:
                raise LinkError(f"{', '.join(sorted(missing))} did not take version {self._version}")
        return 1.0

    def _announce(self) -> None:
        for name in self._peers.names:
            credit = Credit(
                player=_PLAYER,
                acked=0,
                credits=1,
                version=self._version,
                weights={} if self._board else self._weights,
                board=self._board.file.name if self._board else "",
                layout=self._board.layout.specs if self._board else {},
            )
            self._peers.endpoint.send(name, credit)

    def close(self) -> None:
        """End the other processes."""
        self._peers.close()


def _follow(sockets: str, name: str) -> None:
    """Copy every version of the weights, from the board or from messages, and say so, until told to stop."""
    endpoint = _connect(sockets, name)
    folder = SharedFolder.beside(Path(sockets), name)
    endpoint.send(_LEARNER, Hello(worker=name, pid=os.getpid(), shared=folder is not None))
    follower = _Follower(folder)
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end and not follower.stopped:
        for _, message in endpoint.receive(0.0 if follower.board else 0.1):
            follower.handle(message)
        if follower.refresh():
            end = time.monotonic() + _PATIENCE_S
            endpoint.send(_LEARNER, Progress(worker=name, count=follower.version))
        elif follower.board is not None:
            time.sleep(_LOOK_S)


@define
class _Follower:
    """What a sampler knows of its learner's weights."""

    folder: SharedFolder | None
    version: int = -1
    stopped: bool = False
    board: BoardReader | None = None
    _told: int = -1
    _own: dict[str, np.ndarray] = field(factory=dict)

    def handle(self, message: Any) -> None:
        """Take one message of the learner."""
        match message:
            case Stop():
                self.stopped = True
            case Credit() if message.layout and self.folder is not None:
                self.board = BoardReader(self.folder, _LEARNER, message.board, message.layout)
            case Credit() if message.weights:
                self._take(message.weights, message.version)

    def refresh(self) -> bool:
        """Copy what is new on the board and return whether there were newer weights since the last call."""
        if self.board is not None and self.board.version > self.version:
            self.board.load(self._take)
        self._told, news = self.version, self.version > self._told
        return news

    def _take(self, weights: Mapping[str, np.ndarray], version: int) -> None:
        for name, array in weights.items():
            np.copyto(self._own.setdefault(name, np.empty_like(array)), array)
        self.version = version
