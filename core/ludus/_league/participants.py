"""Names of participants (see `ludus.matchmaker`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import frozen

from ludus.environment import Seat
from ludus.matchmaker import PlayerView, rated_anchors, team_sides

_MAX_INHERITED = 16  # models; an older one would weigh less than 1/65,536


@frozen
class Name:
    """The parts of a participant's name; `number` is None for an anchor."""

    player: str
    number: int | None
    live: bool


_PARTICIPANT = re.compile(r"(?P<player>[^@]+)@(?P<number>0|[1-9][0-9]*)(?P<live>\+?)")


def parse(participant: str) -> Name:
    """Return the parts of a participant's name."""
    match = _PARTICIPANT.fullmatch(participant)
    if match is None:
        return Name(participant, None, live=False)
    return Name(match["player"], int(match["number"]), live=match["live"] == "+")


def live_player(participant: str) -> str:
    """Return the player of a live participant, an anchor without its side, and a frozen model unchanged."""
    name = parse(participant)
    return name.player.rpartition("=")[2] if name.live or name.number is None else participant


def player_sides(roles: Mapping[str, str], seats: Sequence[Seat]) -> dict[str, str]:
    """Return the side of every player, given its role; see `ludus.matchmaker.team_sides`."""
    sides = team_sides(seats)
    side_of = {seat.role: sides[seat.team] for seat in reversed(seats)}
    return {player: side_of.get(role, "") for player, role in roles.items()}


def anchors_by_side(anchors: Sequence[str], seats: Sequence[Seat]) -> dict[str, tuple[str, ...]]:
    """Return the rated names of every anchor; empty in a game of one side, where they are the names themselves."""
    by_anchor = {anchor: rated_anchors([anchor], seats) for anchor in anchors}
    return {anchor: names for anchor, names in by_anchor.items() if names != (anchor,)}


def inherited_weights(participant: str, players: Mapping[str, PlayerView]) -> list[tuple[str, float]]:
    """Return the participants whose matches count for a participant, each with its weight.

    These are the participant itself and, for a live one, its earlier frozen and live weights back to the last reset of
    its player. The weight halves with every model.
    """
    name = parse(participant)
    if not name.live or name.number is None:
        return [(participant, 1.0)]
    generation_starts = players[name.player].generation_starts if name.player in players else (0,)
    start = max(start for start in generation_starts if start <= name.number)
    numbers = range(name.number, max(name.number - _MAX_INHERITED, start - 1), -1)
    return [
        (f"{name.player}@{number}{suffix}", 0.5**age)
        for age, number in enumerate(numbers)
        for suffix in ("+", "")
        if suffix or number > start
    ]
