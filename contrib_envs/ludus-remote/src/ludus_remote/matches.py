"""A match that a game plays, and its messages as arrays."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from attrs import define, field, frozen
from ludus.errors import ContractError
from ludus.rendering import Scene, scene_from_json

from ludus_remote.payload import LARGEST_INT, Message, ProtocolError, one_line, read, read_items, read_whole
from ludus_remote.schema import GameSchema, Leaf

#: Shapes of a frame.
MOST_SHAPES = 4096


@frozen(kw_only=True)
class SeatUpdate:
    """What a message reports about a seat.

    Args:
        acts: The seat decides now.
        leaves: Observation; empty if the message has none.
        mask: ``[A] bool``; None without one.
        privileged: Leaves for critics only; empty if the message has none.
        reward: Reward since the last entry of the seat.
        parts: Parts of the reward.
        dropped: Ticks of observations whose actions the game dropped.
        ending: ``"terminated"`` or ``"truncated"`` if the seat ends; else empty.
    """

    acts: bool
    leaves: Mapping[str, np.ndarray]
    mask: np.ndarray | None
    privileged: Mapping[str, np.ndarray]
    reward: float
    parts: Mapping[str, float]
    dropped: tuple[int, ...] = ()
    ending: str = ""


@frozen(kw_only=True)
class MatchUpdate:
    """What a game reports about a match.

    Args:
        tick: Tick of the game.
        kind: An observation, the end, or that the match is void.
        seats: Updates by the number of the seat, in their order: a seat that ends may have two.
        ending: ``"terminated"`` or ``"truncated"`` at the end.
        outcome: Points of all teams at the end.
        statistics: Statistics of every seat at the end.
        text: Why the match is void.
        frame: Picture of the match; None: the game has sent none.
    """

    tick: int
    kind: Literal["observation", "end", "void"]
    seats: Sequence[tuple[int, SeatUpdate]] = ()
    ending: str = ""
    outcome: tuple[float, ...] = ()
    statistics: Sequence[Mapping[str, float]] = ()
    text: str = ""
    frame: Scene | None = None


@define(eq=False)
class RemoteMatch:
    """A match of a game.

    Args:
        number: Number within the game session.
        index: Match index of the environment.
        schema: Schema of the game.
        builtin: Numbers of the seats that the game plays itself.
        waits: Whether the game waits for the answer to each observation.
        has_frames: Whether its frames are read.

    Attributes:
        tick: Tick of the last message; -1 before the first.
        observed_s: When the last observation was received, by the monotonic clock.
        is_answered: Whether the last observation was answered.
    """

    number: int
    index: int
    schema: GameSchema
    builtin: frozenset[int]
    waits: bool
    has_frames: bool = False
    tick: int = field(init=False, default=-1)
    observed_s: float = field(init=False, default=0.0)
    is_answered: bool = field(init=False, default=True)
    _ended: set[int] = field(init=False, factory=set)
    _endings: list[tuple[int, SeatUpdate]] = field(init=False, factory=list)

    def observe(self, message: Message) -> MatchUpdate:
        """Return the update of an observation.

        Raises:
            ProtocolError: The message is wrong, or does not belong here.
        """
        if self.waits and not self.is_answered:
            raise ProtocolError("order", f"match {self.number}: the last observation waits for its answer")
        tick = self._advance(message, strictly=True)
        seats = self._read_seats(message, "observation")
        self.is_answered = False
        self.observed_s = time.monotonic()
        frame = self._read_frame(message)
        return MatchUpdate(tick=tick, kind="observation", seats=self._take_endings(seats), frame=frame)

    def end_seat(self, message: Message) -> None:
        """Keep the end of a seat for the next update.

        Raises:
            ProtocolError: The message is wrong, or does not belong here.
        """
        self._check_started()
        self._advance(message, strictly=False)
        ending = _read_ending(message)
        seat, update = self._read_entry(read(message, "seat", "map"), "seat_end", ending)
        if not self.schema.seats[seat][0].seat_endings or seat in self._ended:
            raise ProtocolError("order", f"seat {seat} cannot end")
        if ending == "truncated" and not update.leaves:
            raise ProtocolError("message", f"seat {seat}: leaves: a truncated seat needs its final observation")
        self._ended.add(seat)
        self._endings.append((seat, update))

    def end(self, message: Message) -> MatchUpdate:
        """Return the update of the end of the match.

        Raises:
            ProtocolError: The message is wrong, or does not belong here.
        """
        self._check_started()
        tick = self._advance(message, strictly=False)
        outcome = tuple(map(float, read_items(message, "outcome", "float")))
        if len(outcome) != self.schema.num_teams or not all(0 <= points <= 1 for points in outcome):
            raise ProtocolError("value", f"outcome: expected {self.schema.num_teams} numbers in [0, 1]")
        ending = _read_ending(message)
        seats = self._read_seats(message, "match_end")
        if ending == "truncated":
            shown = {seat for seat, update in seats if update.leaves} | self._ended | self.builtin
            if len(shown) < len(self.schema.seats):
                raise ProtocolError("message", "seats: a truncated match needs the final observations of its seats")
        return MatchUpdate(
            tick=tick,
            kind="end",
            seats=self._take_endings(seats),
            ending=ending,
            outcome=outcome,
            statistics=self._read_statistics(message),
            frame=self._read_frame(message),
        )

    def _check_started(self) -> None:
        """Check that the match is under way.

        Raises:
            ProtocolError: Its first observation has not come, or the game must wait for an answer.
        """
        if self.tick < 0 or (self.waits and not self.is_answered):
            raise ProtocolError("order", f"match {self.number}: expected an observation and its answer first")

    def _advance(self, message: Message, *, strictly: bool) -> int:
        tick = read_whole(message, "tick", 0, LARGEST_INT)
        if tick < self.tick + strictly or (self.tick < 0 and tick):
            raise ProtocolError("order", f"match {self.number}: tick {tick} follows {self.tick}; ticks start with 0")
        if strictly:
            self.tick = tick
        return tick

    def _take_endings(self, seats: list[tuple[int, SeatUpdate]]) -> list[tuple[int, SeatUpdate]]:
        endings, self._endings = self._endings, []
        return endings + seats

    def _read_seats(self, message: Message, kind: str) -> list[tuple[int, SeatUpdate]]:
        entries = read_items(message, "seats", "map", (), most=len(self.schema.seats))
        seats = [self._read_entry(entry, kind, "") for entry in entries]
        if len({seat for seat, _ in seats}) < len(seats):
            raise ProtocolError("value", "seats: a seat is there twice")
        return seats

    def _read_entry(self, data: Message, kind: str, ending: str) -> tuple[int, SeatUpdate]:
        seat = read_whole(data, "seat", 0, len(self.schema.seats) - 1)
        role, _ = self.schema.seats[seat]
        acts = read(data, "acts", "bool", False)
        given = read(data, "leaves", "map", {})
        if acts:
            self._check_acting(seat, kind, given)
        needs_mask = role.mask and (acts or bool(data.get("mask")))
        return seat, SeatUpdate(
            acts=acts,
            leaves=_parse_leaves(given, role.leaves) if given else {},
            mask=role.parse_mask(data.get("mask")) if needs_mask else None,
            privileged=_parse_leaves(read(data, "privileged", "map", {}), role.privileged) if given else {},
            reward=float(read(data, "reward", "float", 0.0)),
            parts=_read_floats(read(data, "parts", "map", {}), role.reward_parts, "reward part"),
            dropped=tuple(read_items(data, "dropped", "int")),
            ending=ending,
        )

    def _check_acting(self, seat: int, kind: str, leaves: Message) -> None:
        if kind != "observation" or seat in self._ended or seat in self.builtin:
            raise ProtocolError("order", f"seat {seat} cannot act")
        if not leaves:
            raise ProtocolError("message", f"seat {seat}: leaves: the key is missing; a seat that acts needs them")

    def _read_frame(self, message: Message) -> Scene | None:
        """Return the scene of a message; None without one, or if it is not wanted."""
        if not self.has_frames or message.get("frame") is None:
            return None
        values = read(message, "frame", "map")
        read_items(values, "shapes", "map", (), most=MOST_SHAPES)
        try:
            return scene_from_json(values)
        except ContractError as error:
            raise ProtocolError("value", f"frame: {one_line(str(error), 256)}") from error

    def _read_statistics(self, message: Message) -> list[Message]:
        statistics = read_items(message, "statistics", "map", (), most=len(self.schema.seats))
        if len(statistics) not in (0, len(self.schema.seats)):
            raise ProtocolError("value", f"statistics: expected a map for each of {len(self.schema.seats)} seats")
        for (role, _), values in zip(self.schema.seats, statistics, strict=False):
            _read_floats(values, role.statistics, "statistic")
        return statistics


def _read_floats(given: Message, names: Sequence[str], kind: str) -> Message:
    """Return numbers by name, after a check."""
    for name in given:
        if name not in names:
            raise ProtocolError("value", f"the schema has no {kind} {one_line(name, 64)!r}")
        read(given, name, "float")
    return given


def _parse_leaves(given: Message, leaves: Mapping[str, Leaf]) -> dict[str, np.ndarray]:
    for name in leaves:
        if name not in given:
            raise ProtocolError("message", f"leaf {name!r} is missing")
    return {name: leaf.parse(given[name], name) for name, leaf in leaves.items()}


def _read_ending(message: Message) -> str:
    ending: str = read(message, "ending", "text")
    if ending not in ("terminated", "truncated"):
        raise ProtocolError("value", f"ending: expected terminated or truncated, got {ending!r}")
    return ending


def list_action(action: np.ndarray, num_labels: int) -> list[Any]:
    """Return an action ``[L + D]`` as a list: integers for labels, then floats."""
    return [*map(int, action[:num_labels]), *map(float, action[num_labels:])]
