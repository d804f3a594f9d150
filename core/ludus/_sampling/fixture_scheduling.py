"""Assignment of fixtures to the matches of a batch, and of actors to their seats.

The batch is divided into *lanes* of consecutive match indices. A lane plays one fixture at a time, so that the seats of
one opponent are adjacent in memory. A match index takes the next match of its lane's fixture when its last match ends.

Arrays hold one entry per lane or match index, so the cost of starting matches hardly depends on their number. Only a
lane that takes a new fixture is processed by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from attrs import evolve

from ludus._sampling.seats import Actor, BuiltinActor
from ludus._seeding import match_seeds
from ludus.environment import Scenario
from ludus.errors import DamagedFileError
from ludus.records import Fixture

#: Fixture and seat number → actor and slot.
ResolveSeat: TypeAlias = Callable[[Fixture, int], tuple[Actor, int]]


class Seating:
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

    def __init__(self, num_matches: int, *, lanes: int, seats: int, resolve: ResolveSeat) -> None:
        self.actors: list[Actor] = []
        self.actor_index = np.full((num_matches, seats), -1, np.int64)
        self.slots = np.zeros((num_matches, seats), np.int64)
        self._resolve = resolve
        self._lane_actor_index = np.full((lanes, seats), -1, np.int64)
        self._lane_slots = np.zeros((lanes, seats), np.int64)

    def assign_lane(self, lane: int, fixture: Fixture) -> tuple[str, ...]:
        """Seat the participants of a fixture in the coming matches of a lane; return the built-in bots of all seats.

        They are `Scenario.builtin` of the matches.
        """
        builtin = [""] * len(fixture.participants)
        for seat in range(len(builtin)):
            actor, slot = self._resolve(fixture, seat)
            if isinstance(actor, BuiltinActor):
                builtin[seat] = actor.name
            # at once, since `resolve` of the next seat reads `slots_in_use`
            self._lane_actor_index[lane, seat], self._lane_slots[lane, seat] = self._add(actor), slot
        return tuple(builtin) if any(builtin) else ()

    def start_matches(self, indices: np.ndarray, lanes: np.ndarray) -> None:
        """Seat the participants of lanes ``[n]`` in matches ``[n]``."""
        self.actor_index[indices] = self._lane_actor_index.take(lanes, axis=0)
        self.slots[indices] = self._lane_slots.take(lanes, axis=0)

    def group_by_actor(self, seat_ids: np.ndarray) -> Iterator[tuple[Actor, np.ndarray | None]]:
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

    def position(self, actor: Actor) -> int:
        """Return the position of an actor in `actors`; -2 if it has no seat."""
        return next((position for position, known in enumerate(self.actors) if known is actor), -2)

    def slots_in_use(self, actor: Actor) -> np.ndarray:
        """Return ``[k] int64``, ascending: the slots of an actor that a match or a lane uses."""
        position = self.position(actor)
        return np.union1d(
            self.slots[self.actor_index == position], self._lane_slots[self._lane_actor_index == position]
        )

    def _add(self, actor: Actor) -> int:
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


def lane_numbers(num_matches: int, matches_per_lane: int) -> np.ndarray:
    """Return ``[B]``: the lane of each match index. The last lane may be smaller than the others."""
    return np.arange(num_matches) // min(matches_per_lane, num_matches)


class FixtureScheduler:
    """Assigns fixtures to lanes, and matches of fixtures to match indices.

    Args:
        lanes: ``[B]`` lane of each match index, see `lane_numbers`.
        seating: Gets the participants of fixtures.
        skip_damaged: Skip fixtures of models whose files are damaged, instead of raising `DamagedFileError`.
        on_start: Called with every fixture that a lane starts, whose scenario then names the built-in bots.

    Attributes:
        queue: Fixtures that no lane has started.
        fixture_ids: ``[B]`` fixture of the current or last match.
        match_numbers: ``[B]`` number of that match in its fixture.
        num_low_lanes: Number of lanes with too few matches left for all of their match indices.
        num_started_fixtures: Number of fixtures that lanes have started.
    """

    def __init__(
        self,
        lanes: np.ndarray,
        seating: Seating,
        *,
        skip_damaged: bool = False,
        on_start: Callable[[Fixture], None] | None = None,
    ) -> None:
        num_matches = len(lanes)
        self.queue: deque[Fixture] = deque()
        self.fixture_ids = np.zeros(num_matches, np.int64)
        self.match_numbers = np.zeros(num_matches, np.int64)
        self.num_started_fixtures = 0
        self._seating = seating
        self._skip_damaged = skip_damaged
        self._on_start = on_start
        self._lanes = lanes
        self._seeds = np.zeros(num_matches, np.uint64)
        self._scenarios = np.full(num_matches, None, object)  # None: the default scenario
        self._lane_sizes = np.bincount(lanes)
        self.num_low_lanes = count = len(self._lane_sizes)
        self._lane_fixture_ids = np.zeros(count, np.int64)
        self._lane_seeds = np.zeros(count, np.uint64)
        self._lane_scenarios = np.full(count, None, object)
        self._lane_next_numbers = np.zeros(count, np.int64)
        self._lane_matches_left = np.zeros(count, np.int64)  # matches of the fixture that have not started

    def assign_matches(self, indices: np.ndarray) -> np.ndarray:
        """Assign the next matches to match indices, ascending; return those that got one, ascending."""
        lanes = self._lanes.take(indices)
        ranks = np.arange(indices.size) - lanes.searchsorted(lanes)  # positions among the indices of a lane
        waiting = ranks >= self._lane_matches_left.take(lanes)
        if waiting.any():
            ready = ~waiting
            self._assign(indices[ready], lanes[ready], ranks[ready])
            assigned = [indices[ready], *self._assign_new_fixtures(indices[waiting])]
            indices = np.sort(np.concatenate(assigned))
        else:
            self._assign(indices, lanes, ranks)
        self.num_low_lanes = int((self._lane_matches_left <= self._lane_sizes).sum())
        return indices

    def _assign(self, indices: np.ndarray, lanes: np.ndarray, ranks: np.ndarray) -> None:
        self.match_numbers[indices] = self._lane_next_numbers.take(lanes) + ranks
        self.fixture_ids[indices] = self._lane_fixture_ids.take(lanes)
        self._seeds[indices] = self._lane_seeds.take(lanes)
        self._scenarios[indices] = self._lane_scenarios.take(lanes)
        self._seating.start_matches(indices, lanes)
        counts = np.bincount(lanes, minlength=len(self._lane_matches_left))
        self._lane_next_numbers += counts
        self._lane_matches_left -= counts

    def _assign_new_fixtures(self, indices: np.ndarray) -> Iterator[np.ndarray]:
        """Start queued fixtures on the lanes of these match indices; yield the indices that got a match."""
        while indices.size and self.queue:
            lane = int(self._lanes[indices[0]])
            fixture = self.queue.popleft()
            try:
                self._start_fixture(lane, fixture)
            except DamagedFileError:
                if not self._skip_damaged:
                    raise
                continue
            waiting = np.searchsorted(self._lanes.take(indices), lane, side="right")
            count = min(int(waiting), int(self._lane_matches_left[lane]))
            self._assign(indices[:count], np.full(count, lane), np.arange(count))
            yield indices[:count]
            indices = indices[count:]

    def _start_fixture(self, lane: int, fixture: Fixture) -> None:
        builtin = self._seating.assign_lane(lane, fixture)
        self.num_started_fixtures += 1
        self._lane_fixture_ids[lane], self._lane_seeds[lane] = fixture.id, fixture.seed
        self._lane_next_numbers[lane], self._lane_matches_left[lane] = 0, fixture.matches
        is_default = fixture.scenario.name == "default" and not builtin
        self._lane_scenarios[lane] = None if is_default else evolve(fixture.scenario, builtin=builtin)
        if self._on_start is not None:
            self._on_start(evolve(fixture, scenario=evolve(fixture.scenario, builtin=builtin)))

    def seeds(self, indices: np.ndarray) -> np.ndarray:
        """Return the seeds ``[n] uint64`` of the matches at these indices."""
        return match_seeds(self._seeds.take(indices), self.match_numbers.take(indices))

    def scenarios(self, indices: np.ndarray) -> list[Scenario] | None:
        """Return the scenarios of the matches at these indices; None if all of them are the default scenario."""
        scenarios = self._scenarios.take(indices).tolist()
        return [scenario or Scenario() for scenario in scenarios] if any(scenarios) else None
