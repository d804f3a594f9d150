"""How messages get from process to process: one endpoint per worker, used by one thread.

Peers are known by name. A worker that others report to binds; its peers connect and are then reachable under their own
names, so one endpoint can do both (a learner binds for samplers and connects to the coordinator).

Delivery is best effort and in order per direction: messages in flight are lost when a process dies, and the layer above
repeats what has not been acknowledged.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import zmq
from ludus.errors import LinkError, WireError
from ludus.wire import Message

from ludus_local import codec
from ludus_local.codec import Frame
from ludus_local.memory import check_private, hold, remove_stale, shared_path

__all__ = [
    "CARRIER",
    "HIGH_WATER",
    "LINGER_MS",
    "MAX_BATCH",
    "Sockets",
    "ZmqEndpoint",
    "drain",
    "ipc_address",
    "private_ipc_dir",
    "take_message",
]

#: The peer that speaks for workers of other hosts: the first frame of what it sends, and is sent, is the worker's name.
CARRIER = "carrier"

#: Messages queued per peer and direction before `send` answers False; a carrier's connection has those of hundreds of
#: workers. Bytes are bounded by credits, one layer up.
HIGH_WATER = 4096
LINGER_MS = 500
MAX_BATCH = 1024  # messages one `receive` hands over, so that a fast peer cannot hold the caller for ever

_RECONNECT_MS = (20, 1000)
_COPY_BELOW_BYTES = 256 * 1024  # handing a buffer to libzmq costs more than copying one of this size
_MAX_IPC_PATH_BYTES = 100  # sun_path holds 104 bytes on macOS, 108 on Linux
_PEER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}", re.ASCII)  # `learner-` and the like, then a name of 64
_log = logging.getLogger(__name__)


class Sockets:
    """The zmq sockets of one thread, with a context of their own: `close` ends its I/O thread.

    Args:
        high_water: Messages queued per peer and direction.
        threads: That read and write.

    Attributes:
        poller: Knows all of them.
    """

    def __init__(self, high_water: int = HIGH_WATER, *, threads: int = 1) -> None:
        self._high_water = high_water
        self.context = zmq.Context(threads)
        self.poller = zmq.Poller()

    def make(self, kind: int) -> zmq.Socket[bytes]:
        """Return a socket of a kind with the limits and times of all."""
        socket = self.context.socket(kind)
        socket.setsockopt(zmq.LINGER, LINGER_MS)
        socket.setsockopt(zmq.SNDHWM, self._high_water)
        socket.setsockopt(zmq.RCVHWM, self._high_water)
        socket.setsockopt(zmq.MAXMSGSIZE, codec.MAX_FRAME_BYTES)  # per frame
        socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS[0])
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MS[1])
        socket.copy_threshold = _COPY_BELOW_BYTES
        self.poller.register(socket, zmq.POLLIN)
        return socket

    def dealer(self, name: str, address: str) -> zmq.Socket[bytes]:
        """Return a socket that reaches the peer at an address of this host under a name of ours.

        Raises:
            LinkError: The address is not allowed.
        """
        _check_address(address)
        socket = self.make(zmq.DEALER)
        socket.setsockopt(zmq.IDENTITY, name.encode())
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise LinkError(f"{name} cannot connect to {address}: {error}") from None
        return socket

    def close(self) -> None:
        """Give what was sent half a second to leave, then free everything. May be called again."""
        self.context.destroy(linger=LINGER_MS)
        self.poller = zmq.Poller()


class ZmqEndpoint:
    """An endpoint over zmq: a ROUTER for all who connect here, a DEALER for each peer connected to.

    Unlike PUSH, a ROUTER notices a send to a peer that is gone, and takes a restarted peer of the same name for the
    old one. Workers of other hosts connect by way of one peer, `CARRIER`.

    Args:
        name: This worker's name, by which its peers answer.
        sockets: The folder in which peers are looked for that nobody said where to reach, by workers that do not bind
            themselves; None: there are no such peers.
        high_water: Messages queued per peer and direction.

    Attributes:
        name: This worker's.
        drops: How many received messages were dropped, by reason.
    """

    def __init__(self, name: str, *, sockets: Path | None = None, high_water: int = HIGH_WATER) -> None:
        if not _PEER_NAME.fullmatch(name):
            raise LinkError(f"worker name {name!r} is not 1 to 80 characters from a-z 0-9 . _ -")
        self.name = name
        self._sockets = sockets
        self._own = Sockets(high_water)
        self._router: zmq.Socket[bytes] | None = None
        self._dealers: dict[str, zmq.Socket[bytes]] = {}
        self._carried: set[str] = set()  # peers that the carrier speaks for
        self.drops: Counter[str] = Counter()

    @property
    def sockets(self) -> list[zmq.Socket[bytes]]:
        """Return what becomes readable when something arrives, to wait for several endpoints at once."""
        return [*self._dealers.values(), *([] if self._router is None else [self._router])]

    def bind(self, address: str) -> str:
        """Accept peers at an address and return it, with the port filled in where it was 0.

        Raises:
            LinkError: The address is not allowed or taken.
        """
        _check_address(address)
        if self._router is None:
            self._router = self._own.make(zmq.ROUTER)
            self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self._router.setsockopt(zmq.ROUTER_HANDOVER, 1)
        try:
            self._router.bind(address)
        except zmq.ZMQError as error:
            raise LinkError(f"{self.name} cannot listen at {address}: {error}") from None
        return self._router.getsockopt_string(zmq.LAST_ENDPOINT)

    def connect(self, peer: str, address: str) -> None:
        """Reach a peer at the address it binds, now or later, and again whenever the connection is lost.

        Raises:
            LinkError: The address is not allowed.
        """
        self._dealers[peer] = self._own.dealer(self.name, address)

    def send(self, peer: str, message: Message) -> bool:
        """Send without ever blocking; the arrays of the message must not be written to afterwards.

        Messages to a peer that this endpoint connects to wait while it is away, up to `HIGH_WATER` of them.

        Returns:
            False when the peer is unknown or gone, or its queue is full. True is no promise that it arrives.

        Raises:
            WireError: The message cannot be encoded.
        """
        frames = codec.encode(message)
        if peer not in self._dealers and self._router is None and self._sockets is not None:
            self.connect(peer, ipc_address(self._sockets, peer))
        socket: zmq.Socket[bytes] | None = self._dealers.get(peer)
        if socket is None:
            way = [CARRIER, peer] if peer in self._carried else [peer]
            socket, frames = self._router, [*(name.encode() for name in way), *frames]
        if socket is None:
            return False
        try:
            socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        except zmq.ZMQError as error:
            if error.errno in {zmq.EAGAIN, zmq.EHOSTUNREACH}:  # its queue is full, or it is gone
                return False
            raise
        return True

    def receive(self, timeout_s: float) -> list[tuple[str, Message]]:
        """Return what has arrived as (peer, message), waiting at most `timeout_s` for the first."""
        received: list[tuple[str, Message]] = []
        ready = {socket for socket, _ in self._own.poller.poll(math.ceil(timeout_s * 1000))}
        if self._router is not None and self._router in ready:
            self._drain(self._router, None, received)
        for peer, dealer in self._dealers.items():
            if dealer in ready:
                self._drain(dealer, peer, received)
        return received

    def close(self) -> None:
        """Give what was sent half a second to leave, then free everything. May be called again."""
        self._own.close()
        self._router = None
        self._dealers.clear()

    def _drain(self, socket: zmq.Socket[bytes], peer: str | None, received: list[tuple[str, Message]]) -> None:
        """Take all that waits in a socket; without `peer` the first frame names the sender."""
        for message in drain(socket):
            sender, frames = self._speaker(message) if peer is None else (peer, message)
            if not _PEER_NAME.fullmatch(sender):
                self._drop("unnamed", sender, "not a valid name of a peer")
                continue
            try:
                received.append((sender, codec.decode(frames)))
            except WireError as error:
                self._drop("undecodable" if _fits(frames) else "oversized", sender, str(error))

    def _speaker(self, message: list[Frame]) -> tuple[str, list[Frame]]:
        """Return who speaks, whom the carrier names first, and what it says."""
        sender, frames = bytes(message[0]).decode("latin-1"), message[1:]
        if sender != CARRIER or not frames:
            self._carried.discard(sender)
            return sender, frames
        speaker = bytes(frames[0]).decode("latin-1")
        if _PEER_NAME.fullmatch(speaker):
            self._carried.add(speaker)
        return speaker, frames[1:]

    def _drop(self, reason: str, peer: str, problem: str) -> None:
        self.drops[reason] += 1
        count = self.drops[reason]
        if count & (count - 1) == 0:  # 1, 2, 4, 8 …: a flood of garbage must not flood the log as well
            _log.warning("%s dropped %s message %d, from %r: %s", self.name, reason, count, peer[:64], problem)


def _fits(frames: list[Frame]) -> bool:
    """Return whether frames keep the limits, whatever they contain."""
    try:
        codec.check_limits(frames, "")
    except WireError:
        return False
    return True


def drain(socket: zmq.Socket[bytes]) -> Iterator[list[Frame]]:
    """Yield the messages that wait in a socket, `MAX_BATCH` at most."""
    for _ in range(MAX_BATCH):
        try:
            frames = take_message(socket)
        except zmq.Again:
            return
        yield frames


def take_message(socket: zmq.Socket[bytes]) -> list[Frame]:
    """Receive all frames of a message; those beyond the limit are not kept."""
    frames: list[Frame] = []
    more = True
    while more:
        frame = socket.recv(zmq.NOBLOCK, copy=False)
        more = frame.more
        if len(frames) <= codec.MAX_ARRAYS + 4:  # one too many, after three names
            frames.append(frame.buffer)
    return frames


def private_ipc_dir() -> Path:
    """Make a directory for `ipc_address` that only this user can enter; the caller removes it.

    This process holds it (`ludus_local.memory.hold`). Those that nobody holds, which killed processes of this user have
    left behind, are removed.

    Raises:
        LinkError: No place for it could be found.
    """
    # XDG_RUNTIME_DIR is the last: it is removed when its user logs out, and a run may be meant to go on
    places = [tempfile.gettempdir(), "/tmp", os.environ.get("XDG_RUNTIME_DIR")]  # noqa: S108 - mkdtemp makes it private
    for place in places:
        if place and len(os.fsencode(place)) < _MAX_IPC_PATH_BYTES // 2 and os.access(place, os.W_OK | os.X_OK):
            for stale in {Path(place), shared_path(Path(place) / "any").parent}:
                remove_stale(stale)
            while not hold(directory := Path(tempfile.mkdtemp(prefix=f"ludus-run-{os.getpid()}-", dir=place))):
                pass  # another start took it for stale in the moment before it was held
            check_private(directory)
            return directory
    raise LinkError("no directory for sockets: set TMPDIR to a short writable path")


def ipc_address(directory: Path, name: str) -> str:
    """Return the address of the worker `name` in a directory; long names are hashed, as socket paths are short."""
    path = directory / name
    if len(os.fsencode(path)) > _MAX_IPC_PATH_BYTES:
        path = directory / hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"ipc://{path}"


def _check_address(address: str) -> None:
    if re.fullmatch(r"tcp://127\.0\.0\.1:\d{1,5}", address):
        return
    if not address.startswith("ipc:///"):
        raise LinkError(
            f"address {address!r} is not allowed: use ipc:// in a private directory or tcp://127.0.0.1:port — "
            f"other machines join a run by `ludus join`, of ludus-hosts"
        )
    path = Path(address.removeprefix("ipc://"))
    if len(os.fsencode(path)) > _MAX_IPC_PATH_BYTES:
        raise LinkError(f"socket path {path} is longer than {_MAX_IPC_PATH_BYTES} bytes: use a shorter directory")
    check_private(path.parent)
