"""Values that actors compute, passed to the value observers among their opponents [Minimax eq. 3]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ludus._sampling.seating import Seating
from ludus._sampling.seats import Actor, ValueObserver
from ludus.environment import EnvironmentSpec

__all__ = ["OpponentValues"]


class OpponentValues:
    """The values of one tick.

    Args:
        spec: Specification of the environment.
        num_matches: B.
        seating: The actors of all seats.
        observers: Actors that record the values of their opponents.

    Attributes:
        values: ``[B · seats] float32`` by seat id; NaN where no actor computed a value on this tick.
    """

    def __init__(
        self, spec: EnvironmentSpec, num_matches: int, *, seating: Seating[Actor], observers: Sequence[ValueObserver]
    ) -> None:
        self._seating = seating
        self._observers = observers
        teams = np.array([seat.team for seat in spec.seats])
        self._opposes = (teams[:, None] != teams).astype(np.float32)  # [seats, seats]: 1 for opponents
        self._shape = (num_matches, len(teams))
        self.values = np.full(num_matches * len(teams), np.nan, np.float32)

    def clear(self) -> None:
        """Remove the values of the last tick."""
        self.values.fill(np.nan)

    def send(self, targets: np.ndarray, deciding_observers: np.ndarray | None = None) -> None:
        """Send observers the mean value of the opponents that decided on this tick, if there are any.

        Args:
            targets: ``[B · seats] bool``, seats whose observers get values.
            deciding_observers: ``[B · seats] bool``, seats of observers that decide on this tick and whose values are
                not known yet. A target gets NaN if all of its opponents that decide are such seats: their values will
                belong to another position.
        """
        values = self.values.reshape(self._shape)
        known = ~np.isnan(values)
        counts = known @ self._opposes  # [B, seats]: opponents with a value
        sums = np.where(known, values, 0) @ self._opposes
        means = np.divide(sums, counts, out=np.full(self._shape, np.nan, np.float32), where=counts > 0).ravel()
        decided = known if deciding_observers is None else known | deciding_observers.reshape(self._shape)
        seat_ids = (targets & ((decided @ self._opposes).ravel() > 0)).nonzero()[0]
        for actor, chosen in self._seating.group_by_actor(seat_ids):
            for observer in self._observers:
                if observer is actor:
                    own = seat_ids if chosen is None else seat_ids[chosen]
                    observer.record_opponent_values(own, means[own])
