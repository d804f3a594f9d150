"""The state of a game session, without sockets: sequence numbers, matches, and what a reconnect sends again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from attrs import asdict, define, field, frozen
from ludus.scenario import Scenario

from ludus_remote.matches import MatchUpdate, RemoteMatch, list_action
from ludus_remote.payload import LARGEST_INT, Message, ProtocolError, encode, one_line, read, read_whole
from ludus_remote.schema import GameSchema

PROTOCOL = 1
NUMBERED = frozenset({"match_start", "observation", "action", "seat_end", "match_end", "match_void"})
#: Called with a match and what its game has reported.
Report: TypeAlias = "Callable[[RemoteMatch, MatchUpdate], None]"


@frozen(kw_only=True)
class Limits:
    """Limits of a connection, see docs/game-protocol.md."""

    frame_bytes: int = 16 << 20
    unacknowledged: int = 4096
    messages_per_s: int = 20_000
    silence_s: float = 60.0
    message_s: float = 10.0
    resume_s: float = 10.0


@frozen(kw_only=True)
class Timing:
    """Times of a seat in real-time mode, in ticks."""

    period: int
    delay: int
    max_age: int
    missing: str


@define(eq=False, kw_only=True)
class GameSession:
    """The matches of one game, over one connection or several that follow each other.

    Args:
        key: Identifies the session.
        schema: Schema of the game.
        capacity: Matches that the game plays at the same time.
        report: Called with every update of a match.
        limits: Limits.
        timing: Times of all seats in real-time mode; empty in lock-step mode.
        game: Name and build, for logs.
        policies: Policy that the game requests for each seat; an empty name, or none at all: any.

    Attributes:
        matches: The running matches by number.
        received: Highest sequence number of the game.
        outbox: Number and payload of messages that the game has not acknowledged.
    """

    key: str
    schema: GameSchema
    capacity: int
    report: Report
    limits: Limits
    timing: tuple[Timing, ...] = ()
    game: str = ""
    policies: Sequence[str] = ()
    matches: dict[int, RemoteMatch] = field(init=False, factory=dict)
    received: int = field(init=False, default=0)
    outbox: deque[tuple[int, bytes]] = field(init=False, factory=deque)
    _sent: int = field(init=False, default=0)
    _started: int = field(init=False, default=0)
    _aborted: dict[int, int] = field(init=False, factory=dict)  # sequence number of the message, by match

    # -- from the environment ---------------------------------------------------------------------------------------

    def welcome(self) -> bytes:
        """Return the answer to a hello."""
        message = {
            "type": "welcome",
            "ack": self.received,
            "protocol": PROTOCOL,
            "resume": self.key,
            "mode": "real-time" if self.timing else "lock-step",
            "matches": self.capacity,
            "seats": [asdict(seat) for seat in self.schema.seat_list()],
            "limits": asdict(self.limits),
            "timing": [asdict(timing) for timing in self.timing],
        }
        return encode(message)

    def start_match(
        self, index: int, seed: int, scenario: Scenario, *, policies: Sequence[str] = (), frames: bool = False
    ) -> tuple[RemoteMatch, bytes]:
        """Return a new match and its message.

        Args:
            index: Match index of the environment.
            seed: Seed, below 2^53.
            scenario: Scenario, and the built-in bots of all seats.
            policies: Name of what plays each seat; empty: not known.
            frames: Whether the game shall send pictures of the match.
        """
        self._started += 1
        builtin = list(scenario.builtin)
        match = RemoteMatch(
            self._started,
            index,
            self.schema,
            frozenset(seat for seat, name in enumerate(builtin) if name),
            not self.timing,
            frames,
        )
        self.matches[match.number] = match
        message = {"seed": seed, "scenario": scenario.name, "parameters": dict(scenario.parameters)}
        message |= {"policies": [*policies], "builtin": builtin} | ({"frames": True} if frames else {})
        return match, self._number("match_start", match, message)

    def answer(self, match: RemoteMatch, tick: int, actions: Mapping[int, np.ndarray]) -> bytes:
        """Return the message with the actions that were chosen from the observation of a tick.

        Args:
            match: The match.
            tick: Tick of the observation.
            actions: Action ``[L + D]`` by the number of the seat.
        """
        match.is_answered = True
        found = [self._action(seat, tick, action) for seat, action in actions.items()]
        return self._number("action", match, {"tick": tick, "actions": found})

    def _action(self, seat: int, tick: int, action: np.ndarray) -> Message:
        delay, age = (self.timing[seat].delay, self.timing[seat].max_age) if self.timing else (0, 0)
        listed = list_action(action, len(self.schema.seats[seat][0].labels))
        return {"seat": seat, "action": listed, "apply": tick + delay, "deadline": tick + age}

    def void_match(self, match: RemoteMatch, reason: str) -> bytes:
        """Return the message that aborts a match."""
        self._forget(match)
        payload = self._number("match_void", match, {"reason": reason[:256]})
        self._aborted[match.number] = self._sent
        return payload

    def _number(self, kind: str, match: RemoteMatch, message: Message) -> bytes:
        self._sent += 1
        head = {"type": kind, "match": match.number, "seq": self._sent, "ack": self.received}
        payload = encode(head | message)
        self.outbox.append((self._sent, payload))
        return payload

    @property
    def is_congested(self) -> bool:
        """Return whether the game has left too many messages without an acknowledgement."""
        return len(self.outbox) > self.limits.unacknowledged

    def close(self, text: str) -> None:
        """Report that all matches are void."""
        for match in list(self.matches.values()):
            self._forget(match)
            self.report(match, MatchUpdate(tick=match.tick, kind="void", text=text))

    def _forget(self, match: RemoteMatch) -> None:
        self.matches.pop(match.number, None)

    # -- from the game ----------------------------------------------------------------------------------------------

    def resume(self, ack: int) -> list[bytes]:
        """Return the messages that a new connection must send again.

        Raises:
            ProtocolError: The game acknowledges what was never sent.
        """
        self._acknowledge(ack)
        return [payload for _, payload in self.outbox]

    def receive(self, message: Message) -> bytes | None:
        """Process a message; return the answer, if there is one.

        Raises:
            ProtocolError: The message violates the protocol. No state has changed but that of its sequence number.
        """
        kind = read(message, "type", "text")
        self._acknowledge(read_whole(message, "ack", 0, LARGEST_INT, 0))
        if kind in _HANDLERS:
            if self._is_new(message):
                _HANDLERS[kind](self, message)
            return None
        if kind == "ping":
            sent_s = float(read(message, "time", "float"))
            return encode({"type": "pong", "ack": self.received, "time": sent_s, "clock": time.monotonic()})
        if kind == "pong":
            read(message, "time", "float")
            return None
        code = "order" if kind in ("hello", "welcome", "match_start", "action") else "message"
        raise ProtocolError(code, f"unexpected type {one_line(kind, 32)!r}")

    def _acknowledge(self, ack: int) -> None:
        if ack > self._sent:
            raise ProtocolError("sequence", f"ack {ack}, but the last number was {self._sent}")
        while self.outbox and self.outbox[0][0] <= ack:
            self.outbox.popleft()
        self._aborted = {match: number for match, number in self._aborted.items() if number > ack}

    def _is_new(self, message: Message) -> bool:
        number = read_whole(message, "seq", 1, LARGEST_INT)
        if number > self.received + 1:
            raise ProtocolError("sequence", f"expected number {self.received + 1}, got {number}")
        is_new = number > self.received
        self.received = max(number, self.received)
        return is_new

    def _match(self, message: Message) -> RemoteMatch | None:
        """Return the match of a message; None if it is about one that the gateway has aborted."""
        number = read_whole(message, "match", 1, LARGEST_INT)
        if number not in self.matches and number not in self._aborted:
            raise ProtocolError("order", f"match {number} is not running")
        return self.matches.get(number)

    def _observe(self, message: Message) -> None:
        if (match := self._match(message)) is not None:
            self.report(match, match.observe(message))

    def _end_seat(self, message: Message) -> None:
        if (match := self._match(message)) is not None:
            match.end_seat(message)

    def _end_match(self, message: Message) -> None:
        if (match := self._match(message)) is not None:
            update = match.end(message)
            self._forget(match)
            self.report(match, update)

    def _void(self, message: Message) -> None:
        text = one_line(read(message, "reason", "text", "", most=256), 256)
        if (match := self._match(message)) is not None:
            self._forget(match)
            self.report(match, MatchUpdate(tick=match.tick, kind="void", text=text or "the game aborted it"))


_HANDLERS: dict[str, Callable[[GameSession, Message], Any]] = {
    "observation": GameSession._observe,
    "seat_end": GameSession._end_seat,
    "match_end": GameSession._end_match,
    "match_void": GameSession._void,
}
