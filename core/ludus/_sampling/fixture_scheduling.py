"""Assignment of fixtures to the matches of a batch.

The batch is divided into *lanes* of consecutive match indices. A lane plays one fixture at a time, so that the seats of
one opponent are adjacent in memory. A match index takes the next match of its lane's fixture when its last match ends.

Arrays hold one entry per lane or match index, so the cost of starting matches hardly depends on their number. Only a
lane that takes a new fixture is processed by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ludus._seeding import match_seeds
from ludus.environment import Scenario
from ludus.records import Fixture

if TYPE_CHECKING:
    from ludus._sampling.seating import Seating

__all__ = ["FixtureScheduler", "lane_numbers"]


def lane_numbers(num_matches: int, matches_per_lane: int) -> np.ndarray:
    """Return ``[B]``: the lane of each match index. The last lane may be smaller than the others."""
    return np.arange(num_matches) // min(matches_per_lane, num_matches)


class FixtureScheduler:
    """Assigns fixtures to lanes, and matches of fixtures to match indices.

    Args:
        lanes: ``[B]`` lane of each match index, see `lane_numbers`.
        seating: Gets the participants of fixtures.

    Attributes:
        queue: Fixtures that no lane has started.
        fixture_ids: ``[B]`` fixture of the current or last match.
        match_numbers: ``[B]`` number of that match in its fixture.
        num_low_lanes: Number of lanes with too few matches left for all of their match indices.
        num_started_fixtures: Number of fixtures that lanes have started.
    """

    def __init__(self, lanes: np.ndarray, seating: Seating[Any]) -> None:
        num_matches = len(lanes)
        self.queue: deque[Fixture] = deque()
        self.fixture_ids = np.zeros(num_matches, np.int64)
        self.match_numbers = np.zeros(num_matches, np.int64)
        self.num_started_fixtures = 0
        self._seating = seating
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
            self._start_fixture(lane, self.queue.popleft())
            waiting = np.searchsorted(self._lanes.take(indices), lane, side="right")
            count = min(int(waiting), int(self._lane_matches_left[lane]))
            self._assign(indices[:count], np.full(count, lane), np.arange(count))
            yield indices[:count]
            indices = indices[count:]

    def _start_fixture(self, lane: int, fixture: Fixture) -> None:
        self.num_started_fixtures += 1
        self._lane_fixture_ids[lane], self._lane_seeds[lane] = fixture.id, fixture.seed
        self._lane_next_numbers[lane], self._lane_matches_left[lane] = 0, fixture.matches
        self._lane_scenarios[lane] = None if fixture.scenario.name == "default" else fixture.scenario
        self._seating.assign_lane(lane, fixture)

    def seeds(self, indices: np.ndarray) -> np.ndarray:
        """Return the seeds ``[n] uint64`` of the matches at these indices."""
        return match_seeds(self._seeds.take(indices), self.match_numbers.take(indices))

    def scenarios(self, indices: np.ndarray) -> list[Scenario] | None:
        """Return the scenarios of the matches at these indices; None if all of them are the default scenario."""
        scenarios = self._scenarios.take(indices).tolist()
        return [scenario or Scenario() for scenario in scenarios] if any(scenarios) else None
