"""The form with which a match of a person starts: its fields, and what the posted values mean."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import frozen
from ludus.errors import ConfigError, LudusError
from ludus.human_matches import name_person
from ludus.levels import LEVELS_FILE, is_level, read_levels
from ludus.runs import MatchRecord, Run

from ludus_dashboard.play_session import PlaySetup

__all__ = ["SeatField", "choose_seat", "offered_names", "parse_setup", "seat_fields"]

_MAX_SEATS = 16  # with a field each; in larger games there is one per role
_MAX_MODELS = 200
_NAME = re.compile(r"[!-~]{1,120}")
_SPEEDS = (0.1, 20.0)


@frozen
class SeatField:
    """A field for the participant of a seat, or of all seats of a role: its name, its label and its value."""

    name: str
    label: str
    value: str


def seat_fields(run: Run, participants: Sequence[str], opponent: str) -> list[SeatField]:
    """Return the fields for participants.

    Args:
        run: The run.
        participants: Participant of every seat that the form starts with; empty: the newest models.
        opponent: Participant that takes the seats of its role that it can; empty: none.
    """
    if len(run.seats) > _MAX_SEATS:
        roles = dict.fromkeys(seat.role for seat in run.seats)
        return [SeatField(role, f"all other seats of role {role}", _default(run, role, opponent)) for role in roles]
    return [
        SeatField(
            str(number),
            f"seat {number}: {seat.role}, team {seat.team}",
            participants[number] if participants else _default(run, seat.role, opponent),
        )
        for number, seat in enumerate(run.seats)
    ]


def choose_seat(run: Run, *, opponent: str, match: MatchRecord | None) -> int:
    """Return the seat that a form offers to the person.

    Args:
        run: The run.
        opponent: Participant whose roles are left to it if there are others; empty: none.
        match: A match that is to be played again: the person takes a seat of a team that did best; None: none.
    """
    if match is not None:
        best = max(match.outcome)
        return next(number for number, seat in enumerate(run.seats) if match.outcome[seat.team] == best)
    model = run.models.get(opponent)
    view = None if model is None else run.league.players.get(model.player)
    return next((number for number, seat in enumerate(run.seats) if view and seat.role != view.role), 0)


def _default(run: Run, role: str, opponent: str) -> str:
    players = run.league.players
    model = run.models.get(opponent)
    if model is not None and model.player in players and players[model.player].role == role:
        return opponent
    newest = (view.models[-1] for view in players.values() if view.role == role and view.models)
    return next(newest, "")


def offered_names(run: Run) -> list[str]:
    """Return the participants that a form offers: anchors, levels in the run folder, and models, the newest first."""
    models = [name for name in reversed(list(run.models)) if name not in run.retired]
    return [*run.league.anchors, *_levels(run.folder), *models[:_MAX_MODELS]]


def _levels(folder: Path) -> list[str]:
    """Return the names of the levels in a run folder."""
    names = []
    for path in sorted(folder.glob(f"*/{LEVELS_FILE}")):
        with suppress(LudusError):
            names += [f"{path.parent.name}/{number + 1}" for number in range(len(read_levels(path.parent).levels))]
    return [name for name in names if _NAME.fullmatch(name)]


def parse_setup(run: Run, values: Mapping[str, str]) -> PlaySetup:
    """Return what the values of a posted form ask for.

    Raises:
        ConfigError: A value is wrong.
    """
    seat = values.get("seat", "")
    if not (seat.isascii() and seat.isdecimal() and len(seat) < 5 and int(seat) < len(run.seats)):
        raise ConfigError(f"seat: expected a number from 0 to {len(run.seats) - 1}, got {seat[:40]!r}")
    try:
        person = name_person(values.get("name", "").strip() or "guest")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return PlaySetup(
        folder=run.folder,
        person=person,
        seat=int(seat),
        others=tuple(_others(run, values, seat)),
        speed=_speed(values.get("speed", "1")),
        max_mb=run.config.replays.max_mb,
    )


def _others(run: Run, values: Mapping[str, str], own: str) -> list[str]:
    others, levels = [], _levels(run.folder)
    for place in (one.name for one in seat_fields(run, (), "")):
        name = values.get(f"at-{place}", "").strip()
        if not name or place == own:
            continue
        if _NAME.fullmatch(name) is None:
            raise ConfigError(f"seat {place}: expected the name of a participant, got {name[:40]!r}")
        if is_level(name) and name not in levels:  # other paths lead out of the run folder
            raise ConfigError(f"seat {place}: the run folder has no level {name[:40]!r}; it has {levels or 'none'}")
        others.append(f"{place}={name}")
    return others


def _speed(text: str) -> float:
    value: Any = math.nan
    with suppress(ValueError):
        value = float(text)
    if not _SPEEDS[0] <= value <= _SPEEDS[1]:
        raise ConfigError(f"speed: expected a number from {_SPEEDS[0]:g} to {_SPEEDS[1]:g}, got {text[:40]!r}")
    return float(value)
