"""Lanes play fixtures in order, and every seat gets the actor of its participant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus._sampling.fixture_scheduling import FixtureScheduler, Seating, lane_numbers
from ludus._seeding import match_seeds
from ludus.environment import Scenario
from ludus.records import Fixture


def fixture(number, *, matches=4, participants="ab", scenario=None):
    """Return a fixture whose seed is its number."""
    return Fixture(
        id=number,
        kind="train",
        player="",
        participants=tuple(participants),
        seed=number,
        matches=matches,
        reason="",
        scenario=scenario or Scenario(),
    )


def make_scheduler(
    num_matches, *fixtures, matches_per_lane=2, resolve=lambda fixture, seat: (fixture.participants[seat], 0)
):
    """Return a scheduler with queued fixtures of two seats and its seating; actors are names of participants."""
    lanes = lane_numbers(num_matches, matches_per_lane)
    seating = Seating(num_matches, lanes=lanes[-1] + 1, seats=2, resolve=resolve)
    scheduler = FixtureScheduler(lanes, seating)
    scheduler.queue.extend(fixtures)
    return scheduler, seating


def assign(scheduler, *indices):
    """Assign matches; return tuples of match index, fixture id and match number."""
    assigned = scheduler.assign_matches(np.array(indices))
    fixtures, numbers = scheduler.fixture_ids[assigned], scheduler.match_numbers[assigned]
    return list(zip(assigned.tolist(), fixtures.tolist(), numbers.tolist(), strict=True))


def names(seating):
    """Return the actors of every match as a string, "." for seats without one."""
    return ["".join("." if i < 0 else seating.actors[i] for i in seats) for seats in seating.actor_index]


def test_match_indices_of_a_lane_take_the_next_matches_in_order():
    """Each lane counts the matches of its own fixture."""
    scheduler, _ = make_scheduler(5, fixture(1, matches=5), fixture(2), fixture(3))
    assert assign(scheduler, 0, 1, 2, 3, 4) == [(0, 1, 0), (1, 1, 1), (2, 2, 0), (3, 2, 1), (4, 3, 0)]
    assert assign(scheduler, 1, 3) == [(1, 1, 2), (3, 2, 2)]
    assert assign(scheduler, 0, 1) == [(0, 1, 3), (1, 1, 4)]


def test_a_lane_without_matches_left_takes_the_next_fixture():
    """One assignment may start several fixtures in a lane; fixtures without matches are skipped."""
    scheduler, _ = make_scheduler(
        4, fixture(1, matches=3), fixture(2, matches=1), fixture(3, matches=0), fixture(4), fixture(5)
    )
    scheduler.assign_matches(np.array([0, 1]))
    assert assign(scheduler, 0, 1, 2, 3) == [(0, 1, 2), (1, 2, 0), (2, 4, 0), (3, 4, 1)]
    assert [left.id for left in scheduler.queue] == [5]


def test_match_indices_get_no_match_while_the_queue_is_empty():
    """They keep the actors of the last match and get a match as soon as there is a fixture."""
    scheduler, seating = make_scheduler(4, fixture(1, matches=1))
    assert assign(scheduler, 0, 1, 2, 3) == [(0, 1, 0)]
    assert names(seating) == ["ab", "..", "..", ".."]
    assert assign(scheduler, 0) == []
    assert names(seating)[0] == "ab"
    scheduler.queue.append(fixture(2, matches=9))
    assert assign(scheduler, 0, 1) == [(0, 2, 0), (1, 2, 1)]


def test_actors_change_between_matches_only():
    """A running match keeps its actors while another match of the lane starts the next fixture."""
    scheduler, seating = make_scheduler(2, fixture(1, matches=2, participants="ab"), fixture(2, participants="ca"))
    scheduler.assign_matches(np.array([0, 1]))
    scheduler.assign_matches(np.array([1]))
    assert names(seating) == ["ab", "ca"]


def test_seats_are_resolved_once_per_lane_and_fixture():
    """The number of matches does not matter."""
    calls = []

    def resolve(fixture, seat):
        calls.append((fixture.id, seat))
        return fixture.participants[seat], 0

    scheduler, _ = make_scheduler(4, fixture(1), fixture(2), resolve=resolve)
    scheduler.assign_matches(np.arange(4))
    scheduler.assign_matches(np.array([1, 2]))
    assert calls == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_slots_are_in_use_until_their_last_match_ends():
    """Slots of running matches count, and those of lanes whose matches have not started."""
    slots = {"b": 3, "c": 7, "d": 5}
    actors = {"a": "a"}  # all other participants share an actor
    scheduler, seating = make_scheduler(
        2,
        fixture(1, matches=2, participants="ab"),
        fixture(2, matches=2, participants="ac"),
        fixture(3, participants="ad"),
        resolve=lambda fixture, seat: (
            actors.get(fixture.participants[seat], "shared"),
            slots.get(fixture.participants[seat], 0),
        ),
    )
    assert seating.slots_in_use("shared").tolist() == []
    scheduler.assign_matches(np.array([0, 1]))
    assert seating.slots_in_use("shared").tolist() == [3]
    scheduler.assign_matches(np.array([0]))
    assert seating.slots_in_use("shared").tolist() == [3, 7]
    assert seating.slots.tolist() == [[0, 7], [0, 3]]
    scheduler.assign_matches(np.array([1]))
    scheduler.assign_matches(np.array([0]))
    assert seating.slots_in_use("shared").tolist() == [5, 7]
    assert seating.slots_in_use("a").tolist() == [0]
    assert seating.slots_in_use("unknown").tolist() == []


def test_a_slot_is_in_use_as_soon_as_it_is_resolved():
    """The next seat of the same match must not get it."""
    used = []

    def resolve(_fixture, seat):
        used.append(seating.slots_in_use("shared").tolist())
        return "shared", 4 + seat

    scheduler, seating = make_scheduler(2, fixture(1), resolve=resolve)
    scheduler.assign_matches(np.array([0, 1]))
    assert used == [[], [4]]


def test_entries_of_actors_that_left_are_reused():
    """The list of actors does not grow with the number of fixtures."""
    scheduler, seating = make_scheduler(1, *(fixture(i, matches=1, participants=("a", f"o{i}")) for i in range(20)))
    for _ in range(20):
        scheduler.assign_matches(np.array([0]))
        assert seating.actors[seating.actor_index[0, 0]] == "a"
    assert seating.actors[seating.actor_index[0, 1]] == "o19"
    assert len(seating.actors) <= 3


def test_seeds_and_scenarios_of_new_matches():
    """Seeds derive from fixture and match number; scenarios are listed only if one is not the default."""
    special = Scenario(name="endgame", parameters={"stones": 3})
    scheduler, _ = make_scheduler(4, fixture(11), fixture(12, scenario=special))
    scheduler.assign_matches(np.arange(4))
    seeds = scheduler.seeds(np.array([0, 3])).tolist()
    assert seeds == [match_seeds(11, np.array([0])).item(), match_seeds(12, np.array([1])).item()]
    assert scheduler.scenarios(np.array([0, 3])) == [Scenario(), special]
    assert scheduler.scenarios(np.array([0, 1])) is None


def test_seat_ids_are_grouped_by_actor():
    """Each group keeps the order of the seat ids; a single actor gets all of them."""
    scheduler, seating = make_scheduler(4, fixture(1, participants="ab"), fixture(2, participants="ca"))
    scheduler.assign_matches(np.arange(4))
    seat_ids = np.array([0, 1, 3, 4, 5, 7])
    groups = {actor: seat_ids[chosen].tolist() for actor, chosen in seating.group_by_actor(seat_ids)}
    assert groups == {"a": [0, 5, 7], "b": [1, 3], "c": [4]}
    assert list(seating.group_by_actor(seat_ids[:0])) == []
    scheduler, seating = make_scheduler(2, fixture(1, participants="aa"))
    scheduler.assign_matches(np.arange(2))
    assert list(seating.group_by_actor(seat_ids)) == [("a", None)]


@pytest.mark.parametrize(("matches", "low"), [(2, 3), (4, 3), (5, 2), (100, 2)])
def test_low_lanes_are_counted(matches, low):
    """A lane is low if its fixture has too few matches left for all of its match indices."""
    scheduler, _ = make_scheduler(6, fixture(1, matches=matches))
    assert scheduler.num_low_lanes == 3
    scheduler.assign_matches(np.arange(2))
    assert scheduler.num_low_lanes == low


class ReferenceScheduler:
    """The same assignment, one match index at a time."""

    def __init__(self, num_matches, matches_per_lane, fixtures):
        self.queue = list(fixtures)
        self.lane_size = min(num_matches, matches_per_lane)
        self.lanes = {}  # lane → fixture, next number

    def assign(self, indices):
        """Return tuples of match index, fixture id and match number."""
        assigned = []
        for index in indices:
            current, number = self.lanes.get(index // self.lane_size, (None, 0))
            while (current is None or number >= current.matches) and self.queue:
                current, number = self.queue.pop(0), 0
            if current is not None and number < current.matches:
                assigned.append((index, current.id, number))
                number += 1
            self.lanes[index // self.lane_size] = current, number
        return assigned


@settings(deadline=None, max_examples=60)
@given(
    num_matches=st.integers(1, 9),
    matches_per_lane=st.integers(1, 5),
    matches=st.lists(st.integers(0, 6), max_size=30),
    ended=st.lists(st.sets(st.integers(0, 8), min_size=1), min_size=1, max_size=20),
)
def test_assignment_equals_the_reference(num_matches, matches_per_lane, matches, ended):
    """For any order in which matches end and any lengths of fixtures."""
    fixtures = [fixture(i + 1, matches=count) for i, count in enumerate(matches)]
    scheduler, _ = make_scheduler(num_matches, *fixtures, matches_per_lane=matches_per_lane)
    reference = ReferenceScheduler(num_matches, matches_per_lane, fixtures)
    for chosen in ended:
        indices = sorted(index for index in chosen if index < num_matches) or [0]
        assert assign(scheduler, *indices) == reference.assign(indices)
