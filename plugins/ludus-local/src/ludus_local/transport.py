"""ZeroMQ transport: one endpoint per worker, used by one thread.

Peers are addressed by name. Coordinator and learners bind; their peers connect and are then reachable by their own
names. One endpoint can do both: a learner binds for samplers and connects to the coordinator.

Delivery is best effort and in order per direction: messages in flight are lost when a process dies, and workers send
again what was not acknowledged.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import zmq
from ludus.errors import LinkError, WireError
from ludus.launcher import worker_kind
from ludus.wire import Message, RefusedMessage, check_kind

from ludus_local import codec
from ludus_local.codec import Frame
from ludus_local.memory import check_private, hold, remove_stale, shared_path

#: Name of the peer that forwards messages of workers of other hosts; their first frame is the name of the worker.
FORWARDER = "forwarder"

#: Messages queued per peer and direction before `send` returns False; the forwarder's connection carries those of
#: hundreds of workers. Credits bound the bytes.
HIGH_WATER = 4096
LINGER_MS = 500
MAX_BATCH = 1024  # messages of one `receive`, so that a fast peer cannot block the caller

_FORWARDED_KINDS = {"sampler", "service"}  # samplers of other hosts, and the gateway itself
_RECONNECT_MS = (20, 1000)
_COPY_BELOW_BYTES = 256 * 1024  # smaller buffers are copied, which is faster than passing them to libzmq
_MAX_IPC_PATH_BYTES = 100  # sun_path holds 104 bytes on macOS, 108 on Linux
_PEER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}", re.ASCII)  # `learner-` and the like, then a name of 64
_log = logging.getLogger(__name__)


class Sockets:
    """The zmq sockets of one thread, with a context of their own.

    Args:
        high_water: Messages queued per peer and direction.
        threads: Number of I/O threads.

    Attributes:
        context: The zmq context.
        poller: Poller of all sockets.
    """

    def __init__(self, high_water: int = HIGH_WATER, *, threads: int = 1) -> None:
        self._high_water = high_water
        self.context = zmq.Context(threads)
        self.poller = zmq.Poller()

    def make(self, kind: int) -> zmq.Socket[bytes]:
        """Make a socket of a zmq type with the common limits and timeouts."""
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
        """Make a socket that connects to an address of this host under the given name.

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
        """Close all sockets; queued messages have half a second to be sent. May be called again."""
        self.context.destroy(linger=LINGER_MS)
        self.poller = zmq.Poller()


class ZmqEndpoint:
    """A zmq endpoint: a ROUTER for peers that connect, a DEALER for each peer that it connects to.

    Unlike PUSH, a ROUTER notices a send to a disconnected peer, and replaces the connection of a restarted peer of the
    same name. Messages of workers of other hosts come from one peer, `FORWARDER`.

    Args:
        name: Worker name.
        sockets: Folder in which peers without a known address are connected to; None without.
        high_water: Messages queued per peer and direction.
        check: Raises `WireError` for messages that their sender must not send; see `ludus.wire.check_kind`.

    Attributes:
        name: Worker name.
        drops: Dropped received messages by reason.
    """

    def __init__(
        self,
        name: str,
        *,
        sockets: Path | None = None,
        high_water: int = HIGH_WATER,
        check: Callable[..., None] = check_kind,
    ) -> None:
        if not _PEER_NAME.fullmatch(name):
            raise LinkError(f"worker name {name!r} is not 1 to 80 characters from a-z 0-9 . _ -")
        self.name = name
        self._sockets = sockets
        self._own = Sockets(high_water)
        self._check = check
        self._router: zmq.Socket[bytes] | None = None
        self._dealers: dict[str, zmq.Socket[bytes]] = {}
        self._forwarded: set[str] = set()  # peers behind the forwarder
        self.drops: Counter[str] = Counter()
        self._cut_off: set[str] = set()

    @property
    def sockets(self) -> list[zmq.Socket[bytes]]:
        """Return the zmq sockets, to poll several endpoints at once."""
        return [*self._dealers.values(), *([] if self._router is None else [self._router])]

    def bind(self, address: str) -> str:
        """Accept peers at an address and return it; port 0 is replaced by the chosen port.

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
        """Connect to the address that a peer binds, now or later; reconnects when the connection is lost.

        Raises:
            LinkError: The address is not allowed.
        """
        self._dealers[peer] = self._own.dealer(self.name, address)

    def send(self, peer: str, message: Message) -> bool:
        """Send without blocking; the sender must not write to the arrays of the message afterwards.

        Up to `HIGH_WATER` messages to a peer that this endpoint connects to are queued while it is not there.

        Returns:
            False if the peer is unknown or disconnected, or its queue is full. True does not guarantee delivery.

        Raises:
            WireError: The message cannot be encoded.
        """
        frames = codec.encode(message)
        if peer not in self._dealers and self._router is None and self._sockets is not None:
            self.connect(peer, ipc_address(self._sockets, peer))
        socket: zmq.Socket[bytes] | None = self._dealers.get(peer)
        if socket is None:
            route = [FORWARDER, peer] if peer in self._forwarded else [peer]
            socket, frames = self._router, [*(name.encode() for name in route), *frames]
        if socket is None:
            return False
        try:
            socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        except zmq.ZMQError as error:
            if error.errno in {zmq.EAGAIN, zmq.EHOSTUNREACH}:  # queue full, or disconnected
                return False
            raise
        return True

    def receive(self, timeout_s: float) -> list[tuple[str, Message]]:
        """Return received messages as (peer, message), waiting up to `timeout_s` for the first.

        A `ludus.wire.RefusedMessage` stands for a message that cannot be decoded, or that the peer must not send.
        """
        received: list[tuple[str, Message]] = []
        ready = {socket for socket, _ in self._own.poller.poll(math.ceil(timeout_s * 1000))}
        if self._router is not None and self._router in ready:
            self._drain(self._router, None, received)
        for peer, dealer in self._dealers.items():
            if dealer in ready:
                self._drain(dealer, peer, received)
        return received

    def cut_off(self, peer: str) -> None:
        """Drop all further messages of a peer unread, until `readmit`."""
        self._cut_off.add(peer)

    def readmit(self, peer: str) -> None:
        """Receive messages of a peer again."""
        self._cut_off.discard(peer)

    def close(self) -> None:
        """Close all sockets; queued messages have half a second to be sent. May be called again."""
        self._own.close()
        self._router = None
        self._dealers.clear()

    def _drain(self, socket: zmq.Socket[bytes], peer: str | None, received: list[tuple[str, Message]]) -> None:
        """Receive all messages of a socket; without `peer` the first frame is the name of the sender."""
        for message in drain(socket):
            self._accept(peer, message, received)

    def _accept(self, peer: str | None, message: list[Frame], received: list[tuple[str, Message]]) -> None:
        """Add a message to the received ones if its sender may send it; `peer` as in `_drain`."""
        sender, frames = self._split_sender(message) if peer is None else (peer, message)
        if not _PEER_NAME.fullmatch(sender):
            self._drop("unnamed", sender, "not a valid name of a peer")
        elif sender in self._cut_off:
            self._drop("cut off", sender, "too many of its messages were refused")
        else:
            self._decode(sender, frames, received)

    def _decode(self, sender: str, frames: list[Frame], received: list[tuple[str, Message]]) -> None:
        """Decode a message if its sender may send it; its kind and size are checked first."""
        reason = "undecodable"
        try:
            kind = codec.message_kind(frames)
            reason = "refused"
            self._check(sender, self.name, kind, size=codec.message_bytes(frames))
            reason = "undecodable"
            received.append((sender, codec.decode(frames)))
        except WireError as error:
            self._drop(reason if _fits(frames) else "oversized", sender, str(error))
            received.append((sender, RefusedMessage(str(error))))

    def _split_sender(self, message: list[Frame]) -> tuple[str, list[Frame]]:
        """Return the sender and the frames of a message; the forwarder's begin with the name of the worker."""
        sender, frames = bytes(message[0]).decode("latin-1"), message[1:]
        if sender != FORWARDER or not frames:
            self._forwarded.discard(sender)
            return sender, frames
        worker = bytes(frames[0]).decode("latin-1")
        if worker_kind(worker) not in _FORWARDED_KINDS:
            return "", frames[1:]
        if _PEER_NAME.fullmatch(worker):
            self._forwarded.add(worker)
        return worker, frames[1:]

    def _drop(self, reason: str, peer: str, problem: str) -> None:
        self.drops[reason] += 1
        count = self.drops[reason]
        if count.bit_count() == 1:  # 1, 2, 4, 8 …
            _log.warning("%s dropped %s message %d, from %r: %s", self.name, reason, count, peer[:64], problem)


def _fits(frames: list[Frame]) -> bool:
    """Return whether frames keep the limits."""
    try:
        codec.check_limits(frames, "")
    except WireError:
        return False
    return True


def drain(socket: zmq.Socket[bytes]) -> Iterator[list[Frame]]:
    """Yield the received messages of a socket, at most `MAX_BATCH`."""
    for _ in range(MAX_BATCH):
        try:
            frames = take_message(socket)
        except zmq.Again:
            return
        yield frames


def take_message(socket: zmq.Socket[bytes]) -> list[Frame]:
    """Receive all frames of a message; frames beyond the limit are dropped."""
    return [frame.buffer for frame in take_frames(socket)]


def take_frames(socket: zmq.Socket[bytes]) -> list[zmq.Frame]:
    """Receive all frames of a message with their metadata; frames beyond the limit are dropped."""
    frames: list[zmq.Frame] = []
    more = True
    while more:
        frame = socket.recv(zmq.NOBLOCK, copy=False)
        more = frame.more
        if len(frames) <= codec.MAX_ARRAYS + 4:  # one more than allowed, after three names
            frames.append(frame)
    return frames


def private_ipc_dir() -> Path:
    """Make a directory for `ipc_address` that only this user can enter; the caller removes it.

    It is locked by this process (`ludus_local.memory.hold`). Unlocked ones, which killed processes of this user have
    left, are removed.

    Raises:
        LinkError: No writable place was found.
    """
    # XDG_RUNTIME_DIR is last: it is removed when the user logs out, while the run may go on
    places = [tempfile.gettempdir(), "/tmp", os.environ.get("XDG_RUNTIME_DIR")]  # noqa: S108 - mkdtemp makes it private
    for place in places:
        if place and len(os.fsencode(place)) < _MAX_IPC_PATH_BYTES // 2 and os.access(place, os.W_OK | os.X_OK):
            for stale in {Path(place), shared_path(Path(place) / "any").parent}:
                remove_stale(stale)
            while not hold(directory := Path(tempfile.mkdtemp(prefix=f"ludus-run-{os.getpid()}-", dir=place))):
                pass  # another process removed it as stale before it was locked
            check_private(directory)
            return directory
    raise LinkError("no directory for sockets: set TMPDIR to a short writable path")


def ipc_address(directory: Path, name: str) -> str:
    """Return the address of a worker in a directory; long names are hashed, since socket paths are limited."""
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
