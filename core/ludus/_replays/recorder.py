"""The replay recorder: keeps the decisions of a match engine until its matches end, and returns their replays.

The cost per tick is that of a copy of all actions. Everything else is done for many matches at once, when the buffer is
full.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from attrs import define, field

from ludus._replays.block import BlockIndex, ReplayBlock, count_hashes
from ludus._replays.state_hash import HASH_INTERVAL, StateHash, StateLeaves
from ludus._replays.stream_recorder import StreamRecorder
from ludus._replays.streams import BlockStreams
from ludus.environment import EnvironmentSpec, Role, Tick
from ludus.random import random_bits, random_floats
from ludus.records import Fixture
from ludus.spaces import action_dtype, action_width, is_continuous, is_hybrid, label_sizes

#: Largest size of the buffer. Matches that are longer than what it holds are not recorded.
MAX_BUFFER_BYTES = 64 * 2**20

_MOST_FIRST_ROWS, _LEAST_FIRST_ROWS = 256, 4 * HASH_INTERVAL
_MAX_AGE_S = 5.0  # of ended matches that are not written
_IDLE = 2**62  # start of a match index without a match
_DROPPED = -1  # start of a match that has become too long
_RESULTS = ("fixture", "number", "ticks", "outcome", "returns")


class _RoleBuffer:
    """The decisions of one role: ``actions [rows, B, S, L]`` and ``acting [rows, B, S] bool``."""

    def __init__(self, role: Role, num_matches: int, rows: int) -> None:
        self.name = role.name
        width = action_width(role.action_space)
        self.actions = np.zeros((rows, num_matches, role.num_seats, width), _smallest_dtype(role))
        self.acting = np.zeros((rows, num_matches, role.num_seats), bool)

    @property
    def nbytes(self) -> int:
        """Return the size of the arrays."""
        return self.actions.nbytes + self.acting.nbytes

    def grow(self) -> None:
        """Double the number of rows."""
        self.actions = np.concatenate([self.actions, np.zeros_like(self.actions)])
        self.acting = np.concatenate([self.acting, np.zeros_like(self.acting)])

    def shift(self, rows: int, stop: int) -> None:
        """Move the rows from `rows` to `stop` to the start."""
        for array in (self.actions, self.acting):
            array[: stop - rows] = array[rows:stop]


def _smallest_dtype(role: Role) -> np.dtype[np.generic]:
    """Return a dtype that holds all actions of a role exactly."""
    space = role.action_space
    if is_continuous(space) or is_hybrid(space):
        return np.dtype(action_dtype(space))
    return np.min_scalar_type(max(label_sizes(space)) - 1)


class _EndedMatches(NamedTuple):  # made on most ticks: an attrs class takes longer
    """Matches that ended on one tick: match indices, first rows in the buffer, results, and final observations."""

    indices: np.ndarray
    starts: np.ndarray
    results: Mapping[str, np.ndarray]
    final: Sequence[np.ndarray]


class _Decisions(NamedTuple):
    """The numbers of decisions ``[n, roles] int32`` of n matches; by role, actions, and ``[d, 2]`` ticks and seats."""

    counts: np.ndarray
    actions: Mapping[str, np.ndarray]
    acted: Mapping[str, np.ndarray]


@define(eq=False)
class ReplayRecorder:
    """Records the matches of one environment.

    Args:
        spec: Specification of the environment.
        num_matches: B.
        write: Receives blocks of replays.
        share: Share of the matches that is recorded, chosen by fixture and number.
        streams: Records the frames of matches that cannot be played again; None if they can.
    """

    spec: EnvironmentSpec
    num_matches: int
    write: Callable[[ReplayBlock], None]
    share: float = field(default=1.0, kw_only=True)
    streams: StreamRecorder | None = field(default=None, kw_only=True)
    _roles: list[_RoleBuffer] = field(init=False)
    _hashes: np.ndarray = field(init=False)  # [rows / HASH_INTERVAL, B] uint32
    _hash: StateHash = field(init=False, factory=StateHash)
    _leaves: StateLeaves = field(init=False)
    _row: int = field(init=False, default=0)  # of the next tick
    _num_rows: int = field(init=False)
    _starts: np.ndarray = field(init=False)  # [B] row of the first tick
    _ended: list[_EndedMatches] = field(init=False, factory=list)
    _ended_s: float = field(init=False, default=math.inf)  # when `poll` first found ended matches
    _fixtures: dict[int, Fixture] = field(init=False, factory=dict)
    _matches_left: dict[int, int] = field(init=False, factory=dict)  # by fixture

    def __attrs_post_init__(self) -> None:
        roles = sorted(self.spec.roles, key=lambda role: role.name)
        row_bytes = sum(_RoleBuffer(role, self.num_matches, 1).nbytes for role in roles)
        self._num_rows = _MOST_FIRST_ROWS
        while self._num_rows > _LEAST_FIRST_ROWS and self._num_rows * row_bytes > MAX_BUFFER_BYTES:
            self._num_rows //= 2
        self._roles = [_RoleBuffer(role, self.num_matches, self._num_rows) for role in roles]
        self._leaves = StateLeaves(self.spec)
        self._hashes = np.zeros((self._num_rows // HASH_INTERVAL, self.num_matches), np.uint32)
        self._starts = np.full(self.num_matches, _IDLE, np.int64)

    # -- called by the match engine ------------------------------------------------------------------------------------

    def add_fixture(self, fixture: Fixture) -> None:
        """Add a fixture that is about to start; its scenario names the built-in bots."""
        self._fixtures[fixture.id], self._matches_left[fixture.id] = fixture, fixture.matches

    def start_matches(self, indices: np.ndarray) -> None:
        """Start matches at these match indices."""
        self._starts[indices] = self._row
        if self.streams is not None:
            self.streams.start_matches(indices)

    def add_tick(self, tick: Tick, actions: Mapping[str, np.ndarray]) -> None:
        """Add the decisions on a tick, before the environment is stepped.

        Args:
            tick: The tick.
            actions: By role ``[B, S, L]``.
        """
        if self._row == self._num_rows:
            self._make_room()
        row = self._row
        for role in self._roles:
            role.actions[row] = actions[role.name]
            role.acting[row] = tick.roles[role.name].acting
        if row % HASH_INTERVAL == 0:
            self._hashes[row // HASH_INTERVAL] = self._hash(self._leaves(tick))
        self._row += 1
        if self.streams is not None:
            self.streams.add_tick(tick)

    def end_matches(self, indices: np.ndarray, tick: Tick, results: Mapping[str, np.ndarray]) -> None:
        """End matches.

        Args:
            indices: Their match indices.
            tick: The tick that ended them.
            results: Their results, see `MatchEngine.on_results`.
        """
        final = [leaf.take(indices, axis=0) for leaf in self._leaves(tick)]
        if self.streams is not None:
            results = {**results, "frames": np.array(self.streams.end_matches(indices, tick), object)}
        self._ended.append(_EndedMatches(indices, self._starts.take(indices), results, final))
        self._starts[indices] = _IDLE
        if self.streams is not None:
            self.flush()

    # -- writing -------------------------------------------------------------------------------------------------------

    def poll(self, now: float) -> None:
        """Write ended matches some seconds after they ended, also if few end.

        Args:
            now: Present time in seconds.
        """
        if self._ended and now - self._ended_s > _MAX_AGE_S:
            self.flush()
        elif self._ended and self._ended_s == math.inf:
            self._ended_s = now

    def discard(self) -> None:
        """Drop the ended matches that are not written."""
        self._ended, self._ended_s = [], math.inf

    def flush(self) -> None:
        """Write the ended matches."""
        ended = self._ended
        self.discard()
        if not ended:
            return
        names = _RESULTS if self.streams is None else (*_RESULTS, "frames")
        arrays = {name: np.concatenate([part.results[name] for part in ended]) for name in names}
        arrays["start"] = np.concatenate([part.starts for part in ended])
        arrays["column"] = np.concatenate([part.indices for part in ended])
        final = [np.concatenate(leaves) for leaves in zip(*(part.final for part in ended), strict=True)]
        self._write_chosen(arrays, final)
        self._forget_fixtures(Counter(arrays["fixture"].tolist()))

    def _write_chosen(self, arrays: Mapping[str, np.ndarray], final: Sequence[np.ndarray]) -> None:
        chosen = self._choose(arrays)
        if chosen.all() and self.streams is None:
            self.write(self._make_block(arrays, final))
            return
        indices = chosen.nonzero()[0]
        for own in [indices] if self.streams is None else indices[:, None]:  # a stream is large enough for a block
            if own.size:
                parts = {name: array.take(own, axis=0) for name, array in arrays.items()}
                self.write(self._make_block(parts, [leaf.take(own, axis=0) for leaf in final]))

    def _forget_fixtures(self, ended: Mapping[int, int]) -> None:
        """Remove the fixtures of which all matches have ended; `ended` counts ended matches by fixture."""
        for name, count in ended.items():
            self._matches_left[name] -= count
            if self._matches_left[name] <= 0:
                del self._matches_left[name], self._fixtures[name]

    def _choose(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return ``[n] bool``: matches that are written."""
        kept: np.ndarray = arrays["start"] != _DROPPED
        if self.share < 1:
            kept &= random_floats(random_bits(arrays["fixture"].astype(np.uint64), arrays["number"])) < self.share
        return kept

    def _make_block(self, arrays: Mapping[str, np.ndarray], final: Sequence[np.ndarray]) -> ReplayBlock:
        """Return the replays of n matches.

        Args:
            arrays: Their results ``[n, …]``, and the first row (``"start"``), match index (``"column"``) and compressed
                frames of each.
            final: Final observations ``[n, S, …]`` by leaf.
        """
        starts, ticks, columns = arrays["start"], arrays["ticks"], arrays["column"]
        decisions = self._gather_decisions(starts, ticks, columns)
        streams = None
        if self.streams is not None:
            streams = BlockStreams.of(self.spec, arrays["frames"].tolist(), decisions.acted)
        first_hash = (-starts % HASH_INTERVAL).astype(np.uint8)
        return ReplayBlock(
            index=BlockIndex(**{name: arrays[name] for name in ("fixture", "number", "ticks", "outcome")}),
            environment=self.spec.name,
            hash_interval=HASH_INTERVAL,
            fixtures={name: self._fixtures[name] for name in set(arrays["fixture"].tolist())},
            first_hash=first_hash,
            hashes=self._gather_hashes(starts, ticks, columns, first_hash),
            final_hash=self._hash([*final, arrays["returns"]]),
            decisions=decisions.counts,
            actions=decisions.actions,
            streams=streams,
        )

    def _gather_decisions(self, starts: np.ndarray, ticks: np.ndarray, columns: np.ndarray) -> _Decisions:
        """Return the decisions of matches; those of streams with ticks and seats."""
        places = _ranges(starts * self.num_matches + columns, ticks, self.num_matches)  # row · B + match index
        first_ticks = np.cumsum(ticks) - ticks
        counts, actions, acted = [], {}, {}
        for role in self._roles:
            seats = role.acting.shape[2]
            acting = role.acting.reshape(-1, seats).take(places, axis=0).ravel()
            counts.append(np.add.reduceat(acting.view(np.uint8), first_ticks * seats, dtype=np.int32))
            chosen = acting.nonzero()[0]
            if self.streams is not None:
                rows = chosen // seats - np.repeat(first_ticks, counts[-1])
                acted[role.name] = np.stack([rows, chosen % seats], axis=1).astype(np.int32)
            seat_places = places.take(chosen // seats) * seats + chosen % seats
            actions[role.name] = role.actions.reshape(-1, role.actions.shape[3]).take(seat_places, axis=0)
        return _Decisions(np.stack(counts, axis=1), actions, acted)

    def _gather_hashes(
        self, starts: np.ndarray, ticks: np.ndarray, columns: np.ndarray, first_hash: np.ndarray
    ) -> np.ndarray:
        counts = count_hashes(ticks, first_hash, HASH_INTERVAL)
        first_rows = (starts + first_hash) // HASH_INTERVAL
        return self._hashes.ravel().take(_ranges(first_rows * self.num_matches + columns, counts, self.num_matches))

    def _make_room(self) -> None:
        """Write the ended matches, and add rows if running matches need most of them; else free the first ones."""
        self.flush()
        if self._first_row() <= self._num_rows // 2 and self._grow():
            return
        self._starts[self._starts < self._num_rows // 4] = _DROPPED  # only where the buffer cannot grow
        self._shift(self._first_row())

    def _first_row(self) -> int:
        """Return the first row that running matches need, rounded down to a row with a hash."""
        recorded = self._starts[self._starts != _DROPPED]
        return int(min(recorded.min(initial=_IDLE), self._row)) // HASH_INTERVAL * HASH_INTERVAL

    def _grow(self) -> bool:
        """Double the buffer and return True, unless it would become too large."""
        if 2 * sum(role.nbytes for role in self._roles) > MAX_BUFFER_BYTES:
            return False
        for role in self._roles:
            role.grow()
        self._hashes = np.concatenate([self._hashes, np.zeros_like(self._hashes)])
        self._num_rows *= 2
        return True

    def _shift(self, rows: int) -> None:
        for role in self._roles:
            role.shift(rows, self._row)
        skipped = rows // HASH_INTERVAL
        self._hashes[:-skipped] = self._hashes[skipped:]
        self._starts[(self._starts != _IDLE) & (self._starts != _DROPPED)] -= rows
        self._row -= rows


def _ranges(starts: np.ndarray, counts: np.ndarray, step: int) -> np.ndarray:
    """Return ``start, start + step, …`` with the number of `counts` entries for each of `starts`, concatenated."""
    steps = np.full(int(counts.sum()), step)
    counted = counts > 0
    firsts = (np.cumsum(counts) - counts)[counted]
    starts, counts = starts[counted], counts[counted]
    steps[firsts] = np.diff(starts, prepend=0) - step * np.append(0, counts[:-1] - 1)
    ranges: np.ndarray = np.cumsum(steps)
    return ranges
