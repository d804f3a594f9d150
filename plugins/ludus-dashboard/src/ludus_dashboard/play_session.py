"""A match that a person plays: one thread plays it, requests add input and read its state."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen
from ludus.controls import find_controls
from ludus.environment import Playable
from ludus.errors import ContractError, LudusError
from ludus.human_matches import RecordedMatch
from ludus.lineup import Lineup, make_agents, make_lineup
from ludus_terminal.matches import MatchRunner, OpenMatch, Result, open_match
from ludus_terminal.recording import frame_seconds

from ludus_dashboard.frames import frame_json, plain_text
from ludus_dashboard.person import InputEvent, MatchAbandoned, Person

__all__ = ["PlaySession", "PlaySetup"]

_START_S = 60.0
_NO_VIEWER_S = 30.0  # without a connected page, after which a match ends
_NO_INPUT_S = 600.0
_FRAME_S = 1 / 30  # between two frames that are sent
_LATEST_S = 0.5  # by which a clock may be late before it starts again
_KEEP_ALIVE_S = 10.0
_REASON = "played in the browser"
_POINTS = {1.0: "You won", 0.5: "A draw", 0.0: "You lost"}
_log = logging.getLogger(__name__)


@frozen(kw_only=True)
class PlaySetup:
    """What a person has chosen.

    Attributes:
        folder: The run folder.
        person: Participant of the person.
        seat: Seat of the person.
        others: Participants of other seats, as ``SEAT=NAME`` or ``ROLE=NAME``; see `ludus.lineup`.
        speed: Factor on the speed of a game with a clock.
        max_mb: Size of all replays of the run.
    """

    folder: Path
    person: str
    seat: int
    others: tuple[str, ...]
    speed: float
    max_mb: float


@define(eq=False)
class PlaySession:
    """One match.

    Args:
        setup: What the person has chosen.

    Attributes:
        id: Part of its address.
        problem: Why the match could not start; empty if it has started.
        about: What its page shows: participants, role, controls and whether there is a clock.
    """

    setup: PlaySetup
    id: str = field(init=False, factory=lambda: secrets.token_urlsafe(9))
    problem: str = field(init=False, default="")
    about: Mapping[str, Any] = field(init=False, factory=dict)
    _person: Person = field(init=False)
    _ready: threading.Event = field(init=False, factory=threading.Event)
    _thread: threading.Thread = field(init=False)
    _lock: threading.Lock = field(init=False, factory=threading.Lock)
    _viewers: dict[object, Callable[[], object]] = field(init=False, factory=dict)
    _unseen_since_s: float = field(init=False, factory=time.monotonic)
    _state: dict[str, Any] = field(init=False, factory=dict)
    _version: int = field(init=False, default=0)
    _tick: int = field(init=False, default=-1)
    _due_s: float = field(init=False, default=0.0)
    _sent_s: float = field(init=False, default=0.0)

    # -- called by requests ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin to prepare the match, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name=f"play-{self.id}", daemon=True)
        self._thread.start()

    def wait_for_start(self) -> None:
        """Return when the match has started, or `problem` states why not."""
        if not self._ready.wait(_START_S):
            self.problem = f"the game has not started within {_START_S:.0f} s"

    @property
    def is_running(self) -> bool:
        """Return whether the match goes on, or is being recorded."""
        return self._thread.is_alive()

    def add_input(self, event: InputEvent) -> None:
        """Add input of the person."""
        self._person.input.add(event)

    async def events(self) -> AsyncIterator[str]:
        """Yield the state of the match whenever it changes, in the format of `text/event-stream`."""
        loop, changed, key, seen = asyncio.get_running_loop(), asyncio.Event(), object(), -1
        with self._lock:
            self._viewers[key] = partial(loop.call_soon_threadsafe, changed.set)
        try:
            while True:
                changed.clear()
                with self._lock:
                    version, state = self._version, self._state
                if version != seen:
                    seen = version
                    yield f"data: {json.dumps(state)}\n\n"
                elif not self.is_running:
                    return
                try:
                    await asyncio.wait_for(changed.wait(), _KEEP_ALIVE_S)
                except TimeoutError:
                    yield ": keep-alive\n\n"
        finally:
            with self._lock:
                del self._viewers[key]
                self._unseen_since_s = time.monotonic()

    # -- the thread that plays ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._play()
        except MatchAbandoned as reason:
            self._publish(phase="ended", note=f"{reason}. The match was not recorded.")
        except LudusError as error:
            self.problem = str(error)
            self._publish(phase="ended", note=str(error))
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            _log.exception("a match in the browser failed")
            self.problem = f"the game failed: {type(error).__name__}: {error}"
            self._publish(phase="ended", note=self.problem)
        finally:
            self._ready.set()

    def _play(self) -> None:
        setup = self.setup
        match = open_match(str(setup.folder), None, participants=(), overrides=(), rendering=True)
        with closing(match):
            game = match.environment
            if not isinstance(game, Playable):
                raise ContractError(f"environment {match.spec.name!r} cannot be played: it lacks parse_action")
            lineup = make_lineup(match.spec, setup.others, match.source, user_seat=setup.seat)
            self._person = self._make_person(match, game)
            (agents,) = make_agents([lineup], match.source, game, user=self._person)
            seed = secrets.randbits(62)
            recorded = RecordedMatch(game, participants=_participants(lineup, match, setup.person), seed=seed)
            self.about = self._describe(match, recorded.participants)
            runner = MatchRunner(
                match=evolve(match, environment=recorded),
                agents=agents,
                rng=np.random.default_rng(seed),
                on_tick=lambda: self._on_tick(recorded),
            )
            result = runner.play(seed)
            text = _result_text(match, result, setup.seat)
            self._publish(phase="recording", note=f"{text}. The match is being recorded …")
            name = recorded.save(setup.folder, max_mb=setup.max_mb, reason=_REASON)
            self._publish(phase="ended", note=f"{text}.", match=name)

    def _make_person(self, match: OpenMatch, game: Playable) -> Person:
        seat = match.spec.seats[self.setup.seat]
        controls = find_controls(match.environment, seat.role, seat.index)
        waits = controls is None or match.spec.turn == "turn-based"
        return Person(game, match.spec.role(seat.role), controls, waits, self._on_turn, self._check)

    def _describe(self, match: OpenMatch, participants: Sequence[str]) -> dict[str, Any]:
        person, seats = self._person, match.spec.seats
        keys: dict[str, list[str]] = {}
        for chord, action in () if person.controls is None else person.controls.keys.items():
            keys.setdefault(action, []).append(" + ".join(sorted(_KEY_NAMES.get(key, key) for key in chord)))
        return {
            "environment": match.spec.name,
            "seat": self.setup.seat,
            "seats": [(seat.role, seat.team, name) for seat, name in zip(seats, participants, strict=True)],
            "has_clock": not person.waits,
            "keys": keys,
            "pointing": "" if person.controls is None else person.controls.pointing,
        }

    # -- while it is played -----------------------------------------------------------------------------------------

    def _on_tick(self, recorded: RecordedMatch) -> None:
        self._tick += 1
        now = time.monotonic()
        if self._person.waits or recorded.has_ended or not self._tick or now - self._sent_s >= _FRAME_S:
            self._sent_s = now
            text = plain_text(self._person.game.render(0)) if self._person.waits else ""
            phase = "playing" if self._tick or self._person.waits else "waiting"
            self._publish(phase=phase, tick=self._tick, frame=frame_json(recorded.environment), text=text)
        if not recorded.has_ended:
            self._ready.set()
            self._check()
            self._keep_time(recorded)

    def _keep_time(self, recorded: RecordedMatch) -> None:
        """Wait until the next tick is due; before the first one, until the person does something."""
        if self._person.waits:
            return
        entered = self._person.input
        if not self._tick:
            while not entered.count:
                self._check()
                entered.wait(since=0)
            self._due_s = time.monotonic()
        self._due_s += frame_seconds(recorded.spec, delay=None, fps=None) / self.setup.speed
        late_s = time.monotonic() - self._due_s
        if late_s < 0:
            time.sleep(-late_s)
        elif late_s > _LATEST_S:
            self._due_s = time.monotonic()

    def _on_turn(self, note: str, legal: list[str]) -> None:
        self._publish(phase="your turn", note=note, legal=legal)

    def _check(self) -> None:
        """Raise `MatchAbandoned` if the person has left."""
        now, entered = time.monotonic(), self._person.input
        if entered.has_quit:
            raise MatchAbandoned("You left")
        if not self._viewers and now - self._unseen_since_s > _NO_VIEWER_S:
            raise MatchAbandoned("The page was closed")
        if now - entered.last_s > _NO_INPUT_S:
            raise MatchAbandoned(f"There was no input for {_NO_INPUT_S / 60:.0f} minutes")

    def _publish(self, **values: Any) -> None:
        """Change the state, and wake everything that waits for it."""
        with self._lock:
            self._state = {**self._state, "note": "", "legal": [], **values}
            self._version += 1
            wakers = list(self._viewers.values())
        for wake in wakers:
            with suppress(RuntimeError):  # the server is ending
                wake()


_KEY_NAMES = {" ": "space", "ArrowUp": "↑", "ArrowDown": "↓", "ArrowLeft": "←", "ArrowRight": "→"}


def _participants(lineup: Lineup, match: OpenMatch, person: str) -> tuple[str, ...]:
    """Return the participant of every seat under the name of the log: ``@latest`` becomes the number of a model."""
    names = [person, *(match.source.participant(name, match.spec).name for name in lineup.names[1:])]
    return tuple(names[index] for index in lineup.seats)


def _result_text(match: OpenMatch, result: Result, seat: int) -> str:
    if match.spec.score == "return":
        return f"Your return is {result.returns[seat]:g}"
    points = float(result.outcome[match.spec.seats[seat].team])
    return _POINTS.get(points, f"You have {points:g} points")
