"""Lineups: which participant plays at every seat of a match.

Participants are named in any order, each as ``NAME``, ``ROLE=NAME`` or ``SEAT=NAME``. A *place* is the seats of one
role in one team.

* A model takes a place of the role that it learned, and an agent that can play one role only a place of that role.
  Other anchors and installed agents take all places of one team. All prefer the first team without another named
  participant.
* ``ROLE=NAME`` takes a place of that role, and ``SEAT=NAME`` one seat, counted from 0 over all roles.
* Places that remain get the named participants of the same role in turn, but neither the first one nor in its teams.
  Others get the source's default: the newest model of the role, an anchor, or an installed agent.

Several participants that compete for the only place of a role are *contenders*: each gets a lineup with the same other
participants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle
from math import lcm
from typing import TYPE_CHECKING, Protocol, TypeAlias

from attrs import evolve, field, frozen

from ludus.errors import ConfigError

if TYPE_CHECKING:
    from ludus.agent import Agent
    from ludus.environment import Environment, EnvironmentSpec

__all__ = [
    "Lineup",
    "Participant",
    "Source",
    "make_agents",
    "make_lineup",
    "make_lineups",
    "parse_place",
    "split_place",
    "team_rotations",
]

_Place: TypeAlias = "tuple[int, str]"  # team, role


@frozen
class Participant:
    """A participant and the only role that it plays; an empty role stands for any."""

    name: str
    role: str = ""


class Source(Protocol):
    """Finds participants by name: an opened run, or a game without a run."""

    def participant(self, name: str, spec: EnvironmentSpec) -> Participant:
        """Return the participant of a name.

        Raises:
            ConfigError: There is no such participant, or it cannot play.
        """

    def default_participants(self, role: str, spec: EnvironmentSpec) -> Iterator[str]:
        """Yield the participants that can fill unnamed seats of a role, best choice first."""

    def agent(self, name: str, role: str, *, environment: Environment, deterministic: bool = False) -> Agent:
        """Make the agent of a participant for a role."""


@frozen(kw_only=True)
class Lineup:
    """The participants of one match.

    Attributes:
        spec: The environment's description.
        names: Participants: the named ones in the order in which they were named, then those that fill other places.
        seats: For every seat the position of its participant in `names`.
        filled: Seats that no name asked for.
        fixed: Whether a participant was named for a single seat, so that teams must not be rotated.
    """

    spec: EnvironmentSpec = field(repr=False)
    names: tuple[str, ...]
    seats: tuple[int, ...]
    filled: tuple[int, ...] = ()
    fixed: bool = False

    @property
    def participants(self) -> tuple[str, ...]:
        """Return the participant of every seat."""
        return tuple(self.names[index] for index in self.seats)

    def seats_of(self, index: int) -> list[int]:
        """Return the seats of the participant at a position of `names`."""
        return [seat for seat, holder in enumerate(self.seats) if holder == index]

    def teams_of(self, index: int) -> list[int]:
        """Return the teams of the participant at a position of `names`."""
        return sorted({self.spec.seats[seat].team for seat in self.seats_of(index)})

    def rotations(self) -> list[Lineup]:
        """Return this lineup once per rotation of its participants over the teams, this order first."""
        if self.fixed:
            return [self]
        places = {(seat.team, seat.role): index for seat, index in zip(self.spec.seats, self.seats, strict=True)}
        return [
            evolve(self, seats=tuple(places[teams[seat.team], seat.role] for seat in self.spec.seats))
            for teams in team_rotations(self.spec)
        ]

    def mates(self) -> list[str]:
        """Return the names of the other participants in the teams of the first one."""
        return self._others(self.teams_of(0), True)

    def opponents(self) -> list[str]:
        """Return the names of the participants in the teams without the first one."""
        return self._others(self.teams_of(0), False)

    def _others(self, teams: Sequence[int], inside: bool) -> list[str]:
        holders = zip(self.spec.seats, self.seats, strict=True)
        return list(dict.fromkeys(self.names[i] for seat, i in holders if i and (seat.team in teams) is inside))

    def describe(self) -> str:
        """Return the lineup as text, ``"A with B against C, D"``, from the view of the first participant."""
        words = [self.names[0]]
        for word, names in (("with", self.mates()), ("against", self.opponents())):
            words += [word, ", ".join(names)] if names else []
        return " ".join(words)

    def describe_filled(self) -> str:
        """Return which participants play the seats that were not named; empty if there are none."""
        by_role: dict[str, dict[str, None]] = {}
        for seat in self.filled:
            by_role.setdefault(self.spec.seats[seat].role, {})[self.names[self.seats[seat]]] = None
        texts = [f"{role} by {', '.join(names)}" for role, names in by_role.items()]
        return f"seats that were not named: {'; '.join(texts)}" if texts else ""


def make_agents(
    lineups: Sequence[Lineup],
    source: Source,
    environment: Environment,
    *,
    user: Agent | None = None,
    deterministic: bool = False,
) -> list[list[Agent]]:
    """Make the agents of all seats of lineups; a participant has one agent per role.

    Args:
        lineups: The lineups.
        source: Makes agents.
        environment: Environment in which they play.
        user: Agent of the first participant; None to make it too.
        deterministic: Models take their most likely actions instead of sampling.
    """
    made: dict[tuple[str, str], Agent] = {}

    def agent(name: str, role: str) -> Agent:
        if (name, role) not in made:
            made[name, role] = source.agent(name, role, environment=environment, deterministic=deterministic)
        return made[name, role]

    return [
        [
            agent(lineup.names[index], seat.role) if index or user is None else user
            for seat, index in zip(lineup.spec.seats, lineup.seats, strict=True)
        ]
        for lineup in lineups
    ]


def team_rotations(spec: EnvironmentSpec) -> list[tuple[int, ...]]:
    """Return for every rotation the team whose participants play at each team.

    Only teams with the same roles are exchanged: all teams in a game of one role, none where every team has a role of
    its own.
    """
    roles: dict[int, set[str]] = {}
    for seat in spec.seats:
        roles.setdefault(seat.team, set()).add(seat.role)
    classes = {team: [other for other in sorted(roles) if roles[other] == roles[team]] for team in roles}
    num_rotations = lcm(*map(len, classes.values()))
    return [
        tuple(classes[team][(classes[team].index(team) + shift) % len(classes[team])] for team in range(spec.num_teams))
        for shift in range(num_rotations)
    ]


def split_place(text: str) -> tuple[str, str]:
    """Return role or seat, and the name of a participant ``ROLE=NAME``; the name may have settings behind a comma."""
    head, comma, settings = text.partition(",")
    place, _, name = head.rpartition("=")
    return place, f"{name}{comma}{settings}"


def parse_place(spec: EnvironmentSpec, text: str) -> tuple[str, int | None]:
    """Return the role of a text, and the seat if the text is a seat's number.

    Raises:
        ConfigError: The environment has no such role and no such seat.
    """
    roles, seats = [role.name for role in spec.roles], spec.seats
    if text in roles:
        return text, None
    if text.isdecimal() and int(text) < len(seats):
        return seats[int(text)].role, int(text)
    raise ConfigError(
        f"{spec.name} has no role or seat {text!r}; its roles are {', '.join(roles)}, its seats 0 to {len(seats) - 1}"
    )


def make_lineup(spec: EnvironmentSpec, names: Sequence[str], source: Source, *, user_seat: int | None = None) -> Lineup:
    """Return the lineup of one match.

    Args:
        spec: The environment's description.
        names: Named participants, see the module.
        source: Finds participants.
        user_seat: Seat of the user, the first participant ``"you"``; None without one.

    Raises:
        ConfigError: A name is wrong, or there are more participants than places.
    """
    entries = _parse(spec, names, source)
    if user_seat is not None:
        entries.insert(0, _Entry("you", spec.seats[user_seat].role, user_seat))
    return _seat(spec, entries, source)


def make_lineups(spec: EnvironmentSpec, names: Sequence[str], source: Source) -> list[Lineup]:
    """Return the lineup of a match, or one lineup per contender, which is then the first of its names.

    Args:
        spec: The environment's description.
        names: Named participants, see the module.
        source: Finds participants.

    Raises:
        ConfigError: A name is wrong, or there are more participants than places.
    """
    entries = _parse(spec, names, source)
    contenders = _find_contenders(spec, entries)
    if not contenders:
        return [_seat(spec, entries, source)]
    others = [entry for entry in entries if entry not in contenders]
    return [_seat(spec, [contender, *others], source) for contender in contenders]


@frozen(eq=False)
class _Entry:
    """A named participant, and the role or seat that it must take."""

    name: str
    role: str  # empty: any
    seat: int | None


def _parse(spec: EnvironmentSpec, names: Sequence[str], source: Source) -> list[_Entry]:
    return [_parse_name(spec, name, source) for name in names]


def _parse_name(spec: EnvironmentSpec, text: str, source: Source) -> _Entry:
    place, name = split_place(text)
    role, seat = parse_place(spec, place) if place else ("", None)
    own = source.participant(name, spec).role
    if own and role not in ("", own):
        raise ConfigError(f"{text}: {name} plays the role {own}, so it cannot play {role}")
    return _Entry(name, role or own, seat)


def _find_contenders(spec: EnvironmentSpec, entries: Sequence[_Entry]) -> list[_Entry]:
    """Return the participants that compete for the only place of a role; empty if there is a place for each."""
    places = dict.fromkeys((seat.team, seat.role) for seat in spec.seats)
    for role, count in Counter(role for _, role in places).items():
        roles = {role, ""} if len(places) == 1 else {role}
        contenders = [entry for entry in entries if entry.role in roles and entry.seat is None]
        if count == 1 < len(contenders):
            return contenders
    return []


def _num_choices(spec: EnvironmentSpec, entry: _Entry) -> int:
    """Return the number of teams that a participant can take; 0 for one seat. Those with few are seated first."""
    if entry.seat is not None:
        return 0
    return len(set(spec.role(entry.role).teams)) if entry.role else spec.num_teams


def _seat(spec: EnvironmentSpec, entries: Sequence[_Entry], source: Source) -> Lineup:
    """Seat named participants, and fill the places that remain."""
    taken: dict[int, int] = {}  # by seat: position of its participant
    for index in sorted(range(len(entries)), key=lambda i: _num_choices(spec, entries[i])):
        for seat in _choose_seats(spec, entries, index, taken):
            taken[seat] = index
    names = [entry.name for entry in entries]
    filled = [seat for seat in range(len(spec.seats)) if seat not in taken]
    taken |= _fill(spec, names, taken, source)
    return Lineup(
        spec=spec,
        names=tuple(names),
        seats=tuple(taken[seat] for seat in range(len(spec.seats))),
        filled=tuple(filled),
        fixed=any(entry.seat is not None for entry in entries),
    )


def _free_places(spec: EnvironmentSpec, taken: dict[int, int]) -> dict[_Place, list[int]]:
    """Return the seats that are not taken by their places, teams without a participant first."""
    free: dict[_Place, list[int]] = {}
    for number, seat in enumerate(spec.seats):
        if number not in taken:
            free.setdefault((seat.team, seat.role), []).append(number)
    busy = {spec.seats[seat].team for seat in taken}
    return dict(sorted(free.items(), key=lambda item: (item[0][0] in busy, item[0][0])))


def _choose_seats(spec: EnvironmentSpec, entries: Sequence[_Entry], index: int, taken: dict[int, int]) -> Sequence[int]:
    """Return the seats that a named participant takes.

    Raises:
        ConfigError: There is no free seat for it.
    """
    entry = entries[index]
    if entry.seat is not None:
        if entry.seat in taken:
            raise ConfigError(f"seat {entry.seat} is named for {entries[taken[entry.seat]].name} and {entry.name}")
        return [entry.seat]
    places = {place: seats for place, seats in _free_places(spec, taken).items() if entry.role in ("", place[1])}
    if not places:
        raise ConfigError(_no_free_seat(spec, entry, [other.name for other in entries]))
    team, role = next(iter(places))
    if entry.role:
        return places[team, role]
    return [seat for place, seats in places.items() if place[0] == team for seat in seats]


def _no_free_seat(spec: EnvironmentSpec, entry: _Entry, names: Sequence[str]) -> str:
    role, roles = f" of role {entry.role}" if entry.role else "", ", ".join(role.name for role in spec.roles)
    return (
        f"{entry.name}: no free seat{role}; {spec.name} has {spec.num_teams} teams with the roles {roles}, and the "
        f"participants are {', '.join(names)}"
    )


def _fill(spec: EnvironmentSpec, names: list[str], taken: dict[int, int], source: Source) -> dict[int, int]:
    """Return the participants of the seats that are not taken, and append new ones to `names`."""
    alone = names[:1] if len(names) == 1 else []
    first_teams = {spec.seats[seat].team for seat, index in taken.items() if index == 0}
    named = _others_by_role(spec, taken)
    turns = {role: cycle(indices) for role, indices in named.items()}
    defaults: dict[str, int] = {}
    chosen: dict[int, int] = {}
    for (team, role), seats in sorted(_free_places(spec, taken).items()):
        if named[role] and team not in first_teams:
            index = next(turns[role])
        else:
            if role not in defaults:
                defaults[role] = _add_default(spec, role, names, alone, source)
            index = defaults[role]
        chosen |= dict.fromkeys(seats, index)
    return chosen


def _others_by_role(spec: EnvironmentSpec, taken: dict[int, int]) -> dict[str, list[int]]:
    """Return the participants that hold seats of each role, without the first one."""
    others: dict[str, set[int]] = {role.name: set() for role in spec.roles}
    for seat, index in taken.items():
        if index:
            others[spec.seats[seat].role].add(index)
    return {role: sorted(indices) for role, indices in others.items()}


def _add_default(spec: EnvironmentSpec, role: str, names: list[str], alone: Sequence[str], source: Source) -> int:
    """Append the default participant of a role to the names and return its position.

    Args:
        spec: The environment's description.
        role: The role.
        names: Participants so far.
        alone: The only named participant, which is not chosen if there is another one.
        source: Finds participants.

    Raises:
        ConfigError: There is none.
    """
    own = {source.participant(name, spec).name for name in alone if name != "you"}
    candidates = source.default_participants(role, spec)
    first = next(candidates, None)
    name = next(candidates, first) if first in own else first
    if name is None:
        raise ConfigError(
            f"role {role} of {spec.name}: name a participant, {role}=NAME; there is no model, anchor or installed "
            "agent to fill its seats"
        )
    names.append(name)
    return len(names) - 1
