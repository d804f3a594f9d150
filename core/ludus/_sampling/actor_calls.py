"""Calls to the actors of a batch, and the values that some of them get of their opponents [Minimax eq. 3]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from attrs import define, field

from ludus._sampling.fixture_scheduling import Seating
from ludus._sampling.match_state import RoleSeats, RunningMatches, SeatTotals, TickChecks
from ludus._sampling.seats import Actor, SeatRewards, Seats, SeatValues, ValueObserver
from ludus.environment import EnvironmentSpec, RoleTick, Tick
from ludus.errors import ContractError


class OpponentValues:
    """The values of one tick.

    Args:
        spec: Specification of the environment.
        num_matches: B.
        seating: The actors of all seats.
        observers: Actors that record the values of their opponents.

    Attributes:
        values: Values by seat id, match index · seats + seat. If rewards are sparse and their range is known, no value
            is below the lowest reward [Minimax §4.2].
    """

    def __init__(
        self, spec: EnvironmentSpec, num_matches: int, *, seating: Seating, observers: Sequence[ValueObserver]
    ) -> None:
        self._seating = seating
        self._observers = observers
        teams = np.array([seat.team for seat in spec.seats])
        self._opposes = (teams[:, None] != teams).astype(np.float32)  # [seats, seats]: 1 for opponents
        self._shape = (num_matches, len(teams))
        bound = spec.reward_range[0] if spec.sparse_rewards and spec.reward_range is not None else np.nan
        value, lowest = np.full((2, num_matches * len(teams)), np.nan, np.float32)
        self.values = SeatValues(value, lowest, bound)

    def clear(self) -> None:
        """Remove the values of the last tick."""
        self.values.clear()

    def send(self, targets: np.ndarray, deciding_observers: np.ndarray | None = None) -> None:
        """Send observers the mean value of the opponents that decided on this tick, if there are any.

        Args:
            targets: ``[B · seats] bool``, seats whose observers get values.
            deciding_observers: ``[B · seats] bool``, seats of observers that decide on this tick and whose values are
                not known yet. A target gets NaN if all of its opponents that decide are such seats: their values will
                belong to another position.
        """
        known = ~np.isnan(self.values.value.reshape(self._shape))
        means, lowest = (self._mean_of_opponents(array, known) for array in (self.values.value, self.values.lowest))
        decided = known if deciding_observers is None else known | deciding_observers.reshape(self._shape)
        seat_ids = (targets & ((decided @ self._opposes).ravel() > 0)).nonzero()[0]
        for actor, chosen in self._seating.group_by_actor(seat_ids):
            for observer in self._observers:
                if observer is actor:
                    own = seat_ids if chosen is None else seat_ids[chosen]
                    observer.record_opponent_values(own, means[own], lowest[own])

    def _mean_of_opponents(self, array: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return the mean of an array over the opponents of every seat with a value, NaN where there are none.

        Args:
            array: ``[B · seats] float32``; NaN counts as 0.
            known: ``[B, seats] bool``, seats with a value.
        """
        counts = known @ self._opposes  # [B, seats]
        sums = np.where(known, np.nan_to_num(array.reshape(self._shape)), 0) @ self._opposes
        means = np.full(self._shape, np.nan, np.float32)
        np.divide(sums, counts, out=means, where=counts > 0)
        return means.ravel()


@define
class _PendingDecision:
    """The decisions of a value observer, which is called after the other actors."""

    role: RoleSeats
    observer: ValueObserver
    seats: Seats
    rewards: SeatRewards


@define(eq=False)
class ActorCalls:
    """Calls the actors of a batch.

    Value observers decide after all other actors of a tick, so that they first get the values of the position that
    their last decisions led to. Observers that decide on the same tick do not get each other's values; observers that
    wait get the values of all opponents.

    Args:
        seating: The actors of all seats.
        totals: Sums of rewards.
        running: The running matches.
        checks: Checks of action masks.
        observers: Actors that record the values of their opponents.
        values: Values of a tick; None without observers.

    Attributes:
        decisions: Number of decisions so far.
    """

    seating: Seating
    totals: SeatTotals
    running: RunningMatches
    checks: TickChecks
    observers: Sequence[ValueObserver]
    values: OpponentValues | None
    decisions: int = field(init=False, default=0)
    _ended: np.ndarray = field(init=False)  # [B, seats] bool: seats that ended before their running match

    def __attrs_post_init__(self) -> None:
        self._ended = np.zeros(self.totals.returns.shape, bool)

    def start_matches(self, indices: np.ndarray) -> None:
        """Call the actors of new matches."""
        self._ended[indices] = False
        seats = self._ended.shape[1]
        seat_ids = (indices[:, None] * seats + np.arange(seats)).ravel()
        for actor, chosen in self.seating.group_by_actor(seat_ids):
            actor.start_matches(seat_ids if chosen is None else seat_ids.take(chosen))

    def end_seats(self, tick: Tick) -> None:
        """Call the actors of seats that end on this tick by the flags of their role."""
        for role in self.totals.roles:
            role_tick = tick.roles[role.name]
            if role_tick.terminated is None or role_tick.truncated is None:
                continue
            index = (role_tick.terminated | role_tick.truncated).ravel().nonzero()[0]
            index = self._not_ended(role, index[~self.running.idle.take(index // role.num_seats)])
            if index.size:
                self._end_seats(role, role_tick, index, terminated=role_tick.terminated, truncated=role_tick.truncated)
                self._ended.ravel()[role.seat_ids(index)] = True

    def end_matches(self, indices: np.ndarray, tick: Tick) -> None:
        """Call the actors of all seats of matches that ended, except for seats that ended before."""
        for role in self.totals.roles:
            index = self._not_ended(role, role.all_seats(indices))
            shape = tick.roles[role.name].acting.shape
            terminated, truncated = (np.broadcast_to(f[:, None], shape) for f in (tick.terminated, tick.truncated))
            self._end_seats(role, tick.roles[role.name], index, terminated=terminated, truncated=truncated)

    def _not_ended(self, role: RoleSeats, index: np.ndarray) -> np.ndarray:
        return index[~self._ended.ravel().take(role.seat_ids(index))] if role.seat_endings else index

    def _end_seats(
        self, role: RoleSeats, tick: RoleTick, index: np.ndarray, *, terminated: np.ndarray, truncated: np.ndarray
    ) -> None:
        """Call the actors of seats of a role that ended as the flags ``[B, S] bool`` state."""
        for actor, seats, rewards in self._seats_by_actor(role, tick, index):
            actor.end_seats(seats, rewards, terminated=seats.take(terminated), truncated=seats.take(truncated))

    def collect_actions(self, tick: Tick) -> None:
        """Write the actions of all acting seats to `RoleSeats.actions`.

        Raises:
            ContractError: An action mask leaves no legal choice, or actions have a wrong shape or type.
        """
        if self.values is not None:
            self.values.clear()
        pending: list[_PendingDecision] = []
        for role in self.totals.roles:
            self._collect_role(role, tick.roles[role.name], pending)
        if self.values is not None:
            self._collect_from_observers(self.values, pending)

    def _collect_role(self, role: RoleSeats, tick: RoleTick, pending: list[_PendingDecision]) -> None:
        acting = tick.acting & ~self.running.idle[:, None] if self.running.num_idle else tick.acting
        if tick.action_mask is not None:
            self.checks.check_mask(role, acting, tick.action_mask)
        index = acting.ravel().nonzero()[0]
        if role.seat_endings:
            self.checks.check_not_ended(role, index, self._ended)
        for actor, seats, rewards in self._seats_by_actor(role, tick, index):
            observer = next((observer for observer in self.observers if observer is actor), None)
            if observer is None:
                self._store_actions(role, actor, seats, actor.act(seats, rewards))
            else:
                pending.append(_PendingDecision(role, observer, seats, rewards))
        role.clear_decided(acting)
        self.decisions += index.size

    def _collect_from_observers(self, values: OpponentValues, pending: list[_PendingDecision]) -> None:
        deciding = np.zeros(values.values.value.size, bool)
        for decision in pending:
            deciding[decision.seats.seat_ids] = True
        values.send(deciding, deciding_observers=deciding)
        for decision in pending:
            actions = decision.observer.act(decision.seats, decision.rewards)
            self._store_actions(decision.role, decision.observer, decision.seats, actions)
        values.send(~deciding & ~self._ended.ravel())

    def _seats_by_actor(
        self, role: RoleSeats, tick: RoleTick, index: np.ndarray
    ) -> Iterator[tuple[Actor, Seats, SeatRewards]]:
        """Yield each actor of seats of a role with its seats and their rewards since the last decision."""
        all_seat_ids = role.seat_ids(index)
        values = None if self.values is None else self.values.values
        for actor, chosen in self.seating.group_by_actor(all_seat_ids):
            own, seat_ids = (index, all_seat_ids) if chosen is None else (index.take(chosen), all_seat_ids.take(chosen))
            seats = Seats(tick, own, seat_ids, self.seating.slots.ravel().take(seat_ids), values)
            rewards = self.totals.since_decision(role, own, seat_ids)
            if tick.dropped is not None:
                rewards.dropped = seats.take(tick.dropped)
            yield actor, seats, rewards

    def _store_actions(self, role: RoleSeats, actor: Actor, seats: Seats, actions: np.ndarray) -> None:
        """Store actions after a check: NumPy would broadcast other shapes and truncate other types."""
        target = role.flat_actions
        shape = (seats.index.size, target.shape[1])
        is_array = isinstance(actions, np.ndarray)
        if not is_array or actions.shape != shape or not np.can_cast(actions.dtype, target.dtype, "same_kind"):
            found = f"an array {actions.dtype}{[*actions.shape]}" if is_array else type(actions).__name__
            raise ContractError(
                f"{_decider_name(actor)} returned {found} as actions of role {role.name!r} after "
                f"{self.running.steps} ticks; expected {target.dtype}{[*shape]}, one row per acting seat and one "
                f"column per part of an action"
            )
        target[seats.index] = actions


def _decider_name(actor: Actor) -> str:
    """Return the class name of the object that returns an actor's actions."""
    decider = getattr(actor, "agent", actor)
    decider = getattr(decider, "interface", None) or getattr(decider, "policy", decider)
    return f"{type(decider).__module__}.{type(decider).__qualname__}"
