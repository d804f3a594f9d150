"""The ticks and decisions of recorded matches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attrs import frozen

from ludus._replays.block import Replay
from ludus._replays.streams import MatchStream
from ludus.errors import ReplayError
from ludus.rendering import Frame


@frozen(eq=False, kw_only=True)
class SeatDecision:
    """The decision of one seat.

    Attributes:
        seat: Number of the seat, counted over all roles.
        role: Its role.
        participant: Its participant.
        action: ``[L]``, the recorded action.
        probabilities: ``[A] float32`` of all choices, the labels side by side; None where they are unknown.
        value: Return that the participant expected; None where it is unknown.
    """

    seat: int
    role: str
    participant: str
    action: np.ndarray
    probabilities: np.ndarray | None
    value: float | None


@frozen(eq=False, kw_only=True)
class StreamStep:
    """One tick of a recorded stream.

    Attributes:
        number: Number of the tick.
        clock: Ticks of the game since the start of the match.
        frame: Frame of the match: text or a scene; None where none was recorded.
        decisions: The decisions on this tick, without probabilities and values.
    """

    number: int
    clock: int
    frame: Frame | None
    decisions: tuple[SeatDecision, ...]


def stream_steps(replay: Replay) -> Iterator[StreamStep]:
    """Yield the ticks of a replay with a stream that have a frame or decisions; nothing is played.

    Frames end early where a match exceeded the limits of a stream.

    Raises:
        ReplayError: The replay has no stream, or its frames are malformed.
    """
    if replay.stream is None:
        raise ReplayError(f"match {replay.name}: it has no stream; it can be played again")
    try:
        frames = {frame.tick: frame for frame in replay.stream.frames(replay.ticks)}
    except ReplayError as error:
        raise ReplayError(f"match {replay.name}: {error} ({replay.place})") from error
    decisions = _stream_decisions(replay, replay.stream)
    last_frame = max(frames, default=-1)
    shown = None
    for number in sorted({*frames, *decisions}):
        shown = frames.get(number, shown)
        yield StreamStep(
            number=number,
            clock=0 if shown is None else shown.clock,
            frame=None if shown is None or number > last_frame else shown.frame,
            decisions=tuple(decisions.get(number, ())),
        )


def _stream_decisions(replay: Replay, stream: MatchStream) -> dict[int, list[SeatDecision]]:
    """Return the decisions of a replay by tick."""
    if (
        len(replay.fixture.participants) != len(stream.game.seats)
        or {seat.role for seat in stream.game.seats} != stream.acted.keys()
    ):
        raise ReplayError(f"match {replay.name}: its stream has other seats or roles than the match ({replay.place})")
    by_tick: dict[int, list[SeatDecision]] = {}
    for number, seat in enumerate(stream.game.seats):
        ticks, seats = stream.acted[seat.role].T
        for i in np.flatnonzero(seats == seat.index).tolist():
            decision = SeatDecision(
                seat=number,
                role=seat.role,
                participant=replay.fixture.participants[number],
                action=replay.actions[seat.role][i],
                probabilities=None,
                value=None,
            )
            by_tick.setdefault(int(ticks[i]), []).append(decision)
    return by_tick
