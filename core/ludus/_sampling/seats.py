"""The records that actors get for their seats, and the contract of actors."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from attrs import define, field, frozen

from ludus.environment import RoleTick
from ludus.errors import ContractError


@define(eq=False)
class SeatValues:
    """The values that actors compute on one tick, by seat id.

    Args:
        value: ``[all seats] float32``; NaN where no actor computed a value.
        lowest: ``[all seats] float32``, the lowest value that the actor may compute; NaN where that is unknown.
        bound: Lowest value of an actor that learned from the rewards of the environment; NaN if it is unknown.
    """

    value: np.ndarray
    lowest: np.ndarray
    bound: float

    def clear(self) -> None:
        """Remove all values."""
        self.value.fill(np.nan)

    def store(self, seat_ids: np.ndarray, value: np.ndarray, lowest: np.ndarray | float) -> None:
        """Write the values ``[n]`` of seats, and the lowest ones that are possible."""
        self.value[seat_ids] = value
        self.lowest[seat_ids] = lowest


@define
class Seats:
    """The seats of one role that one actor decides for on a tick, ordered by match index, then by seat.

    Attributes:
        tick: Tick of the role; its arrays belong to the environment.
        index: ``[n]`` match index · S + seat, where S is the number of seats of the role.
        seat_ids: ``[n]`` seat ids, which count the seats of all roles.
        slots: ``[n]`` slot of the model that decides for each seat; 0 for actors with a single model.
        values: Buffer for the values that actors compute; None if nothing reads it.
        ascending: Whether `index` is ascending.
    """

    tick: RoleTick
    index: np.ndarray
    seat_ids: np.ndarray
    slots: np.ndarray
    values: SeatValues | None = None
    ascending: bool = True

    @property
    def match_indices(self) -> np.ndarray:
        """Return ``[n]`` match indices."""
        return np.asarray(self.index // self.tick.acting.shape[1])

    def take(self, array: np.ndarray) -> np.ndarray:
        """Return ``[n, …]``: the entries of these seats in an array ``[B, S, …]``.

        The result is a view of `array` if these are all seats: neither write to it nor keep it.
        """
        flat = array.reshape(-1, *array.shape[2:])
        return flat if self.ascending and self.index.size == len(flat) else flat.take(self.index, axis=0)

    def select(self, chosen: np.ndarray, *, ascending: bool) -> Seats:
        """Return the seats at positions ``chosen``, or where ``chosen [n] bool`` is True."""
        index, seat_ids, slots = self.index[chosen], self.seat_ids[chosen], self.slots[chosen]
        return Seats(self.tick, index, seat_ids, slots, self.values, ascending)


@define
class SeatRewards:
    """Rewards of n seats since their last decisions.

    Attributes:
        reward: ``[n] float32``.
        elapsed_ticks: ``[n] int32``.
        parts: Named parts of the rewards, each ``[n] float32``.
        dropped: ``[n] bool``: the last decision was not executed; None: all were.
    """

    reward: np.ndarray
    elapsed_ticks: np.ndarray
    parts: dict[str, np.ndarray] = field(factory=dict)
    dropped: np.ndarray | None = None


class Actor(Protocol):
    """Decides for seats of running matches."""

    def start_matches(self, seat_ids: np.ndarray) -> None:
        """Prepare seats ``[n]`` for new matches."""

    def act(self, seats: Seats, rewards: SeatRewards) -> np.ndarray:
        """Decide for n seats and return raw actions ``[n, L]``."""

    def end_seats(self, seats: Seats, rewards: SeatRewards, *, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Finish seats that ended, with their match or before it: ``terminated [n] bool`` or ``truncated [n] bool``."""


@frozen
class BuiltinActor:
    """The actor of a built-in bot: the environment fills its seats by itself.

    Args:
        name: Name of the bot.
    """

    name: str

    def start_matches(self, seat_ids: np.ndarray) -> None:
        """Do nothing: the environment starts its bots."""

    def act(self, seats: Seats, rewards: SeatRewards) -> np.ndarray:  # noqa: ARG002 - see `Actor`
        """Raise an error: a seat of a bot never acts.

        Raises:
            ContractError: Always.
        """
        match = int(seats.match_indices[0])
        raise ContractError(
            f"a seat of the built-in bot {self.name!r} acts in match {match}; expected that it never acts"
        )

    def end_seats(self, seats: Seats, rewards: SeatRewards, *, terminated: np.ndarray, truncated: np.ndarray) -> None:
        """Do nothing: nothing is recorded."""


class ValueObserver(Actor, Protocol):
    """An actor that records the values that its opponents compute."""

    def record_opponent_values(self, seat_ids: np.ndarray, values: np.ndarray, lowest: np.ndarray) -> None:
        """Record the opponents' values ``[n] float32`` of the positions that decisions of these seats led to.

        Args:
            seat_ids: ``[n]``.
            values: NaN where no opponent evaluates the position.
            lowest: ``[n] float32``, the lowest values that these opponents may compute.
        """
