"""The game gateway: the part of a sampler that games connect to. It runs in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from attrs import define, field, frozen
from ludus.errors import ConfigError

from ludus_remote.connection import Connection, Game
from ludus_remote.matches import MatchUpdate, RemoteMatch
from ludus_remote.payload import Message, ProtocolError, encode, one_line, read, read_items, read_whole
from ludus_remote.schema import MOST_SEATS, GameSchema
from ludus_remote.session import PROTOCOL, GameSession, Limits, Timing

NUM_PORTS = 32
PING_S = 2.0
MOST_STRANGERS = 16  # connections before their hello
MOST_MATCHES = 1024
_SWEEP_S = 0.25
_BYE_S = 0.2  # in which connections close by themselves
_CLOSE_S = 2.0
_LOG_S = 1.0  # between two lines about refused connections

_log = logging.getLogger(__name__)


@frozen(kw_only=True)
class GatewayOptions:
    """How a gateway listens, and which games it accepts.

    Args:
        host: Address.
        port: First port; 0: any.
        tokens: Tokens of games.
        limits: Limits of connections.
        make_timing: Returns the times of all seats in real-time mode; empty in lock-step mode.
        tls: TLS context; None on loopback.
        make_key: Returns the key of a new session.
        check_game: Called with the schema of a game that joins and the policies that it requests for its seats; refuses
            it by a `ProtocolError`.
        on_end: Called with every match that has ended, before its end is acknowledged.
    """

    host: str
    port: int
    tokens: Collection[str]
    limits: Limits = field(factory=Limits)
    make_timing: Callable[[GameSchema], tuple[Timing, ...]] = lambda _: ()
    tls: ssl.SSLContext | None = None
    make_key: Callable[[], str] = secrets.token_urlsafe
    check_game: Callable[[GameSchema, Sequence[str]], None] = lambda _schema, _policies: None
    on_end: Callable[[RemoteMatch, MatchUpdate], None] = lambda _match, _update: None


@define(eq=False)
class Gateway:
    """Listens for games and keeps their sessions.

    All attributes may be used by other threads that hold `changed`, which is notified when a game joins or leaves, and
    when at least `wanted` updates of matches wait.

    Args:
        options: Options.
        num_matches: Matches that the environment needs.
        schema: Schema that games must have; None: that of the first game.

    Attributes:
        changed: Lock and condition of all state.
        games: The games, by token.
        updates: Updates that the environment has not taken.
        wanted: Number of updates for which the environment waits.
        port: Port of the gateway.
        errors: Number of connections that an error ended, by its code.

    Raises:
        ConfigError: The gateway cannot listen.
    """

    options: GatewayOptions
    num_matches: int
    schema: GameSchema | None = None
    changed: threading.Condition = field(init=False, factory=threading.Condition)
    games: dict[str, Game] = field(init=False, factory=dict)
    updates: list[tuple[RemoteMatch, MatchUpdate]] = field(init=False, factory=list)
    wanted: int = field(init=False, default=1)
    port: int = field(init=False, default=0)
    errors: Counter[str] = field(init=False, factory=Counter)
    refusal: str = field(init=False, default="")  # the last one of a game with a token, for errors
    _loop: asyncio.AbstractEventLoop = field(init=False, factory=asyncio.new_event_loop)
    _server: asyncio.Server = field(init=False)
    _connections: set[Connection] = field(init=False, factory=set)
    _thread: threading.Thread | None = field(init=False, default=None)
    _is_stopping: bool = field(init=False, default=False)
    _pinged_s: float = field(init=False, default=0.0)
    _logged_s: float = field(init=False, default=0.0)

    def __attrs_post_init__(self) -> None:
        try:
            self._server = self._loop.run_until_complete(self._listen())
        except BaseException:
            self._loop.close()
            raise
        self.port = self._server.sockets[0].getsockname()[1]
        self._loop.call_soon(self._sweep)
        self._thread = threading.Thread(target=self._loop.run_forever, name="game-gateway", daemon=True)
        self._thread.start()

    async def _listen(self) -> asyncio.Server:
        options, error = self.options, OSError()
        for port in range(options.port, options.port + NUM_PORTS) if options.port else [0]:
            try:
                return await self._loop.create_server(
                    lambda: Connection(self), options.host, port, ssl=options.tls, reuse_address=True
                )
            except OSError as found:
                error = found
        ports = f"{options.port} to {options.port + NUM_PORTS - 1}" if options.port else "any port"
        raise ConfigError(f"host, port: cannot listen on {options.host}, {ports}: {error.strerror or error}")

    # -- for the environment ----------------------------------------------------------------------------------------

    @property
    def limits(self) -> Limits:
        """Return the limits of all connections."""
        return self.options.limits

    @property
    def capacity(self) -> int:
        """Return the number of matches that the games play at the same time."""
        return sum(game.session.capacity for game in self.games.values())

    def free_game(self) -> Game | None:
        """Return a connected game that can start a match: the one with most free places."""
        free = [game for game in self.games.values() if game.connection and _free_places(game)]
        return max(free, key=_free_places, default=None)

    def send(self, messages: Sequence[tuple[Game, bytes]]) -> None:
        """Send messages of sessions soon; a lost connection gets them when it is resumed."""
        self._loop.call_soon_threadsafe(_send, messages)

    def drop_game(self, token: str, text: str, *, sends_bye: bool = False) -> None:
        """Disconnect a game, because its process has ended or with a bye; its matches are void."""
        with self.changed:
            if (game := self.games.get(token)) is not None:
                self._loop.call_soon_threadsafe(self._end_game, game, text, sends_bye)

    def close(self) -> None:
        """Send every game a bye and stop; closing twice is harmless."""
        if self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(_CLOSE_S)
        if not self._thread.is_alive():
            self._loop.close()
        self._thread = None

    def _stop(self) -> None:
        """Take leave; stop once all connections are closed, or after a while."""
        self._is_stopping = True
        for connection in list(self._connections):
            connection.send(encode({"type": "bye", "reason": "the gateway closes"}))
            connection.close()
        self._stop_when_closed(time.monotonic() + _BYE_S)

    def _stop_when_closed(self, until: float) -> None:
        # Each task accepts a connection. One that goes on after the server was closed fails and leaves its socket open.
        if not self._connections and not asyncio.all_tasks(self._loop):
            self._server.close()
            self._loop.call_soon(self._loop.stop)
            return
        if time.monotonic() > until:
            for connection in self._connections:
                connection.abandon()
            for task in asyncio.all_tasks(self._loop):  # a handshake of TLS that goes on
                task.cancel()
        self._loop.call_later(_BYE_S / 20, self._stop_when_closed, until)

    # -- for connections, in the thread of the gateway --------------------------------------------------------------

    def add_connection(self, connection: Connection) -> bool:
        """Add a connection; return False if too many wait for their hello, or the gateway stops."""
        if self._is_stopping or sum(one.game is None for one in self._connections) >= MOST_STRANGERS:
            return False
        self._connections.add(connection)
        return True

    def remove_connection(self, connection: Connection) -> None:
        """Remove a connection; its session can be resumed for a while."""
        self._connections.discard(connection)
        game = connection.game
        if game is not None and game.connection is connection:
            game.connection, game.lost_s = None, time.monotonic()

    def greet(self, connection: Connection, hello: Message) -> list[bytes]:
        """Return the answers to a hello.

        Raises:
            ProtocolError: The game is refused.
        """
        token = check_hello(hello, self.options.tokens)
        game = self.games.get(token)
        if key := read(hello, "resume", "text", "", most=256):
            return self._resume(connection, game, key, hello)
        if game is not None:
            if game.connection is not None:
                raise ProtocolError("token_in_use", "a game with this token is connected")
            self._end_game(game, "the game started a new session")
        return self._join(connection, token, hello)

    def _resume(self, connection: Connection, game: Game | None, key: str, hello: Message) -> list[bytes]:
        if game is None or not secrets.compare_digest(game.session.key.encode(), key.encode()):
            raise ProtocolError("resume", "there is no session to resume")
        missed = game.session.resume(read_whole(hello, "ack", 0, 1 << 53, 0))
        if game.connection is not None:
            game.connection.abandon()
        game.connection, connection.game = connection, game
        return [game.session.welcome(), *missed]

    def _join(self, connection: Connection, token: str, hello: Message) -> list[bytes]:
        capacity = read_whole(hello, "matches", 1, MOST_MATCHES, 1)
        data = read(hello, "schema", "map")
        name = one_line(read(hello, "game", "text", most=64), 64)
        build = one_line(read(hello, "build", "text", "", most=128), 128)
        policies = read_items(hello, "policies", "text", (), most=MOST_SEATS)
        schema = self.schema or GameSchema(data)
        if difference := schema.difference(data):
            raise ProtocolError("schema", f"the schema differs from that of the run: {difference}")
        needed = self.num_matches - self.capacity
        if needed < 1:
            raise ProtocolError("full", "the gateway needs no more games")
        self.options.check_game(schema, policies)
        self.schema = schema
        session = GameSession(
            key=self.options.make_key(),
            schema=schema,
            capacity=min(capacity, needed),
            report=self._report,
            limits=self.options.limits,
            timing=self.options.make_timing(schema),
            game=f"{name} {build}".strip(),
            policies=policies,
        )
        connection.game = self.games[token] = Game(session, token, connection)
        _log.info("game %s at %s plays %d matches", session.game, connection.peer, session.capacity)
        self.changed.notify_all()
        return [session.welcome()]

    def _report(self, match: RemoteMatch, update: MatchUpdate) -> None:
        if update.kind == "end":
            self.options.on_end(match, update)
        self.updates.append((match, update))
        if len(self.updates) >= self.wanted:
            self.changed.notify_all()

    def fail(self, connection: Connection, error: ProtocolError) -> None:
        """Log an error, and end the session of the game that caused it."""
        game = connection.game
        self.errors[error.code] += 1
        text = f"{game.session.game if game else 'a connection'} at {connection.peer}: {error.code}: {error.text}"
        if game is not None:
            self._end_game(game, error.text)
        if error.code != "token":
            self.refusal = f"{error.code}: {error.text}"
        now = time.monotonic()
        if error.code != "full" and (game is not None or now - self._logged_s > _LOG_S):
            self._logged_s = now
            _log.warning("%s", text)

    def _end_game(self, game: Game, text: str, sends_bye: bool = False) -> None:
        """Forget a game; its matches are void."""
        with self.changed:
            if self.games.get(game.token) is game:
                del self.games[game.token]
            if game.connection is not None:
                if sends_bye:
                    game.connection.send(encode({"type": "bye", "ack": game.session.received, "reason": text}))
                game.connection.game = None
                game.connection.close()
                game.connection = None
            game.session.close(text)
            self.changed.notify_all()

    def end_session(self, connection: Connection, text: str) -> None:
        """End the session of a game that took leave."""
        if connection.game is not None:
            self._end_game(connection.game, text)

    def _sweep(self) -> None:
        """Check all times, and send pings."""
        now, is_ping_due = time.monotonic(), False
        if now - self._pinged_s >= PING_S:
            self._pinged_s, is_ping_due = now, True
        with self.changed:
            for connection in list(self._connections):
                with suppress(ConnectionError):
                    connection.check_times(now)
                if is_ping_due and connection.game is not None:
                    ping = {"type": "ping", "ack": connection.game.session.received, "time": now}
                    connection.send(encode(ping))
            for game in list(self.games.values()):
                if game.connection is None and now - game.lost_s > self.options.limits.resume_s:
                    self._end_game(game, "the connection was lost")
        self._loop.call_later(_SWEEP_S, self._sweep)


def _send(messages: Sequence[tuple[Game, bytes]]) -> None:
    for game, payload in messages:
        if game.connection is not None:
            game.connection.send(payload)


def check_hello(hello: Message, tokens: Collection[str]) -> str:
    """Return the token of a hello.

    Raises:
        ProtocolError: Protocol or token are wrong.
    """
    versions = read_items(hello, "protocol", "int")
    if len(versions) != 2 or not versions[0] <= PROTOCOL <= versions[1]:
        raise ProtocolError("protocol", f"expected protocol {PROTOCOL}, got {versions[:2]}")
    token: str = read(hello, "token", "text", most=256)
    if sum(secrets.compare_digest(token.encode(), known.encode()) for known in tokens) == 0:
        raise ProtocolError("token", "the token is wrong")
    return token


def _free_places(game: Game) -> int:
    return game.session.capacity - len(game.session.matches)
