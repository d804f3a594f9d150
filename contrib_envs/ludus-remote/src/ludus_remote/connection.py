"""One connection of a game: frames, limits of time and amount, and errors."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Protocol, cast

from attrs import define

from ludus_remote.framing import WEBSOCKET_BYTE, Framing, LengthFraming, WebSocketFraming
from ludus_remote.payload import HELLO_BYTES, Message, ProtocolError, decode, encode, one_line, read
from ludus_remote.session import NUMBERED, GameSession, Limits

HELLO_S = 5.0
_CLOSE_S = 2.0
_KINDS = NUMBERED | {"hello", "welcome", "ping", "pong", "error", "bye"}

_log = logging.getLogger(__name__)


class ConnectionHost(Protocol):
    """What a connection needs of its gateway; all but `changed` is used while that is held."""

    changed: threading.Condition

    @property
    def limits(self) -> Limits:
        """Return the limits of all connections."""

    def add_connection(self, connection: Connection) -> bool:
        """Add a connection; return False if too many wait for their hello, or the gateway stops."""

    def remove_connection(self, connection: Connection) -> None:
        """Remove a connection; its session can be resumed for a while."""

    def greet(self, connection: Connection, hello: Message) -> list[bytes]:
        """Return the answers to a hello, or raise `ProtocolError`."""

    def fail(self, connection: Connection, error: ProtocolError) -> None:
        """Log an error, and end the session of the game that caused it."""

    def end_session(self, connection: Connection, text: str) -> None:
        """End the session of a game that took leave."""


@define(eq=False)
class Game:
    """A game that is connected, or may connect again.

    Args:
        session: Its session.
        token: Its token.
        connection: Its connection; None while it is lost.
        lost_s: When the connection was lost.
    """

    session: GameSession
    token: str
    connection: Connection | None
    lost_s: float = 0.0


class Connection(asyncio.Protocol):
    """A connection, in the thread of its gateway.

    Args:
        gateway: The gateway.

    Attributes:
        game: The game; None before its hello and after its end.
        peer: Address of the game.
    """

    def __init__(self, gateway: ConnectionHost) -> None:
        self.game: Game | None = None
        self.peer = ""
        self._gateway = gateway
        self._framing: Framing | None = None
        self._transport: asyncio.Transport | None = None
        self._opened_s = self._received_s = self._partial_s = self._window_s = 0.0
        self._num_messages = 0

    # -- asyncio ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock for the hello."""
        self._transport = cast("asyncio.Transport", transport)
        self.peer = ":".join(map(str, (transport.get_extra_info("peername") or ("?",))[:2]))
        self._opened_s = self._received_s = self._window_s = time.monotonic()
        with self._gateway.changed:
            is_added = self._gateway.add_connection(self)
        if not is_added:
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        """Keep the session for a while."""
        with self._gateway.changed:
            self._gateway.remove_connection(self)

    def data_received(self, data: bytes) -> None:
        """Process all complete messages."""
        with self._gateway.changed:
            if self._transport is None or self._transport.is_closing():
                return
            try:
                self._receive(data)
            except ProtocolError as error:
                self.refuse(error)
            except Exception:  # noqa: BLE001 - a defect must not end the thread, on which all games depend
                _log.exception("game at %s", self.peer)
                self.refuse(ProtocolError("internal", "the gateway failed; its log has the reason"))

    # -- receiving --------------------------------------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        self._received_s = time.monotonic()
        if self._framing is None:
            is_socket = data[:1] == WEBSOCKET_BYTE
            self._framing = WebSocketFraming(HELLO_BYTES) if is_socket else LengthFraming(HELLO_BYTES)
        framing = self._framing
        for payload in framing.feed(data):
            self._count()
            self._handle(payload)
            if self._transport is None or self._transport.is_closing():
                return
        self._write(framing.pending())
        if not framing.is_partial:
            self._partial_s = 0.0
        elif not self._partial_s:
            self._partial_s = self._received_s

    def _count(self) -> None:
        """Count a message.

        Raises:
            ProtocolError: There are too many in a second.
        """
        if self._received_s - self._window_s >= 1.0:
            self._window_s, self._num_messages = self._received_s, 0
        self._num_messages += 1
        self._partial_s = 0.0
        most = self._gateway.limits.messages_per_s
        if self._num_messages > most:
            raise ProtocolError("flood", f"more than {most} messages in a second")

    def _handle(self, payload: bytes) -> None:
        message = decode(payload)
        kind = read(message, "type", "text")
        if kind not in _KINDS:
            raise ProtocolError("message", f"unknown type {one_line(kind, 32)!r}")
        if self.game is None:
            if kind != "hello":
                raise ProtocolError("order", "expected hello")
            assert self._framing is not None
            answers = self._gateway.greet(self, message)
            self._framing.most_bytes = self._gateway.limits.frame_bytes
        elif kind in ("bye", "error"):
            text = one_line(read(message, "reason" if kind == "bye" else "text", "text", "", most=512), 512)
            self._gateway.end_session(self, f"the game sent {kind}: {text}")
            return
        else:
            answer = self.game.session.receive(message)
            answers = [] if answer is None else [answer]
        for payload_ in answers:
            self.send(payload_)

    # -- sending ----------------------------------------------------------------------------------------------------

    def send(self, payload: bytes) -> None:
        """Send a payload; a peer that does not read is dropped."""
        if self._framing is not None:
            self._write(self._framing.frame(payload))

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def refuse(self, error: ProtocolError) -> None:
        """Send an error and close the connection; the session of its game ends."""
        game = self.game
        self.send(encode({"type": "error", "code": error.code, "text": error.text[:512]}))
        self._gateway.fail(self, error)
        self.game = None
        if game is None:
            self.close()

    def close(self) -> None:
        """Close the connection after the bytes that wait."""
        if self._transport is not None:
            if self._framing is not None:
                self._write(self._framing.farewell())
            self._transport.close()
            asyncio.get_running_loop().call_later(_CLOSE_S, self._transport.abort)  # a peer that does not read

    def abandon(self) -> None:
        """Close a connection whose session another one goes on with."""
        self.game = None
        if self._transport is not None:
            self._transport.abort()

    def check_times(self, now: float) -> None:
        """Refuse a peer that is too slow."""
        if self._transport is None or self._transport.is_closing():
            return
        if text := self._find_delay(now):
            self.refuse(ProtocolError("slow", text))
        elif self._is_congested(self._transport.get_write_buffer_size()):
            self.refuse(ProtocolError("slow", "the game does not read what the gateway sends"))

    def _find_delay(self, now: float) -> str:
        limits = self._gateway.limits
        if self._partial_s and now - self._partial_s > limits.message_s:
            return f"a message was not complete within {limits.message_s:g} s"
        if self.game is None:
            return f"no hello within {HELLO_S:g} s" if now - self._opened_s > HELLO_S else ""
        is_silent = now - self._received_s > limits.silence_s
        return f"nothing was received for {limits.silence_s:g} s" if is_silent else ""

    def _is_congested(self, waiting_bytes: int) -> bool:
        has_many = self.game is not None and self.game.session.is_congested
        return has_many or waiting_bytes > 2 * self._gateway.limits.frame_bytes
