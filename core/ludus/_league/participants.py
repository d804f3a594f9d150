"""What the names of participants say (see `ludus.matchmaker`)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import frozen

from ludus.matchmaker import PlayerView

_INHERITED = 16  # models; older ones would weigh less than 1/65,536 of a match


@frozen
class Name:
    """A participant's name taken apart; `number` is None for an anchor."""

    player: str
    number: int | None
    live: bool


_PARTICIPANT = re.compile(r"(?P<player>[^@]+)@(?P<number>0|[1-9][0-9]*)(?P<live>\+?)")


def parse(participant: str) -> Name:
    """Take a participant's name apart."""
    match = _PARTICIPANT.fullmatch(participant)
    if match is None:
        return Name(participant, None, live=False)
    return Name(match["player"], int(match["number"]), live=match["live"] == "+")


def unnumbered(participant: str) -> str:
    """Return the player of a live participant; everybody else is itself."""
    name = parse(participant)
    return name.player if name.live else participant


def inherited(participant: str, players: Mapping[str, PlayerView]) -> list[tuple[str, float]]:
    """Return the participants whose matches count for this one, with their weights.

    For a live one these are its earlier weights, frozen and live, back to the last reset of its player.
    """
    name = parse(participant)
    if not name.live or name.number is None:
        return [(participant, 1.0)]
    generation_starts = players[name.player].generation_starts if name.player in players else (0,)
    born = max(birth for birth in generation_starts if birth <= name.number)
    numbers = range(name.number, max(name.number - _INHERITED, born - 1), -1)
    return [
        (f"{name.player}@{number}{suffix}", 0.5**age)
        for age, number in enumerate(numbers)
        for suffix in ("+", "")
        if suffix or number > born
    ]
