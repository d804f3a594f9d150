"""Controls: which keys and places of the picture a person plays with.

An environment that people can play has the methods of `ludus.environment.Playable`. With the method
`Controllable.controls` it also declares keys. Its clock may then run while a person plays, unless it is turn-based.
Without controls, a match waits for every decision of a person.

Keys have the names of the web standard UI Events (``KeyboardEvent.key``): ``"a"``, ``"ArrowUp"``, ``" "``. A *chord* is
several keys that are held together, joined by a space in any order: ``"ArrowUp ArrowRight"``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol, runtime_checkable

from attrs import field, frozen

from ludus.environment import Environment

__all__ = ["Chord", "Controllable", "Controls", "find_controls", "split_chord"]

#: Keys that are held together.
Chord = frozenset[str]


def split_chord(text: str) -> Chord:
    """Return the keys of a chord; a text of one space is the space bar."""
    return frozenset(text.split(" ")) - {""} or frozenset({text})


def _split_chords(keys: Mapping[str, str]) -> Mapping[Chord, str]:
    return {split_chord(text): action for text, action in keys.items()}


@frozen(kw_only=True)
class Controls:
    """How a person plays a role. Actions are texts that `ludus.environment.Playable.parse_action` accepts.

    Args:
        keys: Action by chord, see the module.
        idle: Action on the ticks without input in a game that does not wait for its players; empty: the last action is
            repeated.
        point: Returns the action for a place of the scene that the person points to while a button is pressed, given
            match index, x and y; empty: none. None if pointing means nothing.
        pointing: What pointing does, in a few words.
    """

    keys: Mapping[Chord, str] = field(converter=_split_chords)
    idle: str = ""
    point: Callable[[int, float, float], str] | None = None
    pointing: str = ""

    def action(self, held: Collection[str]) -> str:
        """Return the action of the longest chord whose keys are all held; empty if there is none."""
        found = [chord for chord in self.keys if chord.issubset(held)]
        return self.keys[max(found, key=len)] if found else ""


@runtime_checkable
class Controllable(Protocol):
    """Optional method of an environment that people can play."""

    def controls(self, role: str, seat: int) -> Controls | None:
        """Return the controls of a seat, given its number within its role; None if it has none."""


def find_controls(environment: Environment, role: str, seat: int) -> Controls | None:
    """Return the controls of a seat, given its number within its role; None if the environment declares none."""
    return environment.controls(role, seat) if isinstance(environment, Controllable) else None
