"""Packed matches are small, and unpacked as they were."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from ludus._store.match_arrays import NUMBERS_PER_ROW, MatchArrays, pack, unpack


@st.composite
def matches(draw, numbers=None):
    """Return matches with ascending numbers of one row, and any outcomes, ticks and statistics."""
    if numbers is None:
        numbers = sorted(draw(st.sets(st.integers(0, NUMBERS_PER_ROW - 1), min_size=1, max_size=40)))
    n, teams = len(numbers), 2
    points = draw(st.sampled_from([st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1, width=32)]))
    ticks = st.integers(1, draw(st.sampled_from([1, 42, 2**31 - 1])))
    names = draw(st.sets(st.sampled_from(["player/stones", "player/größe"])))
    return MatchArrays(
        number=np.array(numbers, np.int64),
        ticks=draw(arrays(np.int32, n, elements=ticks)),
        outcome=draw(arrays(np.float32, (n, teams), elements=points)),
        statistics={name: draw(arrays(np.float32, (n, 2), elements=st.floats(width=32))) for name in names},
    )


def assert_equal(one, other):
    """Compare matches bit by bit."""
    assert one.statistics.keys() == other.statistics.keys()
    for array, expected in zip(attrs.astuple(one)[:3], attrs.astuple(other)[:3], strict=True):
        assert array.dtype == expected.dtype
        assert array.tobytes() == expected.tobytes()
    for name, values in one.statistics.items():
        assert values.tobytes() == other.statistics[name].tobytes()


@settings(deadline=None, max_examples=80)
@given(matches(), st.integers(0, 10**12))
def test_packed_matches_are_unpacked_as_they_were(some, index):
    """For any numbers, ticks, outcomes and statistics, bit by bit."""
    first = index * NUMBERS_PER_ROW
    some = attrs.evolve(some, number=some.number + first)
    assert_equal(unpack(pack(some, first=first), first=first, num_teams=2), some)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_matches_are_merged_by_number(data):
    """Merging packed halves gives the row of all, whichever half comes first; missing statistics are NaN."""
    numbers = sorted(data.draw(st.sets(st.integers(0, NUMBERS_PER_ROW - 1), min_size=2, max_size=40)))
    is_first = data.draw(st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers)))
    halves = [[i for i, chosen in zip(numbers, is_first, strict=True) if chosen is half] for half in (True, False)]
    if not all(halves):
        return
    one, other = (data.draw(matches(numbers=half)) for half in halves)
    merged = one.merge(other)
    assert merged.number.tolist() == numbers
    for half in (one, other):
        rows = np.isin(merged.number, half.number)
        assert merged.outcome[rows].tobytes() == half.outcome.tobytes()
        assert merged.ticks[rows].tobytes() == half.ticks.tobytes()
        for name, values in merged.statistics.items():
            expected = half.statistics.get(name, np.full((len(half), 2), np.nan, np.float32))
            np.testing.assert_array_equal(values[rows], expected)
    assert [array.tobytes() for array in attrs.astuple(other.merge(one))[:3]] == [
        array.tobytes() for array in attrs.astuple(merged)[:3]
    ]


def test_a_match_of_a_board_game_takes_about_a_byte():
    """128 matches of 7 to 42 ticks with three outcomes: 6 and 2 bits a match, and 30 bytes."""
    rng = np.random.default_rng(0)
    wins = rng.integers(0, 3, 128) / 2
    some = MatchArrays(
        number=np.arange(128),
        ticks=rng.integers(7, 43, 128).astype(np.int32),
        outcome=np.stack([wins, 1 - wins], axis=1).astype(np.float32),
    )
    assert sum(len(column) for column in pack(some, first=0)[1:]) == 128 + 30


def test_outcomes_of_different_bits_stay_different():
    """0.0 and -0.0 are equal numbers."""
    some = MatchArrays(
        number=np.arange(2), ticks=np.ones(2, np.int32), outcome=np.array([[0.0, 1], [-0.0, 1]], np.float32)
    )
    assert_equal(unpack(pack(some, first=0), first=0, num_teams=2), some)


@pytest.mark.parametrize(
    "change",
    [
        {"played": 0},
        {"played": 3},
        {"played": 300},
        {"numbers": b"\x01"},
        {"numbers": b"\x07"},
        {"outcomes": b""},
        {"outcomes": b"\x01"},
        {"ticks": b"\x01\x00\x00\x00"},
        {"ticks": b"\x01\x00\x00\x00\x20" + bytes(8)},
        {"ticks": b"\x01\x00\x00\x00\x01"},
        {"statistics": b"no zlib data"},
    ],
)
def test_malformed_rows_are_refused(change):
    """The error is a `ValueError`."""
    some = MatchArrays(number=np.arange(2), ticks=np.array([1, 9], np.int32), outcome=np.eye(2, dtype=np.float32))
    with pytest.raises(ValueError, match=r".+"):
        unpack(pack(some, first=0)._replace(**change), first=0, num_teams=2)
