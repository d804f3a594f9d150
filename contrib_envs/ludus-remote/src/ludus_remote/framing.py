"""Frames of the two transports: payloads out of received bytes, and bytes for payloads."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Protocol

from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from ludus_remote.payload import ProtocolError

#: First byte of an HTTP request, which no length of a TCP frame has.
WEBSOCKET_BYTE = b"G"
_LENGTH = struct.Struct(">I")


class Framing(Protocol):
    """The state of the frames of one connection.

    Attributes:
        most_bytes: Largest payload.
    """

    most_bytes: int

    @property
    def is_partial(self) -> bool:
        """Return whether the beginning of a frame was received, but not its end."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the payloads that received bytes complete.

        Raises:
            ProtocolError: The bytes are no frames, or a payload is too large.
        """

    def frame(self, payload: bytes) -> bytes:
        """Return the bytes to send for a payload."""

    def pending(self) -> bytes:
        """Return bytes that the transport itself has to send, such as the answer to a handshake."""

    def farewell(self) -> bytes:
        """Return the bytes to send before the connection is closed."""


class LengthFraming:
    """Payloads behind their length in 4 bytes, big-endian.

    Args:
        most_bytes: Largest payload.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._buffer = bytearray()

    @property
    def is_partial(self) -> bool:
        """Return whether a frame is incomplete."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the payloads that received bytes complete."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(buffer)
            if size > self.most_bytes:
                raise ProtocolError("frame", f"a frame of {size} bytes; expected at most {self.most_bytes}")
            end = _LENGTH.size + size
            if len(buffer) < end:
                return
            payload = bytes(buffer[_LENGTH.size : end])
            del buffer[:end]
            yield payload

    def frame(self, payload: bytes) -> bytes:
        """Return the bytes to send for a payload."""
        return _LENGTH.pack(len(payload)) + payload

    def pending(self) -> bytes:
        """Return nothing."""
        return b""

    def farewell(self) -> bytes:
        """Return nothing."""
        return b""


class WebSocketFraming:
    """Binary messages of a WebSocket.

    Args:
        most_bytes: Largest payload.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._socket = ServerProtocol(max_size=most_bytes)
        self._parts: list[bytes] = []
        self._size = 0
        self._is_open = False

    @property
    def is_partial(self) -> bool:
        """Return whether the handshake or a message is incomplete."""
        return not self._is_open or bool(self._parts) or bool(self._socket.reader.buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the payloads that received bytes complete."""
        self._socket.max_message_size = self.most_bytes
        self._socket.receive_data(data)
        for event in self._socket.events_received():
            if isinstance(event, Request):
                self._socket.send_response(self._socket.accept(event))
                self._is_open = True
            elif isinstance(event, Frame):
                yield from self._add(event)
        if self._socket.parser_exc is not None or self._socket.handshake_exc is not None:
            error = self._socket.parser_exc or self._socket.handshake_exc
            raise ProtocolError("frame", f"no WebSocket: {type(error).__name__}")

    def _add(self, frame: Frame) -> Iterator[bytes]:
        if frame.opcode == Opcode.TEXT:
            raise ProtocolError("frame", "a text frame; expected a binary frame")
        if frame.opcode not in (Opcode.BINARY, Opcode.CONT):
            return
        self._parts.append(bytes(frame.data))
        self._size += len(frame.data)
        if self._size > self.most_bytes:
            raise ProtocolError("frame", f"a frame of {self._size} bytes; expected at most {self.most_bytes}")
        if frame.fin:
            payload, self._parts, self._size = b"".join(self._parts), [], 0
            yield payload

    def frame(self, payload: bytes) -> bytes:
        """Return the bytes to send for a payload."""
        try:
            self._socket.send_binary(payload)
        except WebSocketException:  # the peer has closed it
            return b""
        return self.pending()

    def pending(self) -> bytes:
        """Return answers to a handshake, pings and the like."""
        return b"".join(self._socket.data_to_send())

    def farewell(self) -> bytes:
        """Return a close frame."""
        if self._is_open and self._socket.state.name == "OPEN":
            self._socket.send_close(1000)
        return self.pending()
