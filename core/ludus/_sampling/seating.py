"""Which actor, and which of its models, decides for each seat of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from ludus.records import Fixture

__all__ = ["ResolveSeat", "Seating"]

ActorT = TypeVar("ActorT")

#: Fixture and seat number → actor and slot.
ResolveSeat: TypeAlias = Callable[[Fixture, int], tuple[ActorT, int]]


class Seating(Generic[ActorT]):
    """The actors of all seats, by match index, and of all lanes.

    Args:
        num_matches: B.
        lanes: Number of lanes.
        seats: Number of seats of a match.
        resolve: Returns actor and slot of a seat of a fixture; called once per seat when a lane starts a fixture.

    Attributes:
        actors: All seated actors. Entries of actors that left are reused.
        actor_index: ``[B, seats]`` position in `actors`; -1 before the first match.
        slots: ``[B, seats]`` slot of the model.
    """

    def __init__(self, num_matches: int, *, lanes: int, seats: int, resolve: ResolveSeat[ActorT]) -> None:
        self.actors: list[ActorT] = []
        self.actor_index = np.full((num_matches, seats), -1, np.int64)
        self.slots = np.zeros((num_matches, seats), np.int64)
        self._resolve = resolve
        self._lane_actor_index = np.full((lanes, seats), -1, np.int64)
        self._lane_slots = np.zeros((lanes, seats), np.int64)

    def assign_lane(self, lane: int, fixture: Fixture) -> None:
        """Seat the participants of a fixture in the coming matches of a lane."""
        for seat in range(len(fixture.participants)):
            actor, slot = self._resolve(fixture, seat)
            # at once, since `resolve` of the next seat reads `slots_in_use`
            self._lane_actor_index[lane, seat], self._lane_slots[lane, seat] = self._add(actor), slot

    def start_matches(self, indices: np.ndarray, lanes: np.ndarray) -> None:
        """Seat the participants of lanes ``[n]`` in matches ``[n]``."""
        self.actor_index[indices] = self._lane_actor_index.take(lanes, axis=0)
        self.slots[indices] = self._lane_slots.take(lanes, axis=0)

    def group_by_actor(self, seat_ids: np.ndarray) -> Iterator[tuple[ActorT, np.ndarray | None]]:
        """Yield each actor of the seats with its positions in `seat_ids`; None stands for all positions."""
        if not seat_ids.size:
            return
        if len(self.actors) == 1:
            yield self.actors[0], None
            return
        actor_index = self.actor_index.ravel().take(seat_ids)
        order, start = actor_index.argsort(kind="stable"), 0
        for actor, count in zip(self.actors, np.bincount(actor_index).tolist(), strict=False):
            if count:
                yield actor, order[start : start + count]
                start += count

    def slots_in_use(self, actor: ActorT) -> np.ndarray:
        """Return ``[k] int64``, ascending: the slots of an actor that a match or a lane uses."""
        position = next((position for position, known in enumerate(self.actors) if known is actor), -2)
        return np.union1d(
            self.slots[self.actor_index == position], self._lane_slots[self._lane_actor_index == position]
        )

    def _add(self, actor: ActorT) -> int:
        for position, known in enumerate(self.actors):
            if known is actor:
                return position
        used = {*np.unique(self.actor_index).tolist(), *np.unique(self._lane_actor_index).tolist()}
        for position in range(len(self.actors)):
            if position not in used:
                self.actors[position] = actor
                return position
        self.actors.append(actor)
        return len(self.actors) - 1
