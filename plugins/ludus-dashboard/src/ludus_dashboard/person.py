"""The seat of a person: what the browser sends, and the actions that follow from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import define, field, fields, frozen
from ludus.controls import Controls
from ludus.environment import Playable, Role
from ludus.spaces import legal_actions, random_actions
from ludus_terminal.play import name_legal_actions

__all__ = ["BadInput", "InputEvent", "MatchAbandoned", "Person", "PersonInput"]

_MAX_KEYS = 16  # that are held at the same time
_MAX_KEY = 32  # characters of the name of a key
_MAX_TEXT = 200
_BUFFER_S = 0.5  # for which a pressed key waits for a decision
_POLL_S = 0.5


class BadInput(ValueError):  # noqa: N818 - reads better in `except` than with a suffix
    """The browser sent something else than input."""


class MatchAbandoned(Exception):  # noqa: N818 - not an error
    """The person left, or the server ends the match."""


@frozen(kw_only=True)
class InputEvent:
    """What one request of a browser states.

    Attributes:
        held: Keys that are held now.
        pressed: Keys that were pressed since the last request.
        place: Place in the scene that is pointed to while a button is held; None without one.
        clicked: Place where a button was pressed; None if none was.
        typed: An action as text.
        quit: Whether the person leaves.
    """

    held: frozenset[str]
    pressed: frozenset[str]
    place: tuple[float, float] | None
    clicked: tuple[float, float] | None
    typed: str
    quit: bool

    @classmethod
    def parse(cls, values: Any) -> InputEvent:
        """Return the event of a JSON object, whose keys are the attributes; all may be missing.

        Raises:
            BadInput: It is none.
        """
        known = {one.name for one in fields(cls)}
        if not isinstance(values, dict) or not values.keys() <= known:
            raise BadInput(f"expected an object with {', '.join(sorted(known))}")
        typed = values.get("typed", "")
        if not isinstance(typed, str) or len(typed) > _MAX_TEXT:
            raise BadInput(f"typed: expected at most {_MAX_TEXT} characters")
        return cls(
            held=_keys(values.get("held", [])),
            pressed=_keys(values.get("pressed", [])),
            place=_point(values.get("place")),
            clicked=_point(values.get("clicked")),
            typed=typed.strip(),
            quit=values.get("quit") is True,
        )

    @property
    def is_active(self) -> bool:
        """Return whether the person does something, and not only releases keys."""
        return any((self.held, self.pressed, self.place, self.clicked, self.typed, self.quit))


@define(eq=False)
class PersonInput:
    """What a person holds, has pressed, points to and has typed; used by several threads."""

    changed: threading.Condition = field(init=False, factory=threading.Condition)  # its lock is reentrant
    last_s: float = field(init=False, factory=time.monotonic)  # time of the last input
    count: int = field(init=False, default=0)
    has_quit: bool = field(init=False, default=False)
    _held: frozenset[str] = field(init=False, default=frozenset())
    _pressed: dict[str, float] = field(init=False, factory=dict)  # time by key
    _place: tuple[float, float] | None = field(init=False, default=None)
    _clicked: tuple[float, float] | None = field(init=False, default=None)
    _typed: str = field(init=False, default="")

    def add(self, event: InputEvent) -> None:
        """Add the input of one request."""
        with self.changed:
            now = time.monotonic()
            self._held, self._place = event.held, event.place
            self._pressed |= dict.fromkeys(event.pressed, now)
            self._clicked = event.clicked or self._clicked
            self._typed = event.typed or self._typed
            self.has_quit |= event.quit
            if event.is_active:
                self.last_s, self.count = now, self.count + 1
            self.changed.notify_all()

    def wait(self, *, since: int) -> None:
        """Wait for a moment, or until `count` differs from `since`."""
        with self.changed:
            self.changed.wait_for(lambda: self.count != since, _POLL_S)

    def clear(self) -> None:
        """Forget what was pressed and typed."""
        with self.changed:
            self._typed, self._pressed, self._clicked = "", {}, None

    def take(self, controls: Controls | None, *, holds: bool) -> str:
        """Return the action of the present input, and forget what was pressed; empty if there is none.

        Args:
            controls: The controls; None: only typed actions count.
            holds: Whether keys and buttons that are held act again.
        """
        with self.changed:
            typed, place = self._typed, self._clicked
            since = time.monotonic() - _BUFFER_S
            keys = {key for key, pressed_s in self._pressed.items() if pressed_s >= since}
            if holds:
                keys, place = keys | self._held, place or self._place
            self.clear()
        if typed or controls is None:
            return typed
        return controls.action(keys) or _pointed_action(controls, place)


def _pointed_action(controls: Controls, place: tuple[float, float] | None) -> str:
    return "" if controls.point is None or place is None else controls.point(0, *place)


def _keys(values: Any) -> frozenset[str]:
    if not isinstance(values, list) or len(values) > _MAX_KEYS:
        raise BadInput(f"keys: expected a list of at most {_MAX_KEYS}")
    if not all(isinstance(key, str) and 0 < len(key) <= _MAX_KEY for key in values):
        raise BadInput(f"keys: expected names of at most {_MAX_KEY} characters")
    return frozenset(values)


def _point(values: Any) -> tuple[float, float] | None:
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != 2 or not all(isinstance(value, int | float) for value in values):
        raise BadInput("place: expected [x, y]")
    if not all(abs(value) < 1e9 for value in values):  # refuses NaN too
        raise BadInput("place: expected numbers between -1e9 and 1e9")
    return float(values[0]), float(values[1])


@define(eq=False)
class Person:
    """An agent that acts as its person does.

    Args:
        game: The game.
        role: Role of the seat.
        controls: Controls of the seat; None: the person types every action.
        waits: Whether the match waits for every decision.
        on_turn: Called with a note and the legal actions when the person is to decide in a match that waits.
        check: Called while the match waits; raises `MatchAbandoned` to end it.
    """

    game: Playable
    role: Role
    controls: Controls | None
    waits: bool
    on_turn: Callable[[str, list[str]], None]
    check: Callable[[], None]
    input: PersonInput = field(init=False, factory=PersonInput)
    _last: np.ndarray | None = field(init=False, default=None)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing: a person plays one match."""

    def act(
        self,
        observation: Mapping[str, np.ndarray],  # noqa: ARG002 - people look at the frame
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,  # noqa: ARG002 - there is one seat
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Return the action ``[1, L]``.

        Raises:
            MatchAbandoned: The person left.
        """
        mask = None if action_mask is None else action_mask[0]
        if self.waits:
            return self._wait_for_action(mask)[None]
        return self._present_action(mask, rng)[None]

    def _wait_for_action(self, mask: np.ndarray | None) -> np.ndarray:
        legal = name_legal_actions(self.game, self.role, mask)
        self.input.clear()
        self.on_turn("", legal)
        while True:
            count = self.input.count
            if text := self.input.take(self.controls, holds=False):
                action, problem = self._parse(text, mask)
                if action is not None:
                    return action
                self.on_turn(problem, legal)
            self.check()
            self.input.wait(since=count)

    def _present_action(self, mask: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
        """Return the action of the present input; without any, the idle or the last one."""
        idle = "" if self.controls is None else self.controls.idle
        for text in (self.input.take(self.controls, holds=True), idle):
            action = self._parse(text, mask)[0] if text else None
            if action is not None:
                self._last = action
                return action
        if not idle and self._last is not None and legal_actions(self.role.action_space, self._last, mask):
            return self._last
        masks = None if mask is None else mask[None]
        drawn: np.ndarray = random_actions(self.role.action_space, 1, rng, mask=masks)[0]
        return drawn

    def _parse(self, text: str, mask: np.ndarray | None) -> tuple[np.ndarray | None, str]:
        """Return the legal action of a text, or None and what is wrong with it."""
        try:
            action = np.asarray(self.game.parse_action(self.role.name, text))
        except ValueError as error:
            return None, str(error)
        if legal_actions(self.role.action_space, action, mask):
            return action, ""
        return None, f"{self.game.action_name(self.role.name, action)} is not legal now"
