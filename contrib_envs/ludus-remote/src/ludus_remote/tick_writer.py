"""Writes what games report into the arrays of a tick, and checks actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from ludus.environment import RoleTick, Tick
from ludus.errors import ContractError

from ludus_remote.matches import MatchUpdate, SeatUpdate
from ludus_remote.schema import LATE, GameSchema


class TickWriter:
    """Writes updates of matches.

    Args:
        schema: Schema of the game.
        tick: The arrays.
        count_late: Whether the tick has the statistic `LATE`, and arrays `dropped`, which are allocated here.

    Attributes:
        observed_ticks: ``[B, seats] int64``, the tick of the observation that each acting seat decides on.
    """

    def __init__(self, schema: GameSchema, tick: Tick, *, count_late: bool) -> None:
        self._schema = schema
        self._tick = tick
        self._count_late = count_late
        for role in tick.roles.values() if count_late else ():
            role.dropped = np.zeros_like(role.acting)
        num_matches = tick.terminated.size
        self._game_ticks = np.zeros(num_matches, np.int64)
        self._late = np.zeros((num_matches, len(schema.seats)), np.int64)
        self.observed_ticks = np.full(self._late.shape, -1, np.int64)
        self._decided = self.observed_ticks.copy()  # tick of the observation of the last decision

    def clear(self, index: int) -> None:
        """Set all arrays of a match to 0."""
        for array in self._arrays(self._tick):
            array[index] = 0
        self._game_ticks[index] = self._late[index] = 0
        self.observed_ticks[index] = self._decided[index] = -1

    def start_step(self) -> None:
        """Set what belongs to one tick only to 0, in all matches."""
        self._tick.clear(slice(None))
        acting = np.concatenate([role.acting for role in self._tick.roles.values()], axis=1)
        np.copyto(self._decided, self.observed_ticks, where=acting)
        for role in self._tick.roles.values():
            if role.dropped is not None:
                role.dropped[role.acting] = False  # it was read
            role.acting[:] = False

    def observe(self, index: int, update: MatchUpdate) -> int:
        """Write the entries of seats; return the number of game ticks since the last update."""
        for seat, seat_update in update.seats:
            role, position = self._schema.seats[seat]
            self._write_seat(self._tick.roles[role.name], (index, position), seat_update)
            self._note_dropped(index, seat, seat_update)
            if seat_update.acts:
                self.observed_ticks[index, seat] = update.tick
        elapsed = update.tick - int(self._game_ticks[index])
        self._game_ticks[index] = update.tick
        return elapsed

    def _note_dropped(self, index: int, seat: int, update: SeatUpdate) -> None:
        self._late[index, seat] += len(update.dropped)
        role, position = self._schema.seats[seat]
        dropped = self._tick.roles[role.name].dropped
        if dropped is not None:
            dropped[index, position] |= self._decided[index, seat] in update.dropped

    def end(self, index: int, update: MatchUpdate) -> None:
        """Write the end of a match."""
        tick = self._tick
        tick.terminated[index] = update.ending == "terminated"
        tick.truncated[index] = update.ending == "truncated"
        tick.outcome[index] = update.outcome
        for role in tick.roles.values():
            role.acting[index] = False
        for seat, (role_schema, position) in enumerate(self._schema.seats):
            statistics = tick.roles[role_schema.name].statistics
            for name in role_schema.statistics:
                given = update.statistics[seat] if update.statistics else {}
                statistics[name][index, position] = given.get(name, 0.0)
            if self._count_late:
                statistics[LATE][index, position] = self._late[index, seat]

    def void(self, index: int) -> None:
        """Write that a match is void: no rewards, and no seat acts or has ended."""
        self._tick.clear(np.array([index]))
        for role in self._tick.roles.values():
            role.acting[index] = False

    @staticmethod
    def _write_seat(tick: RoleTick, at: tuple[int, int], update: SeatUpdate) -> None:
        tick.reward[at] += update.reward
        for name, value in update.parts.items():
            tick.reward_parts[name][at] += value
        if update.ending and tick.terminated is not None and tick.truncated is not None:
            tick.terminated[at] = update.ending == "terminated"
            tick.truncated[at] = update.ending == "truncated"
            tick.acting[at] = False
        tick.acting[at] |= update.acts
        for leaves, given in ((tick.observation, update.leaves), (tick.privileged, update.privileged)):
            for name, leaf in given.items():
                leaves[name][at] = leaf
        if tick.action_mask is not None and update.leaves:
            tick.action_mask[at] = False if update.mask is None else update.mask

    @staticmethod
    def _arrays(tick: Tick) -> Iterator[np.ndarray]:
        yield from (tick.terminated, tick.truncated, tick.outcome)
        for role in tick.roles.values():
            groups = (role.observation, role.privileged, role.reward_parts, role.statistics)
            yield from (array for group in groups for array in group.values())
            optional = (role.acting, role.reward, role.action_mask, role.terminated, role.truncated, role.dropped)
            yield from (array for array in optional if array is not None)


def check_actions(schema: GameSchema, tick: Tick, actions: Mapping[str, np.ndarray]) -> None:
    """Check the actions of all acting seats.

    Args:
        schema: Schema of the game.
        tick: Current tick.
        actions: Per role ``[B, S, L + D]``.

    Raises:
        ContractError: Actions are missing or have another shape, or one of an acting seat is illegal.
    """
    for role in schema.roles:
        role_tick, given = tick.roles[role.name], actions.get(role.name)
        shape = (*role_tick.acting.shape, len(role.labels) + len(role.reals))
        if given is None or given.shape != shape:
            got = "nothing" if given is None else f"shape {given.shape}"
            raise ContractError(f"environment 'remote': expected actions {shape} of role {role.name!r}, got {got}")
        matches, seats = role_tick.acting.nonzero()
        if not matches.size:
            continue
        chosen = given[matches, seats]
        legal = np.isfinite(chosen).all(axis=1)
        labels = np.where(np.isfinite(chosen), chosen, -1)[:, : len(role.labels)].astype(np.int64)
        sizes = np.array(role.labels, np.int64)
        legal &= ((labels >= 0) & (labels < sizes)).all(axis=1)
        if role_tick.action_mask is not None:
            columns = np.where(legal[:, None], labels, 0) + np.array(role.label_starts, np.int64)
            legal &= role_tick.action_mask[matches[:, None], seats[:, None], columns].all(axis=1)
        if not legal.all():
            at = int(legal.argmin())
            raise ContractError(
                f"environment 'remote': illegal action {chosen[at].tolist()} of role {role.name!r}, "
                f"match {matches[at]}, seat {seats[at]}"
            )
