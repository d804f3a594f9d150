"""Rows get the matches of their table's fixture in order, and every seat the actor that the fixture names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus._sampling.fixture_scheduling import Tables
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


def tables_of(
    rows, *fixtures, rows_per_table=2, seats=2, resolve=lambda fixture, seat: (fixture.participants[seat], 0)
):
    """Return tables with a queue; actors are the participants' names."""
    tables = Tables(rows, rows_per_table=rows_per_table, seats=seats, resolve=resolve)
    tables.queue.extend(fixtures)
    return tables


def deal(tables, *rows):
    """Deal and return rows with their fixtures and numbers."""
    dealt = tables.deal(np.array(rows))
    return list(zip(dealt.tolist(), tables.fixture_id[dealt].tolist(), tables.number[dealt].tolist(), strict=True))


def names(tables):
    """Return who sits in every row, "." where nobody does."""
    return ["".join("." if place < 0 else tables.actors[place] for place in row) for row in tables.occupant]


def test_rows_of_a_table_take_the_next_matches_in_row_order():
    """Each table counts for itself."""
    tables = tables_of(5, fixture(1, matches=5), fixture(2), fixture(3))
    assert deal(tables, 0, 1, 2, 3, 4) == [(0, 1, 0), (1, 1, 1), (2, 2, 0), (3, 2, 1), (4, 3, 0)]
    assert deal(tables, 1, 3) == [(1, 1, 2), (3, 2, 2)]
    assert deal(tables, 0, 1) == [(0, 1, 3), (1, 1, 4)]


def test_a_table_that_has_no_match_left_takes_the_next_fixture():
    """Also in the middle of its rows, and several in a row if they are short; empty ones are passed over."""
    tables = tables_of(4, fixture(1, matches=3), fixture(2, matches=1), fixture(3, matches=0), fixture(4), fixture(5))
    tables.deal(np.array([0, 1]))
    assert deal(tables, 0, 1, 2, 3) == [(0, 1, 2), (1, 2, 0), (2, 4, 0), (3, 4, 1)]
    assert [left.id for left in tables.queue] == [5]


def test_rows_stay_without_a_match_when_the_queue_is_empty():
    """They keep what they played last, and get one as soon as there is one."""
    tables = tables_of(4, fixture(1, matches=1))
    assert deal(tables, 0, 1, 2, 3) == [(0, 1, 0)]
    assert names(tables) == ["ab", "..", "..", ".."]
    assert deal(tables, 0) == []
    assert names(tables)[0] == "ab"
    tables.queue.append(fixture(2, matches=9))
    assert deal(tables, 0, 1) == [(0, 2, 0), (1, 2, 1)]


def test_rows_change_their_opponent_between_matches_only():
    """A row that has not ended keeps who sits there while its neighbour goes on with the next fixture."""
    tables = tables_of(2, fixture(1, matches=2, participants="ab"), fixture(2, participants="ca"))
    tables.deal(np.array([0, 1]))
    tables.deal(np.array([1]))
    assert names(tables) == ["ab", "ca"]


def test_who_plays_is_asked_once_per_table_and_fixture():
    """However many rows it has and matches they play."""
    asked = []

    def resolve(given, seat):
        asked.append((given.id, seat))
        return given.participants[seat], 0

    tables = tables_of(4, fixture(1), fixture(2), resolve=resolve)
    tables.deal(np.arange(4))
    tables.deal(np.array([1, 2]))
    assert asked == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_slots_are_in_use_until_the_last_row_has_left():
    """Those of rows still playing count, and those of tables whose rows have not come to it yet."""
    models = {"b": 3, "c": 7, "d": 5}
    who = {"a": "a"}  # everybody else shares one actor
    tables = tables_of(
        2,
        fixture(1, matches=2, participants="ab"),
        fixture(2, matches=2, participants="ac"),
        fixture(3, participants="ad"),
        resolve=lambda given, seat: (
            who.get(given.participants[seat], "many"),
            models.get(given.participants[seat], 0),
        ),
    )
    assert tables.slots_in_use("many").tolist() == []
    tables.deal(np.array([0, 1]))
    assert tables.slots_in_use("many").tolist() == [3]
    tables.deal(np.array([0]))
    assert tables.slots_in_use("many").tolist() == [3, 7]
    assert tables.slot.tolist() == [[0, 7], [0, 3]]
    tables.deal(np.array([1]))
    tables.deal(np.array([0]))
    assert tables.slots_in_use("many").tolist() == [5, 7]
    assert tables.slots_in_use("a").tolist() == [0]
    assert tables.slots_in_use("stranger").tolist() == []


def test_a_slot_is_in_use_as_soon_as_it_is_given():
    """Whoever fills the next seat of the same match must not get it."""
    seen = []

    def resolve(given, seat):
        seen.append(tables.slots_in_use("many").tolist())
        return "many", 4 + seat

    tables = tables_of(2, fixture(1), resolve=resolve)
    tables.deal(np.array([0, 1]))
    assert seen == [[], [4]]


def test_places_are_used_again():
    """The list of actors stays as short as the number of those who sit somewhere."""
    tables = tables_of(1, *(fixture(i, matches=1, participants=("a", f"o{i}")) for i in range(20)))
    for _ in range(20):
        tables.deal(np.array([0]))
        assert tables.actors[tables.occupant[0, 0]] == "a"
    assert tables.actors[tables.occupant[0, 1]] == "o19"
    assert len(tables.actors) <= 3


def test_seeds_and_scenarios_of_what_starts():
    """Seeds are those of fixture and number; scenarios are only listed where one of them is not the default."""
    special = Scenario(name="endgame", parameters={"stones": 3})
    tables = tables_of(4, fixture(11), fixture(12, scenario=special))
    tables.deal(np.arange(4))
    seeds, scenarios = tables.starts(np.array([0, 3]))
    assert seeds.tolist() == [match_seeds(11, np.array([0])).item(), match_seeds(12, np.array([1])).item()]
    assert scenarios == [Scenario(), special]
    assert tables.starts(np.array([0, 1]))[1] is None


def test_streams_are_divided_among_actors():
    """Each hears of its own, in their order; one alone of all."""
    tables = tables_of(4, fixture(1, participants="ab"), fixture(2, participants="ca"))
    tables.deal(np.arange(4))
    seat_ids = np.array([0, 1, 3, 4, 5, 7])
    found = {actor: seat_ids[chosen].tolist() for actor, chosen in tables.by_actor(seat_ids)}
    assert found == {"a": [0, 5, 7], "b": [1, 3], "c": [4]}
    assert list(tables.by_actor(seat_ids[:0])) == []
    alone = tables_of(2, fixture(1, participants="aa"))
    alone.deal(np.arange(2))
    assert list(alone.by_actor(seat_ids)) == [("a", None)]


@pytest.mark.parametrize(("matches", "low"), [(2, 3), (4, 3), (5, 2), (100, 2)])
def test_tables_that_are_running_low(matches, low):
    """A table needs a fixture soon when its rows could not all go on with the one it has."""
    tables = tables_of(6, fixture(1, matches=matches))
    assert tables.low == 3
    tables.deal(np.arange(2))
    assert tables.low == low


class Slow:
    """The same, row by row."""

    def __init__(self, rows, rows_per_table, fixtures):
        self.queue = list(fixtures)
        self.step = min(rows, rows_per_table)
        self.now = {}  # table → fixture, next number

    def deal(self, rows):
        """Return what each of the rows plays next."""
        dealt = []
        for row in rows:
            given, number = self.now.get(row // self.step, (None, 0))
            while (given is None or number >= given.matches) and self.queue:
                given, number = self.queue.pop(0), 0
            if given is not None and number < given.matches:
                dealt.append((row, given.id, number))
                number += 1
            self.now[row // self.step] = given, number
        return dealt


@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(1, 9),
    rows_per_table=st.integers(1, 5),
    matches=st.lists(st.integers(0, 6), max_size=30),
    ended=st.lists(st.sets(st.integers(0, 8), min_size=1), min_size=1, max_size=20),
)
def test_dealing_at_once_is_dealing_row_by_row(rows, rows_per_table, matches, ended):
    """Whatever ends when, and however long the fixtures are."""
    fixtures = [fixture(i + 1, matches=count) for i, count in enumerate(matches)]
    tables, slow = tables_of(rows, *fixtures, rows_per_table=rows_per_table), Slow(rows, rows_per_table, fixtures)
    for some in ended:
        chosen = sorted(row for row in some if row < rows) or [0]
        assert deal(tables, *chosen) == slow.deal(chosen)
