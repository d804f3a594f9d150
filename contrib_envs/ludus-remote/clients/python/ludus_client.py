"""A client of the ludus game protocol, version 1, in one file of the standard library.

A game that plays one match at a time and waits for actions::

    client = Client("127.0.0.1", 7777, token=token, game="my-game", schema=SCHEMA)
    while True:
        match = client.next_match()             # match["seed"], match["scenario"], …
        try:
            actions = client.act(match, tick=0, seats=[{"seat": 0, "acts": True, "leaves": {"obs": data}}, …])
            …                                   # actions[seat] is a list of numbers
            client.send("match_end", match["match"], tick=9, ending="terminated", outcome=[1.0, 0.0])
        except MatchVoid:
            continue                            # start the next match

A game that never waits, or plays several matches, calls `send` and `poll` in its loop, and keeps a `SeatClock` for each
seat. `poll` resumes a lost connection; if that fails, it returns a ``match_void`` for every running match.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

NUM_PORTS = 32
NUMBERED = {"match_start", "observation", "action", "seat_end", "match_end", "match_void"}


class ClientError(Exception):
    """The gateway refused the game; `code` is one of the protocol's."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class MatchVoid(Exception):  # noqa: N818 - it is no error of the game
    """The match was aborted and counts nowhere; go on with the next one."""


# -- MessagePack, as far as the protocol uses it ----------------------------------------------------------------------

_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_INTS = [*zip(range(0xCC, 0xD0), [">B", ">H", ">I", ">Q"]), *zip(range(0xD0, 0xD4), [">b", ">h", ">i", ">q"])]  # noqa: B905
_NUMBERS = {0xCA: ">f", 0xCB: ">d", **dict(_INTS)}
#: For each kind: first code and number of codes that hold a small size, then codes and formats of larger sizes.
_SIZES: dict[str, tuple[int, int, dict[int, str]]] = {
    "text": (0xA0, 32, {0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}),
    "bytes": (0, 0, {0xC4: ">B", 0xC5: ">H", 0xC6: ">I"}),
    "list": (0x90, 16, {0xDC: ">H", 0xDD: ">I"}),
    "map": (0x80, 16, {0xDE: ">H", 0xDF: ">I"}),
}


def pack(value: Any) -> bytes:
    """Return the canonical bytes of a value."""
    if value is None or value is True or value is False:
        return bytes(code for code, constant in _CONSTANTS.items() if constant is value)
    if isinstance(value, int):
        return struct.pack(">b", value) if -32 <= value < 128 else _first_fit(_INTS[4 * (value < 0) :][:4], value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    return _pack_sized(value)


def _pack_sized(value: Any) -> bytes:
    if isinstance(value, str):
        return _head("text", len(value.encode())) + value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return _head("bytes", len(value)) + bytes(value)
    if isinstance(value, Mapping):
        return _head("map", len(value)) + b"".join(pack(key) + pack(item) for key, item in value.items())
    return _head("list", len(value)) + b"".join(map(pack, value))


def _head(kind: str, size: int) -> bytes:
    first, below, formats = _SIZES[kind]
    return bytes([first + size]) if size < below else _first_fit(formats.items(), size)


def _first_fit(formats: Iterable[tuple[int, str]], number: int) -> bytes:
    for code, form in formats:
        try:
            return bytes([code]) + struct.pack(form, number)
        except struct.error:
            continue
    raise ValueError(f"{number} is too large")


def unpack(data: bytes) -> Any:
    """Return the value of bytes, or raise a ValueError if they are no value of the protocol."""
    try:
        value, end = _unpack(data, 0, 16)
    except (struct.error, IndexError, UnicodeDecodeError, TypeError) as error:
        raise ValueError(f"no MessagePack: {error}") from error
    if end != len(data):
        raise ValueError(f"expected {end} bytes, got {len(data)}")
    return value


def _unpack(data: bytes, at: int, levels: int) -> tuple[Any, int]:
    code, at = data[at], at + 1
    if code < 0x80 or code >= 0xE0:
        return code - 256 * (code >= 0xE0), at
    if code in _CONSTANTS:
        return _CONSTANTS[code], at
    if code in _NUMBERS:
        return struct.unpack_from(_NUMBERS[code], data, at)[0], at + struct.calcsize(_NUMBERS[code])
    for kind, (first, below, formats) in _SIZES.items():
        if first <= code < first + below:
            return _unpack_sized(data, at, kind, code - first, levels)
        if code in formats:
            (size,) = struct.unpack_from(formats[code], data, at)
            return _unpack_sized(data, at + struct.calcsize(formats[code]), kind, size, levels)
    raise ValueError(f"type 0x{code:02x} is not used")


def _unpack_sized(data: bytes, at: int, kind: str, size: int, levels: int) -> tuple[Any, int]:
    if kind in ("text", "bytes"):
        part = data[at : at + size]
        if len(part) < size:
            raise ValueError("the value is cut off")
        return (part.decode() if kind == "text" else part), at + size
    items = []
    for _ in range((1 + (kind == "map")) * size):
        if not levels:
            raise ValueError("too many levels")
        item, at = _unpack(data, at, levels - 1)
        items.append(item)
    if kind == "map" and not all(isinstance(key, str) for key in items[::2]):
        raise ValueError("a key is no text")
    return (dict(zip(items[::2], items[1::2], strict=True)) if kind == "map" else items), at


# -- the client -------------------------------------------------------------------------------------------------------


class Client:
    """A connection of a game to a gateway.

    Args:
        host: Address of the gateway.
        port: First port.
        ports: Ports to try from `port` on; 1 for a game that ludus started.
        tls: TLS context; None: no TLS.
        connect_s: Seconds in which a gateway must be found; it may start later than the game.
        hello: Token, game, schema, matches and build, as in the message ``hello``.

    Raises:
        ClientError: The gateway refused the game.
        ConnectionError: There was no gateway in time.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        ports: int = NUM_PORTS,
        tls: ssl.SSLContext | None = None,
        connect_s: float = 60.0,
        **hello: Any,
    ) -> None:
        self._host, self._port, self._ports, self._tls, self._connect_s = host, port, ports, tls, connect_s
        self._hello = {"type": "hello", "protocol": [1, 1], "client": "ludus_client.py/1", **hello}
        self.welcome: dict[str, Any] = {}  # mode, seats, limits, timing
        self._queue: deque[dict[str, Any]] = deque()  # of `next_match` and `act`
        self._new_session()
        self._find()

    def _new_session(self) -> None:
        self._socket: socket.socket | None = None
        self._buffer = bytearray()
        self._sent = self._received = 0
        self._outbox: deque[tuple[int, bytes]] = deque()
        self._running: set[int] = set()

    def _find(self) -> None:
        """Connect to the first port whose gateway wants this game."""
        until = time.monotonic() + self._connect_s
        while True:
            for port in range(self._port, self._port + self._ports):
                try:
                    return self._dial(port, "")
                except ClientError as error:
                    if error.code != "full":
                        raise
                except (OSError, ValueError):
                    continue
            if time.monotonic() > until:
                raise ConnectionError(f"no gateway at {self._host}:{self._port} wanted the game")
            time.sleep(1.0)

    def _dial(self, port: int, resume: str) -> None:
        """Connect, and send again what was not acknowledged."""
        connection = socket.create_connection((self._host, port), timeout=5.0)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_hostname=self._host)
            self._socket, self._buffer = connection, bytearray()
            self._write(pack(self._hello | {"resume": resume, "ack": self._received}))
            welcome = self._read_message(5.0)
            if welcome is None or welcome.get("type") != "welcome":
                raise ConnectionError("the gateway did not answer the hello")
        except BaseException:
            self._socket = None
            connection.close()
            raise
        self.welcome, self._port_used = welcome, port
        self._acknowledge(welcome)
        for _, payload in self._outbox:
            self._write(payload)

    def _reconnect(self) -> list[dict[str, Any]]:
        """Resume the session, or start a new one; return what the game must know."""
        until = time.monotonic() + float(self.welcome["limits"]["resume_s"])
        while time.monotonic() < until:
            try:
                self._dial(self._port_used, self.welcome["resume"])
            except ClientError:
                break  # the gateway does not know the session
            except (OSError, ValueError):
                time.sleep(0.25)
            else:
                return []
        lost = [{"type": "match_void", "match": match, "reason": "the connection was lost"} for match in self._running]
        self._new_session()
        self._find()
        return lost

    def send(self, kind: str, match: int = 0, **fields: Any) -> None:
        """Send a message of a match; one that a lost connection swallows is sent again."""
        if kind in ("match_end", "match_void"):
            self._running.discard(match)
        self._sent += 1
        payload = pack({"type": kind, "match": match, "seq": self._sent, "ack": self._received, **fields})
        self._outbox.append((self._sent, payload))
        try:
            self._write(payload)
        except OSError:
            self._drop()  # `poll` connects again

    def poll(self, timeout_s: float | None = 0.0) -> list[dict[str, Any]]:
        """Return the messages of matches that have arrived.

        Args:
            timeout_s: Longest time to wait for one; 0: do not wait; None: for ever.

        Raises:
            ClientError: The gateway refused a message, or took leave; its code is ``"bye"`` then.
        """
        found: list[dict[str, Any]] = []
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            try:
                left_s = None if until is None else max(0.0, until - time.monotonic())
                message = self._read_message(0.0 if found else left_s)
            except (OSError, ValueError):
                self._drop()
                found += self._reconnect()
                continue
            if message is None:
                return found
            if self._is_new(message):
                found.append(message)

    def _is_new(self, message: dict[str, Any]) -> bool:
        """Process what belongs to the connection; return whether a match got a message."""
        kind = message["type"]
        self._acknowledge(message)
        if kind == "ping":
            pong = {"type": "pong", "ack": self._received, "time": message["time"], "clock": time.monotonic()}
            self._write(pack(pong))
        if kind == "bye":
            raise ClientError("bye", str(message.get("reason", "")))
        if kind not in NUMBERED or message["seq"] <= self._received:
            return False
        if message["seq"] > self._received + 1:
            raise ClientError("sequence", f"expected {self._received + 1}, got {message['seq']}")
        self._received = message["seq"]
        if kind != "action":
            (self._running.add if kind == "match_start" else self._running.discard)(message["match"])
        return True

    def _acknowledge(self, message: Mapping[str, Any]) -> None:
        while self._outbox and self._outbox[0][0] <= message.get("ack", 0):
            self._outbox.popleft()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _write(self, payload: bytes) -> None:
        if self._socket is None:
            raise ConnectionError("there is no connection")
        self._socket.settimeout(10.0)
        self._socket.sendall(struct.pack(">I", len(payload)) + payload)

    def _read_message(self, timeout_s: float | None) -> dict[str, Any] | None:
        """Return the next message; None if none came in time."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while len(self._buffer) < 4 or len(self._buffer) < 4 + struct.unpack_from(">I", self._buffer)[0]:
            if self._socket is None:
                raise ConnectionError("there is no connection")
            self._socket.settimeout(None if until is None else max(1e-6, until - time.monotonic()))
            try:
                data = self._socket.recv(1 << 16)
            except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
                return None
            if not data:
                raise ConnectionError("the gateway closed the connection")
            self._buffer += data
        end = 4 + struct.unpack_from(">I", self._buffer)[0]
        message: dict[str, Any] = unpack(bytes(self._buffer[4:end]))
        del self._buffer[:end]
        if message["type"] == "error":
            raise ClientError(message["code"], message["text"])
        return message

    # -- one match at a time, in lock-step mode ---------------------------------------------------------------------

    def next_match(self) -> dict[str, Any]:
        """Wait for the next match and return its start."""
        while (message := self._next())["type"] != "match_start":
            pass
        return message

    def act(self, match: Mapping[str, Any], *, tick: int, seats: Sequence[Any], **more: Any) -> dict[int, list[Any]]:
        """Send an observation and wait for the actions of the seats that act; `more` may have a `frame`.

        Raises:
            MatchVoid: The match was aborted.
        """
        self.send("observation", match["match"], tick=tick, seats=seats, **more)
        message = self._next()
        if message["type"] == "match_void":
            raise MatchVoid(message.get("reason", ""))
        return {entry["seat"]: entry["action"] for entry in message["actions"]}

    def _next(self) -> dict[str, Any]:
        if not self._queue:
            self._queue.extend(self.poll(None))
        return self._queue.popleft()

    def close(self) -> None:
        """Take leave."""
        if self._socket is not None:
            with suppress(OSError):
                self._write(pack({"type": "bye", "reason": "the game ended"}))
            self._drop()


class SeatClock:
    """When a seat with an entry of ``welcome["timing"]`` decides, and which action is in effect, in real-time mode."""

    def __init__(self, timing: Mapping[str, Any], no_op: Sequence[Any]) -> None:
        self._timing, self._no_op = timing, list(no_op)
        self._action = list(no_op)
        self._asked: list[int] = []  # ticks of observations whose action may still take effect
        self._ready: dict[int, dict[str, Any]] = {}
        self.dropped: list[int] = []

    def is_due(self, tick: int) -> bool:
        """Return whether the seat decides on a tick."""
        return bool(tick % self._timing["period"] == 0)

    def ask(self, tick: int) -> list[int]:
        """Note that an observation was sent; return its key ``dropped``."""
        self._asked.append(tick)
        dropped, self.dropped = self.dropped, []
        return dropped

    def receive(self, tick: int, entry: dict[str, Any]) -> None:
        """Keep the entry of an ``action`` message for the observation of `tick`."""
        if tick in self._asked:
            self._ready[tick] = entry

    def action(self, tick: int) -> list[Any]:
        """Return the action in effect on a tick. Call it once for every tick, in order."""
        due = [asked for asked in self._asked if asked + self._timing["delay"] <= tick]
        newest = max(self._ready.keys() & due, default=-1)
        if newest >= 0:
            self._action = self._ready[newest]["action"]
        self._forget(newest, tick)
        if self._timing["missing"] == "no-op" and any(asked in self._asked for asked in due):
            self._action = self._no_op
        return self._action

    def _forget(self, newest: int, tick: int) -> None:
        """Drop actions that are too old, or older than the one that took effect."""
        waiting = [asked for asked in self._asked if asked > newest and tick <= asked + self._timing["max_age"]]
        self.dropped += [asked for asked in self._asked if asked != newest and asked not in waiting]
        self._asked, self._ready = waiting, {asked: self._ready[asked] for asked in waiting if asked in self._ready}
