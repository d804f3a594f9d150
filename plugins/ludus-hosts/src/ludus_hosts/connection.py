"""Encrypted TCP sockets between hosts; only holders of an allowed key can connect (CurveZMQ)."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import zmq
from ludus.errors import ConfigError, LinkError
from ludus_local.codec import Frame
from ludus_local.transport import MAX_BATCH, Sockets, take_frames
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils.monitor import recv_monitor_message

from ludus_hosts.keys import JoinKey, RunKey

_HEARTBEAT_INTERVAL_MS = 2000
_HEARTBEAT_TIMEOUT_MS = 60_000  # also the longest time that one frame may take
_UNREADABLE_CHECKS = 2
_DOMAIN = "ludus"  # ZAP domain
_WRONG_KEY = "the host that answers has no run with the key that this one belongs to"
_PROBLEMS: dict[int, str] = {
    zmq.EVENT_CONNECT_DELAYED: "no host answers",
    zmq.EVENT_CONNECTED: "the host that answers does not use the protocol of a run",
    zmq.EVENT_DISCONNECTED: "the connection was lost",
}
_log = logging.getLogger(__name__)


class Listener:
    """The socket at which a run accepts hosts.

    The key of a connection is authenticated. When a key is deleted from the file of the run, or blocked, nothing more
    is received from its connections, and `check_keys` disconnects them.

    Args:
        sockets: Makes the socket.
        address: TCP address.
        key: Key file of the run; read again for every connection, so that allowed keys may change.

    Attributes:
        socket: A ROUTER.

    Raises:
        ConfigError: The key file cannot be used.
        LinkError: The address is not one of this machine, or in use.
    """

    def __init__(self, sockets: Sockets, address: str, key: Path) -> None:
        own = RunKey.read(key)
        self._key = key
        self._allowed = frozenset(own.allowed.values())
        self._blocked: set[str] = set()
        self._key_of: dict[int, str] = {}  # by file descriptor of the connections that have sent something
        self._unreadable = 0  # checks in a row that could not read the key file
        # Without an authenticator CURVE accepts all keys; this one runs before the socket is bound.
        self._authenticator = ThreadAuthenticator(sockets.context, log=_log)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(_DOMAIN, self)
        self.socket = sockets.make(zmq.ROUTER)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        _configure(self.socket, own.public, own.secret)
        self.socket.setsockopt(zmq.CURVE_SERVER, 1)
        self.socket.setsockopt(zmq.ZAP_DOMAIN, _DOMAIN.encode())
        self.socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # accept no key if the authenticator has ended
        try:
            self.socket.bind(address)
        except zmq.ZMQError as error:
            self.close()
            raise LinkError(f"cannot listen at {address}: {error}; choose another address") from None
        self._port = int(self.socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])

    def callback(self, domain: str, key: bytes) -> bool:  # noqa: ARG002 - the authenticator's signature
        """Return whether a public key may connect; called by the thread of the authenticator."""
        try:
            self._allowed = frozenset(RunKey.read(self._key).allowed.values()) - self._blocked
        except ConfigError as error:
            _log.warning("connection rejected: %s", error)
            return False
        return key.decode("latin-1") in self._allowed

    def receive(self) -> Iterator[tuple[str, list[Frame]]]:
        """Yield the public key of the sender and the frames of every received message, at most `MAX_BATCH`."""
        for _ in range(MAX_BATCH):
            try:
                frames = take_frames(self.socket)
            except zmq.Again:
                return
            key = str(frames[-1].get("User-Id"))
            self._key_of[int(frames[-1].get(zmq.SRCFD))] = key
            if key in self._allowed:
                yield key, [frame.buffer for frame in frames]

    def block(self, key: str) -> None:
        """Receive nothing more from the connections of a key; the next `check_keys` disconnects them."""
        self._blocked.add(key)
        self._allowed -= {key}

    def check_keys(self) -> list[str]:
        """Read the key file, disconnect the connections of keys that may not take part, and return these keys.

        A file that cannot be read twice in a row allows no key.
        """
        try:
            self._allowed = frozenset(RunKey.read(self._key).allowed.values()) - self._blocked
            self._unreadable = 0
        except ConfigError as error:
            self._unreadable += 1
            if self._unreadable == _UNREADABLE_CHECKS:
                _log.warning("all hosts are disconnected: %s", error)
                self._allowed = frozenset()
        excluded = {fd: key for fd, key in self._key_of.items() if key not in self._allowed}
        for fd in excluded:
            self._disconnect(fd)
            del self._key_of[fd]
        return list(dict.fromkeys(excluded.values()))

    def _disconnect(self, fd: int) -> None:
        """End a connection; zmq notices it. A descriptor that was reused for something else is left alone."""
        with suppress(OSError), socket.socket(fileno=os.dup(fd)) as connection:
            if connection.getsockname()[1] == self._port:
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Reject further connections."""
        self._authenticator.stop()


class Connection:
    """The connection of this host to a run; reconnects whenever it is lost.

    Args:
        sockets: Makes the socket.
        address: Address of the run.
        key: Key of this host.

    Attributes:
        socket: A DEALER.

    Raises:
        LinkError: The address cannot be used.
    """

    def __init__(self, sockets: Sockets, address: str, key: JoinKey) -> None:
        self.socket = sockets.make(zmq.DEALER)
        _configure(self.socket, key.public, key.secret)
        self.socket.setsockopt(zmq.IMMEDIATE, 1)  # queue nothing while there is no connection
        self.socket.setsockopt(zmq.CURVE_SERVERKEY, key.run.encode())
        self._monitor = self.socket.get_monitor_socket()
        self._problem = ""
        try:
            self.socket.connect(address)
        except zmq.ZMQError as error:
            raise LinkError(f"cannot connect to {address}: {error}") from None

    @property
    def problem(self) -> str:
        """Return why there is no connection, empty if there is one or the reason is unknown.

        Read it at intervals: thousands of unread monitor events block the zmq context with all its sockets.

        Raises:
            LinkError: The run rejects the key.
        """
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._problem = ""
            elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                raise LinkError("the run rejects this key; make one with `ludus keys` on the host of the run")
            elif event in {zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL}:
                self._problem = _WRONG_KEY
            elif self._problem != _WRONG_KEY:  # which is followed by other events in every attempt
                self._problem = _PROBLEMS.get(event, self._problem)
        return self._problem

    def send(self, frames: Sequence[Frame]) -> bool:
        """Send without blocking; returns False if there is no connection or its queue is full."""
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return False
        return True


def _configure(socket: zmq.Socket[bytes], public: str, secret: str) -> None:
    socket.setsockopt(zmq.CURVE_PUBLICKEY, public.encode())
    socket.setsockopt(zmq.CURVE_SECRETKEY, secret.encode())
    socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_INTERVAL_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TTL, _HEARTBEAT_TIMEOUT_MS)
    socket.setsockopt(zmq.IPV6, 1)
