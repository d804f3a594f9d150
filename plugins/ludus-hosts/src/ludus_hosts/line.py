"""The sockets between hosts: TCP, encrypted, and only for those who prove to have the secret of an allowed key."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import zmq
from ludus.errors import ConfigError, LinkError
from ludus_local.codec import Frame
from ludus_local.transport import Sockets
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils.monitor import recv_monitor_message

from ludus_hosts.keys import JoinKey, RunKey

__all__ = ["Line", "Listener"]

_HEARTBEAT_MS = (2000, 60_000)  # how often; after how long, which is also what one frame may take, it counts as lost
_DOMAIN = "ludus"  # of those who ask for keys
_STRANGER = "who answers is no run with the key that this one belongs to"
_SEEN: dict[int, str] = {
    zmq.EVENT_CONNECT_DELAYED: "nobody answers",
    zmq.EVENT_CONNECTED: "who answers does not speak as a run does",
    zmq.EVENT_DISCONNECTED: "the connection was lost",
}
_log = logging.getLogger(__name__)


class Listener:
    """Where machines that join are awaited.

    Args:
        sockets: Make the socket.
        address: TCP.
        key: Key file of the run; read again for every connection, so that names may come and go.

    Attributes:
        socket: A ROUTER.

    Raises:
        ConfigError: The key file cannot be used.
        LinkError: The address is not one of this machine, or taken.
    """

    def __init__(self, sockets: Sockets, address: str, key: Path) -> None:
        own = RunKey.read(key)
        self._key = key
        # Without somebody who asks for keys CURVE lets everybody in; this one runs before the socket listens.
        self._authenticator = ThreadAuthenticator(sockets.context, log=_log)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(_DOMAIN, self)
        self.socket = sockets.make(zmq.ROUTER)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        _configure(self.socket, own.public, own.secret)
        self.socket.setsockopt(zmq.CURVE_SERVER, 1)
        self.socket.setsockopt(zmq.ZAP_DOMAIN, _DOMAIN.encode())
        self.socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # nor does it where that one has ended
        try:
            self.socket.bind(address)
        except zmq.ZMQError as error:
            self.close()
            raise LinkError(f"cannot listen at {address}: {error}; choose another address") from None

    def callback(self, domain: str, key: bytes) -> bool:  # noqa: ARG002 - the authenticator's signature
        """Return whether a public key is allowed."""
        try:
            return key.decode("ascii") in RunKey.read(self._key).allowed.values()
        except (ConfigError, UnicodeDecodeError) as error:
            _log.warning("nobody is let in: %s", error)
            return False

    def close(self) -> None:
        """Let nobody in any more."""
        self._authenticator.stop()


class Line:
    """The connection of a machine that joins; it is made again whenever it is lost.

    Args:
        sockets: Make the socket.
        address: Of the run.
        key: Of this machine.

    Attributes:
        socket: A DEALER.

    Raises:
        LinkError: The address cannot be used.
    """

    def __init__(self, sockets: Sockets, address: str, key: JoinKey) -> None:
        self.socket = sockets.make(zmq.DEALER)
        _configure(self.socket, key.public, key.secret)
        self.socket.setsockopt(zmq.IMMEDIATE, 1)  # nothing waits for a connection that there is not
        self.socket.setsockopt(zmq.CURVE_SERVERKEY, key.run.encode())
        self._monitor = self.socket.get_monitor_socket()
        self._trouble = ""
        try:
            self.socket.connect(address)
        except zmq.ZMQError as error:
            raise LinkError(f"cannot connect to {address}: {error}") from None

    @property
    def trouble(self) -> str:
        """Return why there is no connection at the moment, as far as that is known.

        To be asked for now and then: a context stands still, with all its sockets, when thousands of events wait there.

        Raises:
            LinkError: The run does not let this key in.
        """
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._trouble = ""
            elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                raise LinkError("the run does not let this key in; make one with `ludus keys` where the run is")
            elif event in {zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL}:
                self._trouble = _STRANGER
            elif self._trouble != _STRANGER:  # who is seen again and again, with all that follows
                self._trouble = _SEEN.get(event, self._trouble)
        return self._trouble

    def send(self, frames: Sequence[Frame]) -> bool:
        """Send without waiting; False where there is no connection, or so much waits that nothing more is taken."""
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return False
        return True


def _configure(socket: zmq.Socket[bytes], public: str, secret: str) -> None:
    socket.setsockopt(zmq.CURVE_PUBLICKEY, public.encode())
    socket.setsockopt(zmq.CURVE_SECRETKEY, secret.encode())
    socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS[0])
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_MS[1])
    socket.setsockopt(zmq.HEARTBEAT_TTL, _HEARTBEAT_MS[1])
    socket.setsockopt(zmq.IPV6, 1)
