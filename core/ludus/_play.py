"""Playing matches: one environment batch, participants in its seats, results out, decisions recorded.

`Play` is the engine that samplers, evaluators, ``ludus eval`` and tests share. It knows nothing of processes: fixtures
are put in, finished matches and segments are taken out.

Rows of the batch are divided into *tables* of consecutive rows. A table plays one fixture at a time, so the rows of
one opponent lie side by side; each row takes the next match of its table's fixture as soon as its last one ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from attrs import define, field

from ludus._messages import Fixture
from ludus._seeding import match_seeds
from ludus.environment import Environment, RoleTick, Tick
from ludus.errors import ContractError, LudusError
from ludus.spaces import action_width, is_continuous, label_sizes

__all__ = ["Actor", "Play", "Reward", "Seats"]


@define
class Seats:
    """The seats of one role that one actor decides for on this tick.

    Attributes:
        tick: The role's tick (the environment's own arrays).
        rows: ``[n]`` match rows.
        seats: ``[n]`` seat numbers within the role.
        streams: ``[n]`` identity of (row, seat) over all roles.
    """

    tick: RoleTick
    rows: np.ndarray
    seats: np.ndarray
    streams: np.ndarray

    def take(self, array: np.ndarray) -> np.ndarray:
        """Return ``[n, …]``: the entries of these seats from an array ``[B, S, …]``."""
        return np.asarray(array[self.rows, self.seats])

    def part(self, chosen: np.ndarray) -> Seats:
        """Return some of the seats."""
        return Seats(self.tick, self.rows[chosen], self.seats[chosen], self.streams[chosen])


@define
class Reward:
    """What n seats received since their last decisions: ``reward [n] float32`` and ``elapsed_ticks [n] int32``."""

    reward: np.ndarray
    elapsed_ticks: np.ndarray


class Actor(Protocol):
    """A participant that sits in seats of running matches."""

    def start(self, streams: np.ndarray) -> None:
        """Hear that new matches start in these seats."""

    def act(self, seats: Seats, since: Reward) -> np.ndarray:
        """Decide; returns raw actions ``[n, L]``."""

    def end(self, seats: Seats, since: Reward, *, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Hear that the matches of these seats ended."""


@define
class _Table:
    """A slice of rows and the fixture they are playing."""

    rows: range
    fixture: Fixture | None = None
    next_number: int = 0

    @property
    def has_match(self) -> bool:
        return self.fixture is not None and self.next_number < self.fixture.matches


@define
class Play:
    """Matches being played.

    Args:
        environment: The batch; `Play` is its only user.
        resolve: Fixture and seat number → actor, called when a row starts the fixture.
        rows_per_fixture: Rows of one table.
        on_results: Called with arrays ``fixture, number, ticks, outcome`` of matches that ended and, for whoever
            measures, ``returns [n, seats] float32``, the sum of each seat's rewards.
    """

    environment: Environment
    resolve: Callable[[Fixture, int], Actor]
    on_results: Callable[[dict[str, np.ndarray]], None]
    rows_per_fixture: int = 32
    ticks: int = field(init=False, default=0)
    decisions: int = field(init=False, default=0)
    _fixtures: deque[Fixture] = field(init=False, factory=deque)
    _tables: list[_Table] = field(init=False)
    _actors: list[Actor] = field(init=False, factory=list)
    _tick: Tick | None = field(init=False, default=None)
    _table_of: np.ndarray = field(init=False)  # [B]
    _columns: dict[str, np.ndarray] = field(init=False)  # role → its seats among all seats
    _occupant: np.ndarray = field(init=False)  # [B, seats] index into _actors
    _fixture_id: np.ndarray = field(init=False)  # [B]
    _number: np.ndarray = field(init=False)  # [B] which match of the fixture
    _match_ticks: np.ndarray = field(init=False)  # [B]
    _idle: np.ndarray = field(init=False)  # [B]
    _reward: np.ndarray = field(init=False)  # [B, seats] since the seat's last decision
    _elapsed: np.ndarray = field(init=False)  # [B, seats] ticks since the seat's last decision
    _returns: np.ndarray = field(init=False)  # [B, seats] since the start of the match
    _labels: dict[str, np.ndarray] = field(init=False)  # role → where each label's mask starts
    _actions: dict[str, np.ndarray] = field(init=False)

    def __attrs_post_init__(self) -> None:
        spec, rows = self.environment.spec, self.environment.num_matches
        step = min(self.rows_per_fixture, rows)
        self._tables = [_Table(range(start, min(start + step, rows))) for start in range(0, rows, step)]
        self._table_of = np.repeat(np.arange(len(self._tables)), [len(t.rows) for t in self._tables])
        seats = spec.seats
        self._columns = {
            role.name: np.array([i for i, s in enumerate(seats) if s.role == role.name]) for role in spec.roles
        }
        self._occupant = np.full((rows, len(seats)), -1, np.int64)
        self._fixture_id = np.zeros(rows, np.int64)
        self._number = np.zeros(rows, np.int64)
        self._match_ticks = np.zeros(rows, np.int32)
        self._idle = np.ones(rows, bool)
        self._reward = np.zeros((rows, len(seats)), np.float32)
        self._elapsed = np.zeros((rows, len(seats)), np.int32)
        self._returns = np.zeros((rows, len(seats)), np.float32)
        self._labels = {r.name: np.cumsum([0, *label_sizes(r.action_space)]) for r in spec.roles}
        self._actions = {
            r.name: np.zeros(
                (rows, r.seats, action_width(r.action_space)), np.float32 if is_continuous(r.action_space) else np.int64
            )
            for r in spec.roles
        }

    # -- fixtures ----------------------------------------------------------------------------------------------

    def add(self, fixture: Fixture) -> None:
        """Queue a fixture."""
        self._fixtures.append(fixture)

    @property
    def wanted(self) -> int:
        """Return how many more fixtures should be queued so that no row waits."""
        low = sum(1 for t in self._tables if t.fixture is None or t.fixture.matches - t.next_number <= len(t.rows))
        return max(0, low + 1 - len(self._fixtures))

    @property
    def running(self) -> int:
        """Return how many matches are being played."""
        return int((~self._idle).sum())

    def _next_match(self, table: _Table) -> bool:
        if not table.has_match:
            if not self._fixtures:
                return False
            table.fixture, table.next_number = self._fixtures.popleft(), 0
        return True

    def _start(self, rows: np.ndarray) -> None:
        """Start the next matches in those of the given rows for which there are any."""
        started: list[int] = []
        scenarios = []
        seeds: list[int] = []
        for row in rows:
            table = self._tables[self._table_of[row]]
            if not self._next_match(table):
                continue
            fixture = table.fixture
            assert fixture is not None
            if self._fixture_id[row] != fixture.id:
                for seat in range(len(fixture.seats)):
                    self._occupant[row, seat] = self._actor(fixture, seat)
            self._fixture_id[row], self._number[row] = fixture.id, table.next_number
            table.next_number += 1
            started.append(int(row))
            scenarios.append(fixture.scenario)
            seeds.append(fixture.seed)
        if not started:
            return
        chosen = np.array(started)
        self._idle[chosen] = False
        self._match_ticks[chosen] = 0
        self._reward[chosen], self._elapsed[chosen], self._returns[chosen] = 0, 0, 0
        self._announce(chosen)
        plain = all(s.name == "default" for s in scenarios)
        with self._blamed("reset"):
            self._tick = self.environment.reset(
                _seeds(seeds, self._number[chosen]), rows=chosen, scenarios=None if plain else scenarios
            )

    def _actor(self, fixture: Fixture, seat: int) -> int:
        actor = self.resolve(fixture, seat)
        for index, known in enumerate(self._actors):
            if known is actor:
                return index
        used = set(np.unique(self._occupant))
        for index in range(len(self._actors)):
            if index not in used:  # nobody sits there any more: reuse the place, so the list stays short
                self._actors[index] = actor
                return index
        self._actors.append(actor)
        return len(self._actors) - 1

    def _announce(self, rows: np.ndarray) -> None:
        occupant = self._occupant[rows]
        streams = rows[:, None] * occupant.shape[1] + np.arange(occupant.shape[1])
        for index in np.unique(occupant):
            self._actors[index].start(streams[occupant == index])

    # -- one tick ----------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Play one tick of all running matches.

        Returns:
            Whether anything was played; False when no row has a match.

        Raises:
            ContractError: The environment raised, left an acting seat no legal action, or gave a reward that is not
                finite.
        """
        if self._idle.any() and (self._fixtures or any(t.has_match for t in self._tables)):
            self._start(np.flatnonzero(self._idle))
        if self._tick is None or self._idle.all():
            return False
        for role in self.environment.spec.roles:
            self._decide(role.name, self._tick.roles[role.name])
        with self._blamed("step"):
            self._tick = tick = self.environment.step(self._actions)
        self._match_ticks += 1
        self.ticks += self.running
        self._collect(tick)
        ended = (tick.terminated | tick.truncated) & ~self._idle
        if ended.any():
            self._finish(np.flatnonzero(ended), tick)
        return True

    def _decide(self, role: str, tick: RoleTick) -> None:
        columns = self._columns[role]
        acting = tick.acting
        if tick.action_mask is not None:
            self._check_masks(role, tick)
        occupant = np.where(acting, self._occupant[:, columns], -1)
        for index, actor in enumerate(self._actors):
            rows, seats = np.nonzero(occupant == index)
            if rows.size:
                chosen = self._seats(tick, rows, seats, columns)
                flat = columns[seats]
                since = Reward(self._reward[rows, flat], self._elapsed[rows, flat])
                self._actions[role][rows, seats] = actor.act(chosen, since)
                self._reward[rows, flat], self._elapsed[rows, flat] = 0, 0
                self.decisions += rows.size

    def _seats(self, tick: RoleTick, rows: np.ndarray, seats: np.ndarray, columns: np.ndarray) -> Seats:
        return Seats(tick, rows, seats, rows * self._occupant.shape[1] + columns[seats])

    def _collect(self, tick: Tick) -> None:
        self._elapsed += 1
        for role in self.environment.spec.roles:
            reward = tick.roles[role.name].reward
            if not np.isfinite(reward).all():
                row, seat = np.argwhere(~np.isfinite(reward))[0]
                raise ContractError(
                    f"environment {self.environment.spec.name!r} gave role {role.name!r} seat {seat} the reward "
                    f"{reward[row, seat]} in match row {row} after {self._match_ticks[row]} ticks; expected a finite "
                    f"number — run `ludus check` on it"
                )
            columns = self._columns[role.name]
            self._reward[:, columns] += reward
            self._returns[:, columns] += reward

    def _check_masks(self, role: str, tick: RoleTick) -> None:
        mask, bounds = tick.action_mask, self._labels[role]
        assert mask is not None
        for label in range(len(bounds) - 1):
            legal = mask[..., bounds[label] : bounds[label + 1]].any(axis=-1)
            if (tick.acting & ~legal).any():
                row, seat = np.argwhere(tick.acting & ~legal)[0]
                raise ContractError(
                    f"environment {self.environment.spec.name!r} leaves role {role!r} seat {seat} no legal action of "
                    f"label {label} in match row {row} after {self._match_ticks[row]} ticks; expected at least one, or "
                    f"the seat not to act — run `ludus check` on it"
                )

    def _finish(self, rows: np.ndarray, tick: Tick) -> None:
        for name, columns in self._columns.items():
            occupant = self._occupant[np.ix_(rows, columns)]
            for index in np.unique(occupant):
                at, seats = np.nonzero(occupant == index)
                chosen = self._seats(tick.roles[name], rows[at], seats, columns)
                flat = columns[seats]
                since = Reward(self._reward[rows[at], flat], self._elapsed[rows[at], flat])
                self._actors[index].end(
                    chosen, since, terminated=tick.terminated[rows[at]], truncated=tick.truncated[rows[at]]
                )
        self.on_results(
            {
                "fixture": self._fixture_id[rows],
                "number": self._number[rows],
                "ticks": self._match_ticks[rows],
                "outcome": tick.outcome[rows].astype(np.float32),
                "returns": self._returns[rows],
            }
        )
        self._idle[rows] = True
        self._start(rows)

    @contextmanager
    def _blamed(self, call: str) -> Iterator[None]:
        try:
            yield
        except LudusError:
            raise
        except Exception as error:
            raise ContractError(
                f"environment {self.environment.spec.name!r} raised {type(error).__name__} in {call} after "
                f"{self.ticks} ticks: {error} — run `ludus check` on it"
            ) from error

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()


def _seeds(fixture_seeds: list[int], numbers: np.ndarray) -> np.ndarray:
    """Return the match seeds ``[n] uint64`` of matches from several fixtures."""
    seeds = np.empty(numbers.size, np.uint64)
    bases = np.array(fixture_seeds, np.int64)
    for base in np.unique(bases):
        chosen = bases == base
        seeds[chosen] = match_seeds(int(base), numbers[chosen])
    return seeds
